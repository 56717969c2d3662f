import plugin from "../../../plugins/route/plugin.ts";
import { describeController } from "../../kit/conformance.ts";

describeController(plugin);
