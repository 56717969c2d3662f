import { isIP } from "node:net";

import {
  defaultLoadBalancerName,
  keyOf,
  kinds,
  type Node,
  type Service,
  taints,
  taintsOf,
} from "cloud-controller-host/sdk";

import { isExcluded } from "../actions/nodes.ts";
import type { AzureView } from "../azure-view.ts";
import type { Endpoints } from "../endpoints.ts";
import type { Machine } from "../machines.ts";
import { addressOwners, type OwnedPart, ownedParts, portOwners } from "../owned-parts.ts";
import type { World } from "../world.ts";
import type { Departures } from "./departures.ts";
import { balancerOf } from "./services.ts";
import type { Violate } from "./table.ts";
import { isBalanced, wishOf } from "./wishes.ts";

/**
 * A part may be written so long after the change that it does not follow yet: by a process that was paused (two minutes)
 * with a slow request and reply (a minute) whose operation is slow (a minute), and once more where the first attempt failed.
 */
const lateMs = 10 * 60_000;

/** What it reads of the world. */
type Scene = Pick<World, "api" | "cluster" | "now" | "services"> & {
  readonly machineOf: (name: string) => Pick<Machine, "privateIP" | "set"> | undefined;
  readonly machines: Pick<World["machines"], "has">;
  readonly operations: Pick<World["operations"], "lastEnd">;
  readonly endpoints: Pick<Endpoints, "of"> | undefined;
};

/** The first of the ports that Services have on addresses of nodes. */
const firstNodePort = 30_000;

/** Everything that the product removes has a cause: a user, a node or a VM has changed since the part was written. */
export class Removals {
  readonly #world: Scene;
  readonly #violate: Violate;
  readonly #departures: Pick<Departures, "excused">;
  /** When each part has appeared. */
  readonly #since = new Map<string, number>();
  #parts: ReadonlyMap<string, OwnedPart> = new Map();
  /** The last change by a user of each Service, by the start of its names in Azure; and of nodes, by name and address. */
  readonly #changedAt = new Map<string, number>();
  /** Services of addresses, and of their ports where Services share addresses. */
  readonly #owners = new Map<string, string>();
  /** When a port of an address has gone from a Service to another one. */
  readonly #handedOverAt = new Map<string, number>();
  /** All Services that have had ports of an address. */
  readonly #sharers = new Map<string, Set<string>>();

  constructor(world: Scene, departures: Pick<Departures, "excused">, violate: Violate) {
    this.#world = world;
    this.#departures = departures;
    this.#violate = violate;
    world.api.onChange(kinds.Service, (_type, service, before) => {
      if (before !== undefined && wishOf(before) !== wishOf(service))
        this.#changedAt.set(defaultLoadBalancerName(service), world.now);
    });
    world.api.onChange(kinds.Node, (type, node, before) => {
      if (type !== "DELETED" && (before === undefined || !this.#explains(before, node))) return;
      for (const one of [keyOf(node), ...addressesOf(before ?? node)]) this.#changedAt.set(one, world.now);
    });
  }

  #explains(before: Node, after: Node): boolean {
    return hasMoved(before, after) || isExcluded(before) || this.#hasFormerRoute(after);
  }

  /** It was initialized when another VM already had its name, and its route leads to the former one. */
  #hasFormerRoute(node: Node): boolean {
    const [name, addresses] = [keyOf(node), addressesOf(node).filter((one) => isIP(one) > 0)];
    const isFormer = (what: string): boolean =>
      what.startsWith("route of ") && !addresses.includes(what.split(" to ")[1] ?? "");
    return addresses.length > 0 && [...this.#parts].some(([what, part]) => part.node === name && isFormer(what));
  }

  /** Takes things as they are: others have changed them. */
  accept(view: AzureView): void {
    this.#next(ownedParts(view));
  }

  check(view: AzureView): void {
    for (const [address, service] of addressOwners(view)) this.#owners.set(address, service);
    if (this.#world.cluster.sharesAddresses) this.#followPorts(view);
    const parts = ownedParts(view);
    const removed = [...this.#parts].filter(([what]) => !parts.has(what));
    if (removed.length > 0) {
      const living = new Set(this.#world.services().filter(isBalanced).map(defaultLoadBalancerName));
      for (const [what, part] of removed)
        if (!this.#hasCause(what, part, living)) this.#violate("no removal without a cause", what);
    }
    this.#next(parts);
  }

  #followPorts(view: AzureView): void {
    for (const [port, service] of portOwners(view)) {
      const before = this.#owners.get(port);
      if (before !== undefined && before !== service) this.#handedOverAt.set(port, this.#world.now);
      this.#owners.set(port, service);
      this.#sharers.getOrInsertComputed(port.split(" ")[0] ?? "", () => new Set()).add(service);
    }
  }

  /** Of an address that Services share: what denies the rest of it is for any of them, and a port without rules serves none. */
  #sharersOf(port: string): readonly string[] | undefined {
    if (!this.#world.cluster.sharesAddresses || this.#owners.has(port)) return undefined;
    return port.endsWith(" * *") ? [...(this.#sharers.get(port.split(" ")[0] ?? "") ?? [])] : [];
  }

  #next(parts: ReadonlyMap<string, OwnedPart>): void {
    for (const what of this.#parts.keys()) if (!parts.has(what)) this.#since.delete(what);
    for (const what of parts.keys()) if (!this.#since.has(what)) this.#since.set(what, this.#world.now);
    this.#parts = parts;
  }

  /** Its node has, or all of its Services have: a member is for every Service of its pool. */
  #hasCause(
    what: string,
    { services, port, node, balancer, internal, family, local }: OwnedPart,
    living: ReadonlySet<string>,
  ): boolean {
    const earliest = this.#earliest(what);
    if (node !== undefined && balancer !== undefined && this.#isExcluded(node)) return true;
    const hasChanged = (one: string): boolean => (this.#changedAt.get(one) ?? Number.NEGATIVE_INFINITY) >= earliest;
    if (node !== undefined && (!this.#isThere(node) || hasChanged(node))) return true;
    const isOfPool = internal !== undefined && family !== undefined;
    const excused = isOfPool ? this.#departures.excused()(internal, family) : undefined;
    if (excused?.has(node ?? "") === true) return true;
    if (local === true && this.#hasNoPod(node ?? "", services, earliest)) return true;
    // Nodes of a load balancer that does not exist yet serve on another one.
    if (local === false && balancerOf(this.#world, node ?? "") !== balancer) return true;
    // A frontend may have the address of a VM that is gone while the node is still there.
    const [address = "", , number] = port?.split(" ") ?? [];
    if (Number(number) >= firstNodePort && (hasChanged(address) || this.#isOfGoneVM(address))) return true;
    if ((this.#handedOverAt.get(port ?? "") ?? Number.NEGATIVE_INFINITY) >= earliest) return true;
    const isOver = (owner: string): boolean => !living.has(owner) || hasChanged(owner);
    const sharers = port === undefined ? undefined : this.#sharersOf(port);
    if (sharers !== undefined) return sharers.length === 0 || sharers.some(isOver);
    const owners = services.map((service) => this.#owners.get(port ?? "") ?? this.#owners.get(service) ?? service);
    return owners.length > 0 && owners.every(isOver);
  }

  /** Services of one pool have one name, perhaps one after the other. */
  #hasNoPod(node: string, services: readonly string[], earliest: number): boolean {
    const { endpoints } = this.#world;
    const owners = this.#world.services().filter((one) => services.includes(defaultLoadBalancerName(one)));
    return endpoints !== undefined && owners.every((one) => (endpoints.of(one).get(node) ?? earliest) >= earliest);
  }

  #earliest(what: string): number {
    if (this.#world.operations.lastEnd > 0) return 0;
    return (this.#since.get(what) ?? 0) - lateMs;
  }

  /** Or drained: a Service asks for that, and a node that is out of service is about to leave. */
  #isExcluded(name: string): boolean {
    const node = this.#world.api.get(kinds.Node, { name });
    if (node === undefined) return false;
    const isLeaving = taintsOf(node).some(({ key }) => key === taints.outOfService);
    return isExcluded(node) || (isLeaving && this.#world.services().some(drains));
  }

  #isOfGoneVM(address: string): boolean {
    const nodes = this.#world.api.list(kinds.Node).filter((node) => addressesOf(node).includes(address));
    return nodes.length > 0 && nodes.every((node) => !this.#hasItsVM(node));
  }

  /** Another VM may have its name by now, with another address. */
  #hasItsVM(node: Node): boolean {
    const { privateIP } = this.#world.machineOf(keyOf(node)) ?? {};
    return this.#world.machines.has(keyOf(node)) && (privateIP === undefined || addressesOf(node).includes(privateIP));
  }

  #isThere(name: string): boolean {
    return this.#world.api.get(kinds.Node, { name }) !== undefined && this.#world.machines.has(name);
  }
}

const drains = ({ metadata }: Service): boolean =>
  Object.keys(metadata?.annotations ?? {}).some((key) => key.endsWith("/azure-load-balancer-drain-seconds"));

const addressesOf = ({ status }: Node): readonly string[] => status?.addresses?.map(({ address }) => address) ?? [];

/** It has lost an address that routes and pools know it by; the API server keeps its provider ID and its CIDR. */
const hasMoved = (before: Node, after: Node): boolean =>
  !new Set(addressesOf(before)).isSubsetOf(new Set(addressesOf(after)));
