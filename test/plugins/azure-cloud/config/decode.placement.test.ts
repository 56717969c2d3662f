import { describe, expect, test } from "bun:test";

import { decodeConfig, placementKeys } from "../../../../plugins/azure-cloud/config/decode.ts";
import { configSchema } from "../../../../plugins/azure-cloud/config/schema.ts";
import { unknownNodes } from "../../../../plugins/azure-cloud/instances/vm-types.ts";
import azure from "../../../../plugins/azure-cloud/plugin.ts";
import { nameOf } from "../../../../plugins/azure-cloud/removal-guard/items.ts";

const base = {
  tenantId: "t",
  subscriptionId: "s",
  resourceGroup: "rg",
  location: "eastus",
  useManagedIdentityExtension: true,
  loadBalancerBackendPoolConfigurationType: "nodeIP",
};
const placementOf = (document: Readonly<Record<string, unknown>>) => azure.placementOf?.(document, {});

const other: Readonly<Record<string, unknown>> = {
  loadBalancerBackendPoolConfigurationType: "nodeIPConfiguration",
  loadBalancerSku: "basic",
  multipleStandardLoadBalancerConfigurations: [{ name: "a", primaryVMSet: "b" }],
  vmType: "standard",
};

test("a vmType without scale sets knows no instance of one, and every other knows all nodes", () => {
  const uniform =
    "azure:///subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/a/virtualMachines/0";
  const nodes = [uniform, uniform.replace(/virtualMachineScaleSets\/a\//u, ""), ""].map((providerID, index) => ({
    metadata: { name: `n${index}` },
    spec: { providerID },
  }));
  const unknown = (vmType: string): readonly string[] => {
    const decoded = decodeConfig({ ...base, vmType }, {});
    if (!decoded.ok) throw new Error(decoded.problems.join());
    return unknownNodes(decoded.value, nodes).before.map(nameOf);
  };
  expect(["vmss", "standard", "vmssflex"].map(unknown)).toEqual([[], ["n0"], ["n0"]]);
});

describe("the placement of resources", () => {
  test("is the same for the same config in other words", () => {
    expect(placementOf(base)).toBeDefined();
    const { resourceGroup: _group, ...rest } = base;
    expect(placementOf({ ...rest, RESOURCEGROUP: "RG", unknownKey: 1 })).toBe(placementOf(base));
  });

  for (const key of placementKeys)
    test(`is another one with another ${key}`, () => {
      const changed = placementOf({ ...base, [key]: other[key] ?? "other" });
      expect(changed).toBeDefined();
      expect(changed).not.toBe(placementOf(base));
    });

  test("is the same with another TTL, tag or limit", () => {
    for (const [key, value] of [
      ["nsgCacheTTLInSeconds", 7],
      ["tags", "a=b"],
      ["removalGuardMaxRemovals", 3],
    ] as const)
      expect(placementOf({ ...base, [key]: value })).toBe(placementOf(base));
  });

  test("lacks of all names, groups and kinds of the config only those of networks and edge zones, and where the config is", () => {
    const isPlace = (key: string): boolean => /(?:group|name|subscriptionId|sku|type|endpoint|cloud)$/iu.test(key);
    const placing = new Set<string>(placementKeys);
    expect(Object.keys(configSchema.properties).filter((key) => isPlace(key) && !placing.has(key))).toEqual([
      "disableAzureStackCloud",
      "cloudConfigType",
      "extendedLocationName",
      "extendedLocationType",
      "vnetName",
      "vnetResourceGroup",
      "subnetName",
    ]);
  });

  test("has only keys of the config", () => {
    expect(placementKeys.filter((key) => !(key in configSchema.properties))).toEqual([]);
  });
});
