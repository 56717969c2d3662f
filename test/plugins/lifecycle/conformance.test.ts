import lifecycle from "../../../plugins/lifecycle/plugin.ts";
import { describeController } from "../../kit/conformance.ts";

describeController(lifecycle);
