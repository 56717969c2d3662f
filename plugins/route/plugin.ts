import { controllerAliases, controllerNames, defineController, skipped } from "cloud-controller-host/sdk";

import { readClusterCIDRs } from "./cluster-cidrs.ts";
import { routeController } from "./controller.ts";

/** Maintains one cloud route per node and pod CIDR, and the nodes' condition NetworkUnavailable. */
export default defineController({
  name: controllerNames.nodeRoute,
  aliases: controllerAliases[controllerNames.nodeRoute] ?? [],
  initContext: { clientName: "route-controller" },
  permissions: [
    { apiGroup: "", resources: ["nodes"], verbs: ["list", "watch"] },
    { apiGroup: "", resources: ["nodes/status"], verbs: ["patch"] },
    { apiGroup: "", resources: ["events"], verbs: ["create", "patch"] },
  ],
  construct:
    (_initContext, config, { name, routes }) =>
    (context) => {
      const { configureCloudRoutes, clusterCIDR } = config.componentConfig.kubeCloudShared;
      if (!configureCloudRoutes) return skipped("--configure-cloud-routes is false");
      if (routes === undefined)
        return skipped(`--configure-cloud-routes is set, but cloud provider "${name}" does not support routes`);
      return routeController(context, routes, readClusterCIDRs(clusterCIDR), config);
    },
});
