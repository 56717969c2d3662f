import { expect, test } from "bun:test";

import {
  groupsInUse,
  neededReads,
  zonesInUse,
} from "../../../../../../plugins/azure-cloud/load-balancer/reconcile/observe/needed-reads.ts";
import { intentOf, plannerConfigOf } from "../../fixtures.ts";

test("one external Service needs the cluster's resource groups and no subnet", () => {
  expect(neededReads([intentOf({})], plannerConfigOf())).toEqual({
    publicIPResourceGroups: ["rg0"],
    privateLinkResourceGroups: ["rg0"],
    subnets: [],
    namespaces: [],
  });
});

test("Services that name other resource groups and subnets have them read, each once", () => {
  const internal = { "azure-load-balancer-internal": "true", "azure-load-balancer-internal-subnet": "lb-subnet" };
  const needed = neededReads(
    [
      intentOf({ annotations: { "azure-load-balancer-resource-group": "IPs", "azure-pls-create": "True" } }),
      intentOf({ name: "b", annotations: { ...internal, "azure-pls-resource-group": "Links" } }),
      intentOf({ name: "c", annotations: internal }),
    ],
    plannerConfigOf(),
  );
  expect(needed.publicIPResourceGroups).toEqual(["rg0", "ips"]);
  expect(needed.privateLinkResourceGroups).toEqual(["rg0", "links"]);
  expect(needed.subnets).toEqual(["subnet0", "lb-subnet"]);
});

test("namespaces are read only for namespace selectors, and never for deletions", () => {
  const multiple = plannerConfigOf({
    loadBalancerBackendPoolConfigurationType: "nodeIP",
    multipleStandardLoadBalancerConfigurations: [
      { name: "kubernetes", primaryVMSet: "vmss0", serviceNamespaceSelector: { matchLabels: { a: "b" } } },
    ],
  });
  expect(neededReads([intentOf({})], multiple).namespaces).toEqual(["default"]);
  expect(neededReads([intentOf({ action: "delete" })], multiple).namespaces).toEqual([]);
  expect(neededReads([intentOf({})], plannerConfigOf()).namespaces).toEqual([]);
});

test("zones in use are those of a frontend of a Service in several, not of one that is in a single zone or a user's", () => {
  const name = `a${"0".repeat(31)}`;
  const frontends = [
    { name: "users", zones: ["4", "5"] },
    { name, zones: ["2"] },
  ];
  expect(zonesInUse([{ frontendIPConfigurations: frontends }])).toEqual([]);
  const several = { name: `${name}-lb-subnet`, zones: ["3", "1"] };
  expect(zonesInUse([{}, { frontendIPConfigurations: [...frontends, several] }])).toEqual(["1", "3"]);
});

test("resource groups in use are those of the public IPs of frontends with such a name", () => {
  const frontend = (name: string, group: string) => ({
    name,
    publicIPAddress: { id: `/subscriptions/s/resourceGroups/${group}/providers/Microsoft.Network/publicIPAddresses/x` },
  });
  const loadBalancers = [
    { frontendIPConfigurations: [frontend("a", "Other"), frontend("a", "other"), frontend("users", "theirs")] },
    { frontendIPConfigurations: [{ name: "a" }] },
    {},
  ];
  expect(groupsInUse(loadBalancers, (name) => name === "a")).toEqual(["other"]);
});
