import { defaultLoadBalancerName, keyOf, kinds } from "cloud-controller-host/sdk";

import { isExcluded } from "../actions/nodes.ts";
import { type AzureView, nameOf, propertiesOf } from "../azure-view.ts";
import type { Machine } from "../machines.ts";
import type { HostRequest } from "../requests.ts";
import type { World } from "../world.ts";
import { isBalanced, isInternal } from "./wishes.ts";

/** Longest time until a process has seen that an operation has ended, has planned again, and its write has ended. */
const noticeMs = 10 * 60_000;

/** Longest time until a process has heard of a node or a Service, and has sent what it planned without it. */
const newsMs = 3 * 60_000;

interface Departure {
  /** When the operation was last in progress. */
  lastedAt: number;
  /** Kinds of pools that it takes the machine out of. */
  readonly from: ReadonlySet<string>;
}

const families = ["IPv4", "IPv6"];

/** Names the pools of internal or other load balancers that have members of a family. */
const kindOf = (internal: boolean, family: string): string => `${internal ? "internal" : "public"} ${family}`;

export type Excused = (internal: boolean, family: string) => ReadonlySet<string>;

/** What it reads of the world. */
type Scene = Pick<World, "api" | "now" | "services"> & {
  readonly azure: Pick<World["azure"], "operations">;
  readonly view: () => Pick<AzureView, "balancers">;
  readonly machines: { readonly all: readonly Pick<Machine, "name" | "owner">[] };
};

type Request = Pick<HostRequest, "target" | "isWrite"> & {
  readonly exchange: Pick<HostRequest["exchange"], "path" | "body">;
};

/**
 * Writes that take a machine out of its pools, because it has no node that may serve or no Service is there, or had none
 * shortly before, or none is on a load balancer, as all that are there were refused. Where their operations take an hour,
 * the machine may leave long after both are back: only a write before could prevent that. It has time to join again. In
 * a dual-stack cluster, a write may be about the pools of one family, and keep those of the other.
 */
export class Departures {
  readonly #world: Scene;
  /** By the machine's owner of IP configurations. */
  readonly #departures = new Map<string, Departure>();
  /** When each node has come or has begun to serve again, by name. */
  readonly #cameAt = new Map<string, number>();
  /** When Services came that had load balancers which were for none before: true for internal ones. */
  readonly #servedAt = new Map<boolean, number>();

  constructor(world: Scene) {
    this.#world = world;
    world.api.onChange(kinds.Node, (type, node, before) => {
      const serves = before !== undefined && isExcluded(before) && !isExcluded(node);
      if (type === "ADDED" || serves) this.#cameAt.set(keyOf(node), world.now);
    });
    world.api.onChange(kinds.Service, () => {
      const served = new Set(world.services().filter(isBalanced).map(isInternal));
      for (const internal of [true, false])
        if (!served.has(internal)) this.#servedAt.delete(internal);
        else if (!this.#servedAt.has(internal)) this.#servedAt.set(internal, world.now);
    });
  }

  /** Called before the server has the request. */
  sent({ target, isWrite, exchange: { path, body } }: Request): void {
    if (target !== "azure" || !isWrite) return;
    const lower = path.toLowerCase().split("?")[0] ?? "";
    const machine = this.#world.machines.all.find(({ owner }) => lower.endsWith(owner));
    if (machine === undefined) return;
    const left = [true, false].filter((one) => this.#mayLack(machine.name, one)).flatMap(missingFrom(body));
    const from = new Set(left);
    // An operation that lasts is superseded; what one that has ended has done is still there.
    const before = lasts(machine.owner, this.#world.azure.operations())
      ? undefined
      : this.#departures.get(machine.owner);
    if (before !== undefined && from.isSubsetOf(before.from)) return;
    this.#departures.set(machine.owner, { lastedAt: this.#world.now, from: from.union(before?.from ?? new Set()) });
  }

  /** True if a process may take the machine of a node out of pools, by what it knows. */
  #mayLack(name: string, internal: boolean): boolean {
    const node = this.#world.api.get(kinds.Node, { name });
    const isThere = node !== undefined && !isExcluded(node);
    const since = Math.max(this.#cameAt.get(name) ?? 0, this.#servedAt.get(internal) ?? Number.POSITIVE_INFINITY);
    return !isThere || this.#world.now - since < newsMs || !this.#isServed(internal);
  }

  /** True if such a load balancer has a frontend or a rule of a Service that is there. */
  #isServed(internal: boolean): boolean {
    const services = this.#world.services().filter((one) => isBalanced(one) && isInternal(one) === internal);
    const bases = services.map(defaultLoadBalancerName);
    const ofKind = this.#world.view().balancers.filter((one) => /-internal$/iu.test(nameOf(one)) === internal);
    const texts = ofKind.map((one) => JSON.stringify(propertiesOf(one)).toLowerCase());
    return texts.some((text) => bases.some((base) => text.includes(base)));
  }

  /** Names the nodes that may be in no pool of the family of such load balancers now, although they are there. */
  excused(): Excused {
    const { now, machines, azure } = this.#world;
    const underway = azure.operations();
    for (const [owner, departure] of this.#departures) {
      if (lasts(owner, underway)) departure.lastedAt = now;
      else if (now - departure.lastedAt > noticeMs) this.#departures.delete(owner);
    }
    const left = this.#departures.size === 0 ? [] : machines.all.filter(({ owner }) => this.#departures.has(owner));
    const byKind = new Map<string, ReadonlySet<string>>();
    return (internal, family) =>
      byKind.getOrInsertComputed(
        kindOf(internal, family),
        (kind) =>
          new Set(left.flatMap(({ name, owner }) => (this.#departures.get(owner)?.from.has(kind) ? [name] : []))),
      );
  }
}

/** `underway`: ids of resources with an operation in progress. */
const lasts = (owner: string, underway: readonly string[]): boolean => underway.some((id) => id.endsWith(owner));

/** Lists the kinds of pools that are not in what is written of a machine. */
function missingFrom(body: string): (internal: boolean) => readonly string[] {
  const pools = body
    .toLowerCase()
    .matchAll(/\/loadbalancers\/[^/"]+?(?<internal>-internal)?\/backendaddresspools\/[^/"]+?(?<ipv6>-ipv6)?"/gu);
  const kept = new Set(
    [...pools].map(({ groups }) =>
      kindOf(groups?.["internal"] !== undefined, groups?.["ipv6"] === undefined ? "IPv4" : "IPv6"),
    ),
  );
  return (internal) => families.map((family) => kindOf(internal, family)).filter((kind) => !kept.has(kind));
}
