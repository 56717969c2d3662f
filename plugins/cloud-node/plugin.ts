import { controllerAliases, controllerNames, defineController, skipped } from "cloud-controller-host/sdk";

import { nodeController } from "./controller.ts";

/** Initialises nodes that wait for the cloud, and keeps their addresses and labels in step with it. */
export default defineController({
  name: controllerNames.cloudNode,
  aliases: controllerAliases[controllerNames.cloudNode] ?? [],
  initContext: { clientName: "node-controller" },
  permissions: [
    { apiGroup: "", resources: ["nodes"], verbs: ["get", "list", "watch", "update", "patch"] },
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
