import cloudNode from "../../../plugins/cloud-node/plugin.ts";
import { describeController } from "../../kit/conformance.ts";

describeController(cloudNode);
