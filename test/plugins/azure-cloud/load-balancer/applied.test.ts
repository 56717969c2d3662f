import { expect, test } from "bun:test";

import type { Observed } from "../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import type { Plan } from "../../../../plugins/azure-cloud/load-balancer/model/plan-model.ts";
import { applied } from "./applied.ts";

const nothing: Observed = {
  loadBalancers: [],
  publicIPs: [],
  securityGroup: undefined,
  privateLinkServices: [],
  subnets: new Map(),
  zones: [],
  services: [],
  nodes: [],
  deletedNodes: new Set(),
  poolMembers: new Map(),
  vmSets: new Map(),
  endpointNodes: new Map(),
  namespaceLabels: new Map(),
};

test("the applied state gives a public IP an address and shows which frontend uses it", () => {
  const common = { resourceGroup: "rg0", services: ["default/web"] };
  const plan: Plan = {
    results: new Map(),
    nodeEvents: new Map(),
    stages: [
      { name: "public-ips", writes: [{ ...common, kind: "put-public-ip", id: "/ip", name: "ip", body: {} }] },
      {
        name: "load-balancers",
        writes: [
          {
            ...common,
            kind: "put-load-balancer",
            id: "/lb",
            name: "lb",
            body: { frontendIPConfigurations: [{ name: "web", publicIPAddress: { id: "/IP" } }] },
          },
        ],
      },
    ],
  };
  const [publicIP] = applied(nothing, plan).publicIPs;
  expect(publicIP?.ipAddress).toBe("20.0.0.1");
  expect(publicIP?.ipConfiguration?.id).toBe("/lb/frontendIPConfigurations/web");
});
