import type { Draft, Resource } from "./store.ts";
import type { SubscriptionState } from "./subscription-state.ts";

/** What ARM does of its own accord for one type; refusals are thrown as `ArmFault`. */
interface ResourceRules {
  /** Fills in what the service decides (addresses, read-only references) before a resource is stored. */
  prepare?(draft: Draft, previous: Resource | undefined, state: SubscriptionState): Draft;
  /** Follows a write up in other resources, such as back references. */
  stored?(resource: Resource, previous: Resource | undefined, state: SubscriptionState): void;
  /** Called before a resource is removed. */
  removing?(resource: Resource, state: SubscriptionState): void;
}

export interface ResourceType extends ResourceRules {
  /** `Microsoft.Network/loadBalancers` */
  readonly type: string;
  /** Array properties whose items are sub-resources with an id, an etag and a path of their own. */
  readonly children?: readonly string[];
  /** Properties that are shown only where `$expand` asks for them. */
  readonly expandable?: readonly string[];
  /** A PUT lays its body over what is there instead of replacing it. */
  readonly merges?: boolean;
}

/** An address of its own for every static public IP, in order: 20.0.0.1, 20.0.0.2, … */
const assignPublicAddress = (draft: Draft, previous: Resource | undefined, state: SubscriptionState): Draft => {
  const version = draft.properties["publicIPAddressVersion"] ?? "IPv4";
  const given = previous?.properties["ipAddress"] ?? draft.properties["ipAddress"];
  const ipAddress = given ?? state.nextPublicAddress(version === "IPv6" ? "IPv6" : "IPv4");
  return { ...draft, properties: { ...draft.properties, publicIPAddressVersion: version, ipAddress } };
};

/** Every type that can be read and written generically. A type that is not here is a 404, as an unknown one is in ARM. */
export const resourceTypes: readonly ResourceType[] = [
  {
    type: "Microsoft.Network/loadBalancers",
    children: [
      "frontendIPConfigurations",
      "backendAddressPools",
      "loadBalancingRules",
      "probes",
      "inboundNatRules",
      "inboundNatPools",
      "outboundRules",
    ],
  },
  { type: "Microsoft.Network/publicIPAddresses", prepare: assignPublicAddress },
  { type: "Microsoft.Network/publicIPPrefixes" },
  { type: "Microsoft.Network/networkSecurityGroups", children: ["securityRules"] },
  { type: "Microsoft.Network/routeTables", children: ["routes"] },
  { type: "Microsoft.Network/virtualNetworks", children: ["subnets"] },
  { type: "Microsoft.Network/networkInterfaces", children: ["ipConfigurations"] },
  { type: "Microsoft.Network/privateLinkServices", children: ["privateEndpointConnections"] },
  {
    type: "Microsoft.Compute/virtualMachineScaleSets",
    merges: true,
    removing: (scaleSet, state) => state.instances(scaleSet.id).clear(),
  },
  { type: "Microsoft.Compute/virtualMachines", merges: true, expandable: ["instanceView"] },
  { type: "Microsoft.Compute/availabilitySets" },
];

const byType = new Map(resourceTypes.map((row) => [row.type.toLowerCase(), row]));
export const resourceType = (type: string): ResourceType | undefined => byType.get(type.toLowerCase());
