import { describe, expect, test } from "bun:test";

import {
  isManagedProviderID,
  namesInstance,
  ownerOf,
  parseComputerName,
  parseOwn,
  parseProviderID,
  providerIDOf,
  scaleSetIdOf,
  vmIdOf,
} from "../../../../plugins/azure-cloud/instances/provider-id.ts";
import { processorMs } from "../../../kit/processor-time.ts";

const group = "/subscriptions/sub/resourceGroups/RG";
const vm = `${group}/providers/Microsoft.Compute/virtualMachines/vm1`;
const scaleSet = `${group}/providers/Microsoft.Compute/virtualMachineScaleSets/pool`;
const instance = `${scaleSet}/virtualMachines/7`;
const nic = `${group}/providers/Microsoft.Network/networkInterfaces/nic1`;

test("a provider ID has the resource group in lower case and keeps the rest of the ARM id", () => {
  expect(providerIDOf(vm)).toBe(`azure://${vm.replace("RG", "rg")}`);
  expect(() => providerIDOf("/subscriptions/sub")).toThrow('"/subscriptions/sub" is not the id of a VM');
});

test("a provider ID is that of a managed node, however ARM spells the id", () => {
  const spelled = "/Subscriptions/sub/resourcegroups/RG/Providers/microsoft.compute/virtualMachines/vm1";
  expect(providerIDOf(spelled)).toBe(providerIDOf(vm));
  expect(isManagedProviderID(providerIDOf(spelled))).toBeTrue();
  expect(() => providerIDOf(nic)).toThrow("is not the id of a VM");
});

test("a node has an ARM id only if its provider ID is one of Azure", () => {
  expect(vmIdOf({ spec: { providerID: `AZURE://${vm}` } })).toBe(vm);
  expect(vmIdOf({ spec: { providerID: "aws:///zone/i-1" } })).toBeUndefined();
  expect(vmIdOf({})).toBeUndefined();
  expect([`azure://${vm}`, `AZURE://${vm}`, `azure://${nic}`].map(isManagedProviderID)).toEqual([true, false, false]);
});

test("a provider ID is managed if it has upstream's parts in their order, on one line", () => {
  const managed = (providerID: string): boolean => isManagedProviderID(providerID);
  expect(managed("azure:///subscriptions//resourceGroups//providers/Microsoft.Compute/")).toBeTrue();
  expect(managed("azure:///subscriptions/a/b/resourceGroups/c/d/providers/Microsoft.Compute/x\ny")).toBeTrue();
  for (const providerID of [
    "",
    `x azure://${vm}`,
    "azure:///subscriptions/resourceGroups/providers/Microsoft.Compute/",
    "azure:///subscriptions/s/providers/Microsoft.Compute/virtualMachines/v/resourceGroups/g",
    `azure://${vm.replace("RG", "R\nG")}`,
    `azure://${vm.replace("/providers", "/Providers")}`,
  ])
    expect([providerID, managed(providerID)]).toEqual([providerID, false]);
});

test("a long provider ID that a kubelet has chosen takes little time", () => {
  const hostile = `azure:///subscriptions${"/resourceGroups/".repeat(12_500)}`;
  const read = (): void => {
    expect([isManagedProviderID(hostile), namesInstance(hostile), scaleSetIdOf(hostile)]).toEqual([
      false,
      false,
      undefined,
    ]);
    expect(() => providerIDOf(hostile)).toThrow();
  };
  expect(processorMs(read)).toBeLessThan(1_000);
});

test("only an instance of a uniform scale set has a scale set in its id", () => {
  expect(scaleSetIdOf(instance)).toBe(scaleSet);
  expect([vm, scaleSet, nic, "none"].map(scaleSetIdOf)).toEqual([undefined, undefined, undefined, undefined]);
  expect([instance, vm, scaleSet].map(namesInstance)).toEqual([true, false, false]);
});

describe("the owner of an IP configuration", () => {
  test("is the instance that has the network interface", () => {
    const id = `${instance}/networkInterfaces/nic0/ipConfigurations/ip0`;
    expect(ownerOf(id)).toEqual({ kind: "instance", id: instance, scaleSetId: scaleSet });
  });

  test("is a network interface of its own", () => {
    expect(ownerOf(`${nic}/ipConfigurations/ip0`)).toEqual({ kind: "interface", id: nic });
  });

  test("is unknown for the frontend of a load balancer", () => {
    const id = `${group}/providers/Microsoft.Network/loadBalancers/lb/frontendIPConfigurations/f`;
    expect([id, "none"].map(ownerOf)).toEqual([undefined, undefined]);
  });
});

describe("a provider ID is split", () => {
  test.each([
    [vm, { subscription: "sub", resourceGroup: "RG", name: "vm1" }],
    [instance, { subscription: "sub", resourceGroup: "RG", scaleSet: "pool", name: "7" }],
    [`${scaleSet}/virtualMachines/Pool_7`, { subscription: "sub", resourceGroup: "RG", scaleSet: "pool", name: "7" }],
  ])("into the parts of %s", (id, parts) => {
    expect(parseProviderID(`azure://${id}`)).toMatchObject(parts);
  });

  test.each([nic, scaleSet, `${scaleSet}/virtualMachines`, `${group}/providers/Microsoft.Compute/virtualMachines`])(
    "only if it names a VM: %s does not",
    (id) => {
      expect(() => parseProviderID(`azure://${id}`)).toThrow("it does not name a virtual machine");
    },
  );

  test("into the parts of a VM in the config's own subscription, and of no other", () => {
    expect(parseOwn(`azure://${vm}`, "SUB").name).toBe("vm1");
    expect(() => parseOwn(`azure://${vm}`, "other")).toThrow("is in another subscription than this config's (other)");
  });
});

test("a computer name ends with the instance id in six digits of base 36", () => {
  expect(parseComputerName("aks-pool-vmss00000z")).toEqual({ prefix: "aks-pool-vmss", instanceId: "35" });
  expect(parseComputerName("pool-00_00z")).toBeUndefined();
});
