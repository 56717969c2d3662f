import { controllerAliases, controllerNames, defineController, skipped } from "cloud-controller-host/sdk";

import { nodeController } from "./controller.ts";

/** Initializes nodes with the uninitialized taint, and keeps addresses and labels up to date. */
export default defineController({
  name: controllerNames.cloudNode,
  aliases: controllerAliases[controllerNames.cloudNode] ?? [],
  initContext: { clientName: "node-controller" },
  permissions: [
    { apiGroup: "", resources: ["nodes"], verbs: ["get", "list", "watch", "patch"] },
    { apiGroup: "", resources: ["nodes/status"], verbs: ["patch"] },
    { apiGroup: "", resources: ["events"], verbs: ["create", "patch"] },
  ],
  construct:
    (_initContext, { componentConfig }, cloud) =>
    (context) =>
      cloud.instances === undefined
        ? skipped(`cloud provider "${cloud.name}" does not support instances`)
        : nodeController(context, cloud.instances, componentConfig),
});
