import { describe, expect, test } from "bun:test";

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

  test("takes the primary set by vmType", () => {
    const names = { primaryAvailabilitySetName: "as0", primaryScaleSetName: "vmss0" };
    expect(plannerConfigOf({ ...names, vmType: "standard" }).primaryVMSet).toBe("as0");
    expect(plannerConfigOf({ ...names, vmType: "vmss" }).primaryVMSet).toBe("vmss0");
  });
});
