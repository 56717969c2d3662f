import { controllerAliases, controllerNames, defineController, skipped } from "cloud-controller-host/sdk";

import { lifecycleController } from "./controller.ts";
import { optionsSchema } from "./options.ts";

/** Deletes nodes whose instance is gone, and taints nodes whose instance is shut down. */
export default defineController({
  name: controllerNames.cloudNodeLifecycle,
  aliases: controllerAliases[controllerNames.cloudNodeLifecycle] ?? [],
  initContext: { clientName: "node-controller" },
  configSchema: optionsSchema,
  permissions: [
    { apiGroup: "", resources: ["nodes"], verbs: ["get", "list", "watch", "patch", "delete"] },
    { apiGroup: "", resources: ["events"], verbs: ["create", "patch"] },
  ],
  construct:
    (_initContext, { componentConfig, own }, cloud) =>
    (context) =>
      cloud.instances === undefined
        ? skipped(`cloud provider "${cloud.name}" does not support instances`)
        : lifecycleController(context, cloud.instances, {
            ...own,
            periodMs: componentConfig.kubeCloudShared.nodeMonitorPeriodMs,
          }),
});
