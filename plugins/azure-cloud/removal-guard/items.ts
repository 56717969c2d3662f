/** The cause of a removal: an object of the cluster. */
export type Owner =
  /** `name` of a Service: `namespace/name`. */
  | { readonly kind: "Service" | "Node"; readonly name: string }
  /** A node with an endpoint of a Service. */
  | { readonly kind: "endpoint"; readonly service: string; readonly node: string };

/** A part of a resource, by a plural noun. */
export type Part =
  | { readonly kind: "frontends" | "rules" | "probes"; readonly name: string }
  /** `address`: name of the public IP, or the private address. */
  | { readonly kind: "frontend addresses"; readonly frontend: string; readonly address: string }
  | { readonly kind: "members of backend pool"; readonly pool: string; readonly address: string }
  /** Members of a pool of network interfaces, by node, or by IP configuration where that is unknown. */
  | { readonly kind: "members"; readonly name: string }
  /** Likewise, where the pool is to become one of addresses. It has none in between. */
  | { readonly kind: "members by interface"; readonly name: string }
  /** Openings: an address with a protocol and a port, whichever rule has them. */
  | { readonly kind: "security rules"; readonly address: string; readonly protocol: string; readonly port: string }
  | { readonly kind: "public IPs" | "private link services"; readonly name: string }
  | { readonly kind: "routes"; readonly node: string; readonly cidr: string }
  /** The rest is lost where the config does not look for it: addresses and links of Services, and nodes. */
  | { readonly kind: "addresses"; readonly address: string; readonly service: string }
  | { readonly kind: "private links"; readonly service: string }
  | { readonly kind: "nodes"; readonly name: string };

/** A part that carries traffic. */
export type Item = Part & {
  /** A removal is explained when something happened to all of them; it needs no cause where there is none. */
  readonly owners: readonly Owner[];
  /** Keys of the Services that lose traffic with it. */
  readonly services: readonly string[];
};

export type ItemOf<Kind extends Item["kind"]> = Item & { readonly kind: Kind };

/** The kind for messages. Each has limits of its own, and so has each pool of addresses. */
export const kindOf = (part: Part): string =>
  part.kind === "members of backend pool" ? `${part.kind} ${part.pool}` : part.kind;

/** The name for messages, unique among those of the kind. */
export function nameOf(part: Part): string {
  switch (part.kind) {
    case "frontend addresses":
      return `${part.frontend} ${part.address}`;
    case "members of backend pool":
      return part.address;
    case "security rules":
      return `${part.address} ${part.protocol} ${part.port}`;
    case "routes":
      return `${part.node} ${part.cidr}`;
    case "addresses":
      return `${part.address} of Service ${part.service}`;
    case "private links":
      return `of Service ${part.service}`;
    default:
      return part.name;
  }
}

/** Confirmations are for a hash of these: what a person confirms must have the same keys in another version. */
export const itemKey = (part: Part): string => `${kindOf(part)} ${nameOf(part)}`.toLowerCase();
