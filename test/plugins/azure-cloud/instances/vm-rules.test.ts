import { describe, expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { SharedRead } from "../../../../plugins/azure-cloud/arm/reads/shared-read.ts";
import {
  instanceRecord,
  type InterfaceRecord,
  type IPConfigurationRecord,
} from "../../../../plugins/azure-cloud/instances/records.ts";
import { vmPrivateIPs } from "../../../../plugins/azure-cloud/instances/vm-addresses.ts";
import {
  isShutDown,
  primaryConfiguration,
  primaryInterface,
  zoneOf,
} from "../../../../plugins/azure-cloud/instances/vm-rules.ts";

describe("the primary network interface", () => {
  const nic = (id: string, primary: boolean) => ({ id, primary });

  test("is the only one, marked or not", () => {
    expect(primaryInterface([nic("a", false)], "vm").id).toBe("a");
    expect(primaryInterface([nic("a", true)], "vm").id).toBe("a");
  });

  test("is the marked one of several, wherever it stands", () => {
    expect(primaryInterface([nic("a", false), nic("b", true)], "vm").id).toBe("b");
    expect(primaryInterface([nic("a", true), nic("b", false)], "vm").id).toBe("a");
  });

  test("the primary network interface of several without a mark, or of none, is an error that names the VM", () => {
    const message = "failed to find a primary network interface of vm";
    expect(() => primaryInterface([nic("a", false), nic("b", false)], "vm")).toThrow(message);
    expect(() => primaryInterface([], "vm")).toThrow(message);
  });
});

describe("the primary IP configuration", () => {
  const configuration = (privateIP: string, primary: boolean): IPConfigurationRecord => ({
    privateIP,
    primary,
    publicIPId: undefined,
  });
  const nic = (...ipConfigurations: readonly IPConfigurationRecord[]): InterfaceRecord => ({
    id: "nic",
    provisioningState: "Succeeded",
    ipConfigurations,
  });

  test("is the only one, marked or not, or the marked one of several", () => {
    expect(primaryConfiguration(nic(configuration("a", false))).privateIP).toBe("a");
    expect(primaryConfiguration(nic(configuration("a", false), configuration("b", true))).privateIP).toBe("b");
  });

  test("the primary IP configuration of several without a mark, or of none, is an error that names the interface", () => {
    const message = "failed to determine the primary ip configuration of nic";
    expect(() => primaryConfiguration(nic(configuration("a", false), configuration("b", false)))).toThrow(message);
    expect(() => primaryConfiguration(nic())).toThrow(message);
  });
});

describe("the zone", () => {
  const vm = (zone: string | undefined) => ({ location: "EastUS", zone });
  test.each([
    ["of a VM in a zone wins over its fault domain", vm("2"), 99, "eastus-2"],
    ["is a number, as Go reads it", vm("02"), undefined, "eastus-2"],
    ["of a VM outside zones is its fault domain", vm(undefined), 3, "3"],
    ["of a VM without either is unknown", vm(undefined), undefined, undefined],
  ])("%s", (_name, given, faultDomain, zone) => expect(zoneOf(given, faultDomain)).toBe(zone));

  test("the zone that is not a number is an error", () => {
    expect(() => zoneOf(vm("a"), 1)).toThrow('failed to parse zone "a"');
  });
});

test.each([
  ["Succeeded", "stopped", true],
  ["succeeded", "deallocated", true],
  ["Succeeded", "deallocating", true],
  ["Succeeded", "stopping", false],
  ["Succeeded", "unknown", false],
  ["Updating", "stopped", false],
  ["", "deallocated", false],
])("a VM with provisioning state %p and power state %p is shut down: %p", (provisioningState, powerState, wanted) => {
  expect(isShutDown({ provisioningState, powerState })).toBe(wanted);
});

test("an ip configuration that has no private address yet is not one of the VM's addresses", async () => {
  const ipConfigurations = [
    { primary: true, privateIP: "", publicIPId: undefined },
    { primary: false, privateIP: "fd00::4", publicIPId: undefined },
  ];
  const clock = manualClock();
  const interfaces = new SharedRead<ReadonlyMap<string, InterfaceRecord>>({
    clock,
    ttlMs: 1_000,
    read: async () => new Map([["nic", { id: "nic", provisioningState: "Succeeded", ipConfigurations }]]),
  });
  const publicAddresses = new SharedRead<ReadonlyMap<string, string>>({
    clock,
    ttlMs: 1_000,
    read: async () => new Map(),
  });
  const vm = { id: "vm", interfaces: [{ id: "nic", primary: true }] };
  expect(await vmPrivateIPs(vm, () => ({ interfaces, publicAddresses }), "cached")).toEqual(["fd00::4"]);
});

test("an instance without a network profile cannot be a node", () => {
  const vm = { id: "/vm/7", location: "eastus", osProfile: { computerName: "VM7" } };
  expect(instanceRecord(vm)).toBeUndefined();
  expect(instanceRecord({ ...vm, networkProfile: { networkInterfaces: [] } })).toMatchObject({
    instanceId: "7",
    nodeName: "vm7",
  });
});
