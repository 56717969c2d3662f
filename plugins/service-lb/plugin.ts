import { controllerAliases, controllerNames, defineController, skipped } from "cloud-controller-host/sdk";

import { serviceController } from "./controller.ts";
import { serviceSelection } from "./predicates.ts";
import { watchUnsupported } from "./unsupported.ts";

/** Keeps a load balancer at the cloud for every Service that wants one, and removes it with the Service. */
export default defineController({
  name: controllerNames.serviceLB,
  aliases: controllerAliases[controllerNames.serviceLB] ?? [],
  initContext: { clientName: "service-controller" },
  permissions: [
    { apiGroup: "", resources: ["services", "nodes"], verbs: ["list", "watch"] },
    { apiGroup: "", resources: ["services/status"], verbs: ["patch"] },
    { apiGroup: "", resources: ["events"], verbs: ["create", "patch"] },
  ],
  construct:
    (_initContext, { componentConfig }, { loadBalancers, name }) =>
    (context) => {
      if (loadBalancers !== undefined) return serviceController(context, loadBalancers, componentConfig);
      const reason = "the cloud provider does not support external load balancers";
      context.log.error("failed to start service controller", { error: reason });
      return skipped(
        reason,
        watchUnsupported(context, name, serviceSelection(componentConfig.serviceController, context.shards)),
      );
    },
});
