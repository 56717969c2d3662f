import { availabilitySets, networkInterfaces, virtualMachines } from "./interfaces.ts";
import { loadBalancers } from "./load-balancers.ts";
import { networkSecurityGroups, routeTables, virtualNetworks } from "./networks.ts";
import { privateLinkServices } from "./private-link-services.ts";
import { publicIPAddresses, publicIPPrefixes } from "./public-addresses.ts";
import type { ResourceType } from "./resource-rules.ts";
import { scaleSets } from "./scale-sets.ts";

/** The types with generic reads and writes. Any other type is a 404, as an unknown one is in ARM. */
export const resourceTypes: readonly ResourceType[] = [
  loadBalancers,
  publicIPAddresses,
  publicIPPrefixes,
  networkSecurityGroups,
  routeTables,
  virtualNetworks,
  networkInterfaces,
  privateLinkServices,
  scaleSets,
  virtualMachines,
  availabilitySets,
];

const byType = new Map(resourceTypes.map((row) => [row.type.toLowerCase(), row]));
export const resourceType = (type: string): ResourceType | undefined => byType.get(type.toLowerCase());
