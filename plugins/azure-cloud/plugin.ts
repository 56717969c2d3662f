import { defineCloud } from "cloud-controller-host/sdk";

import { type AzureConfig, decodeConfig, placementOf } from "./config/decode.ts";
import { configSchema } from "./config/schema.ts";

/** Azure: nodes, load balancers and routes, through Azure Resource Manager. */
export default defineCloud<AzureConfig>({
  name: "azure",
  configSchema,
  permissions: [
    { apiGroup: "", resources: ["nodes"], verbs: ["get", "list", "watch", "patch"] },
    // The Lease by which AKS and the cloud take turns at writing load balancers.
    { apiGroup: "coordination.k8s.io", resources: ["leases"], verbs: ["create"], namespace: "kube-system" },
    {
      apiGroup: "coordination.k8s.io",
      resources: ["leases"],
      verbs: ["get", "update"],
      resourceNames: ["aks-managed-resource-locker"],
      namespace: "kube-system",
    },
    // The removal guard reads a Service by itself before it takes it for deleted.
    { apiGroup: "", resources: ["services"], verbs: ["get"] },
    // The record of the addresses that are opened for a Service in a security group that deployments share.
    { apiGroup: "", resources: ["services/status"], verbs: ["patch"] },
    // For multiple load balancers with selectors and local Services.
    { apiGroup: "", resources: ["namespaces"], verbs: ["list", "watch"] },
    { apiGroup: "discovery.k8s.io", resources: ["endpointslices"], verbs: ["list", "watch"] },
  ],
  decode: decodeConfig,
  create: async (config, context) => (await import("./cloud.ts")).createCloud(config, context),
  checkAccess: async (config, context) => (await import("./arm/check-access.ts")).checkAccess(config, context),
  placement: placementOf,
  annotations: async () => (await import("./load-balancer/service/annotation-help.ts")).annotationHelp(),
  plans: true,
  simulate: async (options) => (await import("./simulator/simulator.ts")).startSimulator(options),
});
