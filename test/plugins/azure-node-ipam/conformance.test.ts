import plugin from "../../../plugins/azure-node-ipam/plugin.ts";
import { describeController } from "../../kit/conformance.ts";

describeController(plugin);
