import { describe, expect, test } from "bun:test";

import { drainRecord } from "../../../../../plugins/azure-cloud/load-balancer/model/drain.ts";
import { hasNameOfNeighbor } from "../../../../../plugins/azure-cloud/load-balancer/model/planner-config.ts";
import { plannerConfigOf } from "../fixtures.ts";

describe("planner config", () => {
  test("uses the cluster's resource group and subscription where no other is set", () => {
    const config = plannerConfigOf({ resourceGroup: "RG0" });
    expect(config.loadBalancerResourceGroup).toBe("rg0");
    expect(config.privateLinkResourceGroup).toBe("rg0");
    expect(config.virtualNetwork.resourceGroup).toBe("rg0");
    expect(config.networkSubscription).toBe("sub0");
    expect(config.sku).toBe("standard");
    expect(config.excludeControlPlane).toBe(true);
  });

  test("keeps resource groups and the network subscription that are set", () => {
    const config = plannerConfigOf({
      loadBalancerResourceGroup: "LBs",
      vnetResourceGroup: "Net",
      networkResourceSubscriptionID: "sub1",
    });
    expect([config.loadBalancerResourceGroup, config.virtualNetwork.resourceGroup]).toEqual(["lbs", "net"]);
    expect([config.computeSubscription, config.networkSubscription]).toEqual(["sub0", "sub1"]);
  });

  test("ignores standard-only settings with the basic SKU", () => {
    const config = plannerConfigOf({ loadBalancerSku: "Basic" });
    expect([config.sku, config.excludeControlPlane, config.disableOutboundSnat]).toEqual(["basic", false, false]);
  });

  test.each([
    ["", false, false],
    ["internal", true, false],
    ["external", false, true],
    ["all", true, true],
  ])("preConfiguredBackendPoolLoadBalancerTypes %p", (types, internal, external) => {
    expect(plannerConfigOf({ preConfiguredBackendPoolLoadBalancerTypes: types }).preConfiguredPools).toEqual({
      internal,
      external,
    });
  });

  test("names load balancers and records of drains after the deployment", () => {
    const isAlive = async (): Promise<boolean> => true;
    const namesOf = (deployment: Parameters<typeof plannerConfigOf>[2]): unknown => {
      const { loadBalancerName, shardSuffix, drainRecord: record } = plannerConfigOf({}, "kubernetes", deployment);
      return [loadBalancerName, shardSuffix, record];
    };
    expect(namesOf({})).toEqual(["", undefined, drainRecord]);
    expect(namesOf({ shard: "", shards: { own: "ccm" } })).toEqual(["", "", drainRecord]);
    expect(namesOf({ shard: "blue", shards: { own: "ccm-blue", isAlive } })).toEqual([
      "kubernetes-blue",
      "-blue",
      `${drainRecord}-blue`,
    ]);
    expect(namesOf({ shards: { own: "ccm-internal", isAlive } })).toEqual([
      "",
      undefined,
      `${drainRecord}.ccm-internal`,
    ]);
  });

  test("takes the primary set by vmType", () => {
    const names = { primaryAvailabilitySetName: "as0", primaryScaleSetName: "vmss0" };
    expect(plannerConfigOf({ ...names, vmType: "standard" }).primaryVMSet).toBe("as0");
    expect(plannerConfigOf({ ...names, vmType: "vmss" }).primaryVMSet).toBe("vmss0");
  });
});

test.each([
  ["", "kubernetes-blue", true],
  ["", "kubernetes-blue-internal", true],
  ["", "kubernetes-internal", false],
  ["", "kubernetesblue", false],
  ["", "other", false],
  ["blue", "kubernetes", true],
  ["blue", "Kubernetes-internal", true],
  ["blue", "kubernetes-green", true],
  ["blue", "kubernetes-blue", false],
  ["blue", "kubernetes-former-blue", false],
  ["blue", "other", false],
])("beside shard %p, the load balancer %s has the name of another deployment's: %p", (shard, name, expected) => {
  const several = {
    loadBalancerBackendPoolConfigurationType: "nodeIP",
    multipleStandardLoadBalancerConfigurations: [{ name: "kubernetes", primaryVMSet: "vmss0" }],
  };
  expect(hasNameOfNeighbor(name, plannerConfigOf({}, "kubernetes", { shard }))).toBe(expected);
  expect(hasNameOfNeighbor(name, plannerConfigOf(several, "kubernetes", { shard }))).toBe(expected);
});

test("a load balancer of several has no name of another deployment's, though it begins with the name of another one of them", () => {
  const names = ["kubernetes", "kubernetes-second"];
  const config = plannerConfigOf({
    loadBalancerBackendPoolConfigurationType: "nodeIP",
    multipleStandardLoadBalancerConfigurations: names.map((name) => ({ name, primaryVMSet: name })),
  });
  const isOfNeighbor = (name: string): boolean => hasNameOfNeighbor(name, config);
  expect(["Kubernetes-Second", "kubernetes-second-internal"].map(isOfNeighbor)).toEqual([false, false]);
  expect(isOfNeighbor("kubernetes-third")).toBe(true);
});
