import { kinds } from "cloud-controller-host/sdk";

import type { HostRequest, World } from "../world.ts";
import { isBalanced, isInternal } from "./wishes.ts";

/** Longest time until a process has seen that an operation has ended, has planned again, and its write has ended. */
const noticeMs = 10 * 60_000;

interface Departure {
  /** When the operation was last in progress. */
  lastedAt: number;
  /** The pools that it may take the machine out of: true for those of internal load balancers, false for others. */
  readonly from: ReadonlySet<boolean>;
}

/**
 * Writes that take a machine out of its pools, because it has no node or no Service is there. Where their operations take
 * an hour, the machine may leave long after both are back: only a write before could prevent that. It has time to join again.
 */
export class Departures {
  readonly #world: World;
  /** By the machine's owner of IP configurations. */
  readonly #departures = new Map<string, Departure>();

  constructor(world: World) {
    this.#world = world;
  }

  /** Called before the server has the request. */
  sent({ target, isWrite, exchange: { path } }: HostRequest): void {
    if (target !== "azure" || !isWrite) return;
    const lower = path.toLowerCase().split("?")[0] ?? "";
    const machine = this.#world.machines.all.find(({ owner }) => lower.endsWith(owner));
    if (machine === undefined) return;
    const hasNode = this.#world.api.get(kinds.Node, { name: machine.name }) !== undefined;
    const served = new Set(this.#world.services().filter(isBalanced).map(isInternal));
    const from = new Set([true, false]).difference(hasNode ? served : new Set());
    // An operation that lasts is superseded; what one that has ended has done is still there.
    const before = this.#lasts(machine.owner) ? undefined : this.#departures.get(machine.owner);
    if (before !== undefined && from.isSubsetOf(before.from)) return;
    this.#departures.set(machine.owner, { lastedAt: this.#world.now, from: from.union(before?.from ?? new Set()) });
  }

  #lasts(owner: string): boolean {
    return this.#world.azure.operations().some((id) => id.endsWith(owner));
  }

  /** Names of the nodes that may be in no pool of such load balancers, although they are there. */
  excused(internal: boolean): ReadonlySet<string> {
    const { now, machines } = this.#world;
    for (const [owner, departure] of this.#departures) {
      if (this.#lasts(owner)) departure.lastedAt = now;
      else if (now - departure.lastedAt > noticeMs) this.#departures.delete(owner);
    }
    if (this.#departures.size === 0) return new Set();
    const excused = machines.all.filter(({ owner }) => this.#departures.get(owner)?.from.has(internal));
    return new Set(excused.map(({ name }) => name));
  }
}
