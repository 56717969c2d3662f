import { describe, test } from "bun:test";

import { webhookConformance } from "cloud-controller-host/sdk/testing";

import plugin from "./plugin.ts";

const annotations = { "service.beta.kubernetes.io/azure-load-balancer-internal": "true" };
const service = (type: string, metadata = {}) => ({
  kind: "Service",
  metadata: { name: "web", ...metadata },
  spec: { type },
});

describe("webhook conformance", () => {
  const cases = [
    { name: "allows a ClusterIP Service", object: service("ClusterIP"), allowed: true },
    { name: "denies a public load balancer", object: service("LoadBalancer"), allowed: false },
    { name: "allows an internal load balancer", object: service("LoadBalancer", { annotations }), allowed: true },
  ];
  for (const { name, run } of webhookConformance(plugin, { cases })) test(name, run);
});
