import { isObject } from "cloud-controller-host/sdk";

import type { Observed } from "../../../../plugins/azure-cloud/load-balancer/model/model.ts";

/** Fields that ARM fills in or that say nothing. */
const ignored = new Set([
  "id",
  "etag",
  "type",
  "provisioningState",
  "backendIPConfigurations",
  "ipConfiguration",
  "fqdn",
  "alias",
  "ipAddress",
]);

/**
 * The resources by what they mean: addresses that ARM handed out by the resource that has them, lists as sets, without
 * ids and back-references.
 */
export function meaningOf(observed: Observed): unknown {
  const roles = new Map<string, string>();
  for (const { name, ipAddress } of observed.publicIPs) if (ipAddress) roles.set(ipAddress, `address of ${name}`);
  for (const { frontendIPConfigurations = [] } of observed.loadBalancers)
    for (const { name, privateIPAddress, privateIPAllocationMethod } of frontendIPConfigurations)
      if (privateIPAddress && privateIPAllocationMethod === "Dynamic")
        roles.set(privateIPAddress, `address of ${name}`);
  const members = [...observed.poolMembers].filter(([, list]) => list.length > 0);
  const meaning = {
    loadBalancers: observed.loadBalancers,
    publicIPs: observed.publicIPs,
    securityGroup: observed.securityGroup,
    privateLinkServices: observed.privateLinkServices,
    members: Object.fromEntries(members.map(([id, list]) => [id, list.map(({ node }) => node)])),
  };
  return normalized(JSON.parse(JSON.stringify(meaning)), roles);
}

function normalized(value: unknown, roles: ReadonlyMap<string, string>, key = ""): unknown {
  if (typeof value === "string") return roles.get(value) ?? (key === "id" ? value.toLowerCase() : value);
  if (Array.isArray(value)) {
    const items = value.map((item) => normalized(item, roles));
    return items.toSorted((left, right) => (JSON.stringify(left) < JSON.stringify(right) ? -1 : 1));
  }
  if (!isObject(value)) return value;
  const isReference = Object.keys(value).join() === "id";
  const isBackReference = (name: string, item: unknown): boolean =>
    name === "loadBalancingRules" && Array.isArray(item) && item.every((one) => Object.keys(one).join() === "id");
  const entries = Object.entries(value).filter(
    ([name, item]) =>
      (isReference || !ignored.has(name)) &&
      !isBackReference(name, item) &&
      !(Array.isArray(item) && item.length === 0),
  );
  const sorted = entries.toSorted(([left], [right]) => (left < right ? -1 : 1));
  return Object.fromEntries(sorted.map(([name, item]) => [name, normalized(item, roles, name)]));
}
