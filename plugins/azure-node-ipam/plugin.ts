import { controllerAliases, controllerNames, defineController, skipped } from "cloud-controller-host/sdk";

import { leaseName } from "./allocation/other-allocator.ts";
import { ipamController } from "./controller.ts";
import { readSettings } from "./settings.ts";

/** Allocates pod CIDRs to nodes from the cluster CIDRs. */
export default defineController({
  name: controllerNames.nodeIPAM,
  aliases: controllerAliases[controllerNames.nodeIPAM] ?? [],
  initContext: { clientName: "node-controller" },
  permissions: [
    { apiGroup: "", resources: ["nodes"], verbs: ["get", "list", "watch", "patch"] },
    { apiGroup: "", resources: ["nodes/status"], verbs: ["patch"] },
    { apiGroup: "", resources: ["events"], verbs: ["create", "patch"] },
    {
      apiGroup: "coordination.k8s.io",
      resources: ["leases"],
      verbs: ["get"],
      resourceNames: [leaseName.name],
      namespace: leaseName.namespace,
    },
  ],
  construct:
    (_initContext, { componentConfig }, cloud) =>
    (context) =>
      componentConfig.kubeCloudShared.allocateNodeCIDRs
        ? ipamController(context, cloud, readSettings(componentConfig, context.log))
        : skipped("--allocate-node-cidrs is false"),
});
