import plugin from "../../../plugins/service-lb/plugin.ts";
import { describeController } from "../../kit/conformance.ts";

describeController(plugin);
