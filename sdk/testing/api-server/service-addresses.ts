import type { Service } from "cloud-controller-host/sdk";
import ipaddr from "ipaddr.js";

import type { Collection } from "./store/collection.ts";
import type { Stored } from "./store/stored.ts";

export type Family = "IPv4" | "IPv6";

/** The ranges that Services get their addresses from; the first family is the one they get by default. */
const clusterRanges = ["10.0.0.0/16", "fd00:10::/108"] as const;
const nodePorts = { first: 30_000, last: 32_767 } as const;
/** The low addresses and ports are reserved for explicit requests. */
const firstGivenOffset = 256;
const firstGivenPort = nodePorts.first + 86;

export const nodePortRange = `${nodePorts.first}-${nodePorts.last}`;

export const familyOf = (ip: string): Family | undefined => {
  if (!ipaddr.isValid(ip)) return undefined;
  return ipaddr.parse(ip).kind() === "ipv4" ? "IPv4" : "IPv6";
};

function addressAt(range: string, offset: number): string {
  const [base] = ipaddr.parseCIDR(range);
  const bytes = base.toByteArray();
  let carry = offset;
  for (let index = bytes.length - 1; index >= 0 && carry > 0; index--) {
    const sum = (bytes[index] ?? 0) + carry;
    bytes[index] = sum & 0xff;
    carry = Math.floor(sum / 256);
  }
  return ipaddr.fromByteArray(bytes).toString();
}

const sizeOf = (range: string): number => {
  const [base, prefix] = ipaddr.parseCIDR(range);
  return 2 ** (base.toByteArray().length * 8 - prefix);
};

/** The cluster IPs and node ports that Services hold, read from the Services themselves. */
export class ServiceAddresses {
  /** The first address of the default range: the API server's own. */
  readonly first = addressAt(clusterRanges[0], 1);
  readonly families: readonly [Family, Family] = ["IPv4", "IPv6"];
  readonly #ips = new Map<string, string>();
  readonly #ports = new Map<number, string>();
  readonly #next = { IPv4: firstGivenOffset, IPv6: firstGivenOffset, port: firstGivenPort };

  constructor(services: Collection) {
    services.subscribe(({ type, before, after }) => {
      if (before !== undefined) this.#release(before);
      if (type !== "DELETED") this.#hold(after);
    });
  }

  /** True when the Service `key` may use the address. */
  mayHaveIP(key: string, ip: string): "yes" | "taken" | "outside" {
    if (!clusterRanges.some((range) => contains(range, ip))) return "outside";
    const holder = this.#ips.get(ip);
    return holder === undefined || holder === key ? "yes" : "taken";
  }

  mayHavePort(key: string, port: number): "yes" | "taken" | "outside" {
    if (port < nodePorts.first || port > nodePorts.last) return "outside";
    const holder = this.#ports.get(port);
    return holder === undefined || holder === key ? "yes" : "taken";
  }

  /** A free address; undefined if all are allocated. */
  freeIP(family: Family): string | undefined {
    const range = clusterRanges[this.families.indexOf(family)] ?? clusterRanges[0];
    const size = sizeOf(range);
    for (let tries = 0; tries < size - 2; tries++) {
      const ip = addressAt(range, this.#next[family]);
      this.#next[family] = this.#next[family] + 1 < size - 1 ? this.#next[family] + 1 : 1;
      if (!this.#ips.has(ip)) return ip;
    }
    return undefined;
  }

  /** A free port that is not in `taken`; undefined if all are allocated. */
  freePort(taken: ReadonlySet<number>): number | undefined {
    for (let tries = nodePorts.first; tries <= nodePorts.last; tries++) {
      const port = this.#next.port;
      this.#next.port = port < nodePorts.last ? port + 1 : nodePorts.first;
      if (!this.#ports.has(port) && !taken.has(port)) return port;
    }
    return undefined;
  }

  #hold({ key, object }: Stored): void {
    const { ips, ports } = addressesOf(object);
    for (const ip of ips) this.#ips.set(ip, key);
    for (const port of ports) this.#ports.set(port, key);
  }

  #release({ object }: Stored): void {
    const { ips, ports } = addressesOf(object);
    for (const ip of ips) this.#ips.delete(ip);
    for (const port of ports) this.#ports.delete(port);
  }
}

function contains(range: string, ip: string): boolean {
  const [base, prefix] = ipaddr.parseCIDR(range);
  const address = ipaddr.parse(ip);
  return address.kind() === base.kind() && address.match(base, prefix);
}

function addressesOf({ spec = {} }: Service): { readonly ips: readonly string[]; readonly ports: readonly number[] } {
  const ports = [...(spec.ports ?? []).map(({ nodePort }) => nodePort), spec.healthCheckNodePort];
  return {
    ips: (spec.clusterIPs ?? []).filter((ip) => ip !== "None"),
    ports: ports.filter((port) => port !== undefined),
  };
}
