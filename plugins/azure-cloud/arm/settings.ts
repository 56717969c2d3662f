import { isObject } from "cloud-controller-host/sdk";

import type { JsonObject } from "../json.ts";

/**
 * Properties that ARM fills and a write ignores, at any depth. Source: `readOnly` in the published definitions of the
 * resources that we write.
 */
const readOnly = new Set([
  "alias",
  "appliedDnsServers",
  "backendIPConfiguration",
  "backendIPConfigurations",
  "defaultOutboundConnectivityEnabled",
  "defaultSecurityRules",
  "dscpConfiguration",
  "etag",
  "flowLogs",
  "hasBgpOverride",
  "hostedWorkloads",
  "inboundNatRulesPortMapping",
  "instanceView",
  "internalDomainNameSuffix",
  "ipConfiguration",
  "ipConfigurations",
  "latestModelApplied",
  "macAddress",
  "modelDefinitionApplied",
  "networkInterfaceIPConfiguration",
  "networkInterfaces",
  "privateEndpoint",
  "privateEndpointConnections",
  "privateLinkConnectionProperties",
  "provisioningState",
  "resourceGuid",
  "systemData",
  "tapConfigurations",
  "timeCreated",
  "uniqueId",
  "virtualMachine",
  "vmId",
]);

/** Types whose `ipConfigurations` are settings: for others they are references back. */
const hasOwnIpConfigurations = /\/(?:networkinterfaces|privatelinkservices|virtualmachines|virtualmachinescalesets)$/u;

/** References that ARM fills beside a resource's own settings, by the list that the resource is in. */
const referencesBack: Readonly<Record<string, readonly string[]>> = {
  frontendIPConfigurations: ["inboundNatPools", "inboundNatRules", "loadBalancingRules", "outboundRules"],
  backendAddressPools: ["inboundNatRules", "loadBalancingRules", "outboundRule", "outboundRules"],
  probes: ["loadBalancingRules"],
};

/** The settings of a resource: what a write decides, without what ARM fills. `type` in lower case. */
export function settingsOf(resource: JsonObject, type: string): JsonObject {
  const keep = hasOwnIpConfigurations.test(type) ? "ipConfigurations" : undefined;
  const { id: _id, name: _name, type: _type, ...rest } = resource;
  // An interface is primary by the VM that it belongs to; which of its configurations is, is a setting.
  const { primary: _primary, ...settings } = stripped(rest, [], keep);
  return settings;
}

function stripped(from: JsonObject, also: readonly string[], keep: string | undefined): JsonObject {
  const entries = Object.entries(from).flatMap(([key, value]): readonly [string, unknown][] => {
    if ((readOnly.has(key) && key !== keep) || also.includes(key) || value === null || value === undefined) return [];
    // As people and the SDK write it: without the level of `properties`.
    if (key === "properties" && isObject(value)) return Object.entries(stripped(value, also, keep));
    const kept = isFilled(key, value, from) ? undefined : strippedValue(key, value, keep);
    return kept === undefined ? [] : [[key, kept]];
  });
  return Object.fromEntries(entries);
}

/** Settings that ARM adds where a write has none: the regional tier, and the pool of a rule once more as a list. */
function isFilled(key: string, value: unknown, from: JsonObject): boolean {
  if (key === "tier") return value === "Regional";
  if (key !== "backendAddressPools" || !Array.isArray(value) || value.length !== 1) return false;
  const [only]: readonly unknown[] = value;
  return isObject(only) && "id" in only && Bun.deepEquals(from["backendAddressPool"], only);
}

/** Undefined for an empty list, which means the same as none. */
function strippedValue(key: string, value: unknown, keep: string | undefined): unknown {
  if (!Array.isArray(value)) return isObject(value) ? stripped(value, [], keep) : value;
  const items = value
    .map((item: unknown) => (isObject(item) ? strippedItem(item, referencesBack[key] ?? [], keep) : item))
    .filter((item) => key !== "loadBalancerBackendAddresses" || hasSettings(item));
  return items.length === 0 ? undefined : items;
}

/** ARM lists the interfaces of a pool among its addresses, where they have a name and nothing that was set. */
const hasSettings = (item: unknown): boolean => isObject(item) && Object.keys(item).some((key) => key !== "name");

/** An item of a list: identified by its name where it has one, else by its id. */
function strippedItem(item: JsonObject, also: readonly string[], keep: string | undefined): JsonObject {
  const { id, type: _type, ...rest } = item;
  return stripped("name" in item ? rest : { id, ...rest }, also, keep);
}
