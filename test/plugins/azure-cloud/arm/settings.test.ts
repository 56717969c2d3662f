import { expect, test } from "bun:test";

import { settingsOf } from "../../../../plugins/azure-cloud/arm/settings.ts";

test("the settings of a resource lack the regional tier, which ARM adds, and keep another tier and the same word elsewhere", () => {
  const ofTier = (tier: string) =>
    settingsOf({ name: "pip", sku: { name: "Standard", tier } }, "microsoft.network/publicipaddresses")["sku"];
  expect(ofTier("Regional")).toEqual({ name: "Standard" });
  expect(ofTier("Global")).toEqual({ name: "Standard", tier: "Global" });
  const tags = { scope: "Regional" };
  expect(settingsOf({ tags }, "microsoft.network/publicipaddresses")["tags"]).toEqual(tags);
});

test("the settings of a pool lack the interfaces that ARM lists among its addresses, and keep the addresses", () => {
  const withAddresses = (...loadBalancerBackendAddresses: readonly object[]) => ({
    properties: { backendAddressPools: [{ name: "pool", properties: { loadBalancerBackendAddresses } }] },
  });
  const address = { name: "a", properties: { ipAddress: "10.0.0.4" } };
  const type = "microsoft.network/loadbalancers";
  expect(settingsOf(withAddresses({ name: "nic" }, address), type)).toEqual(settingsOf(withAddresses(address), type));
  expect(JSON.stringify(settingsOf(withAddresses(address), type))).toContain("10.0.0.4");
  expect(JSON.stringify(settingsOf(withAddresses({ name: "nic" }), type))).not.toContain("nic");
});
