import { isObject, type JsonObject } from "../json.ts";

/**
 * Properties that ARM fills and a write ignores, at any depth. Source: `readOnly` in the published definitions of the
 * resources that we write.
 */
const readOnly = new Set([
  "backendIPConfigurations",
  "etag",
  "instanceView",
  "ipConfiguration",
  "ipConfigurations",
  "latestModelApplied",
  "networkInterfaces",
  "provisioningState",
  "resourceGuid",
  "timeCreated",
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
  return stripped(rest, [], keep);
}

function stripped(from: JsonObject, also: readonly string[], keep: string | undefined): JsonObject {
  const entries = Object.entries(from).flatMap(([key, value]): readonly [string, unknown][] => {
    if ((readOnly.has(key) && key !== keep) || also.includes(key) || value === null || value === undefined) return [];
    // As people and the SDK write it: without the level of `properties`.
    if (key === "properties" && isObject(value)) return Object.entries(stripped(value, also, keep));
    return [[key, strippedValue(key, value, keep)]];
  });
  return Object.fromEntries(entries);
}

function strippedValue(key: string, value: unknown, keep: string | undefined): unknown {
  if (Array.isArray(value))
    return value.map((item: unknown) => (isObject(item) ? strippedItem(item, referencesBack[key] ?? [], keep) : item));
  return isObject(value) ? stripped(value, [], keep) : value;
}

/** An item of a list: identified by its name where it has one, else by its id. */
function strippedItem(item: JsonObject, also: readonly string[], keep: string | undefined): JsonObject {
  const { id, type: _type, ...rest } = item;
  return stripped("name" in item ? rest : { id, ...rest }, also, keep);
}
