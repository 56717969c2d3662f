import type { KnownWarning, UnrequestedRemovals } from "cloud-controller-host/sdk";

import type { AzureConfig } from "../config/decode.ts";
import { ConfirmedPlans, hashOf } from "./confirmed-plans.ts";
import { type GuardContext, Holds, type WindowLimits } from "./holds.ts";
import { type Item, itemKey, kindOf, nameOf, type Owner } from "./items.ts";
import { heldRemovals, itemsOf, prune, type Timed, type Unexplained } from "./rule.ts";

/**
 * `unconfirmed`: a cause that an empty or shortened list would look like. It is confirmed when it matters. `placement`:
 * only the config can be the reason, by a name or a place; it needs a confirmation, however few go.
 */
export type Cause = "known" | "unconfirmed" | "placement" | "none";

/** Change of one resource by a plan. */
export interface ResourceChange {
  readonly id: string;
  /** Such as `load balancer kubernetes`. */
  readonly title: string;
  readonly before: readonly Item[];
  readonly after: readonly Item[];
  /** Items that a read lacks are not lost: Azure removes them with a VM, a read was repeated, or a write is in flight. */
  readonly isVolatile?: boolean;
  /** Only passes, which call `planned`, plan held removals of it again. */
  readonly lastsUntilPlanned?: boolean;
  /** Keys of the Services whose edits the write carries. */
  readonly writers: readonly string[];
  /** True if nothing uses the item once the change is carried out: what used it is counted in its place. */
  readonly isIdle?: (item: Item) => boolean;
}

/** The answers about one plan. */
export interface Causes {
  causeOf(item: Item, change: ResourceChange): Cause;
  /** Reads made for it: true for the owners that are really gone. */
  confirmGone(owners: readonly Owner[]): Promise<(owner: Owner) => boolean>;
}

/** Removals that are held, and why. */
export interface HeldChange {
  readonly change: ResourceChange;
  readonly items: readonly Item[];
  readonly message: string;
}

/**
 * Holds what a plan would remove without a cause, and keeps what was removed within the window. A hold dissolves when
 * the plan does not have it any more, or once exactly its removals are confirmed.
 */
export class RemovalGuard {
  readonly #context: GuardContext;
  readonly #limits: WindowLimits;
  readonly #holds: Holds;
  /** By resource and key: unexplained removals that were let through. */
  readonly #recent = new Map<string, Timed>();
  /** By resource: removals of confirmed plans. */
  readonly #confirmed = new Map<string, Timed>();
  /** By resource and key: what it was last seen with, or written with. Its absence from a read is a removal like any other. */
  readonly #known = new Map<string, Map<string, Item>>();
  readonly #plans: ConfirmedPlans;

  constructor(context: GuardContext, limits: WindowLimits) {
    this.#context = context;
    this.#limits = limits;
    this.#holds = new Holds(context, limits);
    this.#plans = new ConfirmedPlans(context);
  }

  /** Called with the Services of what is held, every half minute. */
  get onRecheck(): Holds["onRecheck"] {
    return this.#holds.onRecheck;
  }

  set onRecheck(recheck: Holds["onRecheck"]) {
    this.#holds.onRecheck = recheck;
  }

  /** Why removals are held and since when, for `/statusz`. */
  get warnings(): readonly KnownWarning[] {
    return this.#holds.warnings;
  }

  /** A pass over a resource begins. */
  planned(id: string): void {
    this.#holds.planned(id);
  }

  /** Returns the changes that a plan must not make now. All others may be carried out. */
  async review(changes: readonly ResourceChange[], causes: Causes): Promise<readonly HeldChange[]> {
    this.#forgetOld();
    return (await Array.fromAsync(changes, (change) => this.#reviewOne(change, causes))).flat();
  }

  /** All that a plan removes without a cause, whatever the limits. Undefined where that is nothing, or is confirmed. */
  async unrequested(
    changes: readonly ResourceChange[],
    causeOf: Causes["causeOf"],
  ): Promise<UnrequestedRemovals | undefined> {
    const found = changes.flatMap((change) => {
      const after = new Set(change.after.map(itemKey));
      const isUnasked = (item: Item): boolean => ["none", "placement"].includes(causeOf(item, change));
      const items = change.before.filter((item) => !after.has(itemKey(item)) && isUnasked(item));
      return items.length === 0 ? [] : [{ change, items }];
    });
    if (found.length === 0) return undefined;
    const keys = found.flatMap(({ change, items }) =>
      items.map((item) => `${change.id} ${itemKey(item)}`.toLowerCase()),
    );
    const hash = hashOf("reload", keys);
    if (await this.#plans.isConfirmed(hash)) {
      for (const { change, items } of found) this.confirm(change.id, items);
      return undefined;
    }
    const removals = found.flatMap(({ change, items }) =>
      items.map((item) => `${kindOf(item)} ${nameOf(item)} of ${change.title}`),
    );
    return { hash, removals };
  }

  /** Records the items that a read shows. Missing ones stay known until a plan without them is carried out. */
  seen(id: string, items: readonly Item[]): void {
    const known = this.#known.getOrInsertComputed(id.toLowerCase(), () => new Map());
    for (const item of items) known.set(itemKey(item), item);
  }

  /** A resource was written so: what it lacks now is not lost. */
  written(id: string, items: readonly Item[]): void {
    this.#known.set(id.toLowerCase(), new Map(items.map((item) => [itemKey(item), item])));
  }

  /** Removals of a plan that a person has confirmed as a whole. */
  confirm(id: string, items: readonly Item[]): void {
    this.#add(this.#confirmed, id, items);
  }

  async #reviewOne(planned: ResourceChange, causes: Causes): Promise<readonly HeldChange[]> {
    const id = planned.id.toLowerCase();
    if (planned.isVolatile !== true) this.seen(id, planned.before);
    const known = planned.isVolatile ? undefined : this.#known.get(id);
    const after = new Set(planned.after.map(itemKey));
    // Most writes remove nothing.
    if ((known?.keys() ?? planned.before.values().map(itemKey)).every((key) => after.has(key))) return [];
    const change = { ...planned, before: [...(known?.values() ?? planned.before)] };
    const goes = (item: Item): boolean => !after.has(itemKey(item));
    const recent = [...(this.#recent.get(id)?.values() ?? [])].map(({ item }) => item);
    const isFree = (item: Item): boolean =>
      this.#confirmed.get(id)?.has(itemKey(item)) === true || causes.causeOf(item, change) === "known";
    const isPlaced = (item: Item): boolean => causes.causeOf(item, change) === "placement";
    const held = (isExplained: (item: Item) => boolean): readonly Unexplained[] =>
      heldRemovals({ before: change.before, after, isExplained, isPlaced, recent }, this.#limits);
    let found = held(isFree);
    if (found.length > 0) {
      const doubtful = [...change.before, ...recent].filter(
        (item) => goes(item) && causes.causeOf(item, change) === "unconfirmed",
      );
      const isGone = await causes.confirmGone(doubtful.flatMap(({ owners }) => owners));
      const isExplained = (item: Item): boolean =>
        isFree(item) || (causes.causeOf(item, change) === "unconfirmed" && item.owners.every(isGone));
      for (const item of recent) if (isExplained(item)) this.#recent.get(id)?.delete(itemKey(item));
      found = held(isExplained);
    }
    if (found.length > 0 && !(await this.#isReleased(change, found)))
      return [{ change, ...this.#holds.hold(change, found) }];
    // Unexplained removals that are not held are counted for the time of the window.
    const lost = change.before.filter((item) => goes(item) && !isFree(item));
    if (lost.length > 0) this.#add(this.#recent, id, lost);
    return [];
  }

  #add(to: Map<string, Timed>, id: string, items: readonly Item[]): void {
    const timed = to.getOrInsertComputed(id.toLowerCase(), (): Timed => new Map());
    for (const item of items) timed.set(itemKey(item), { item, atMs: this.#context.clock.monotonic() });
  }

  /** The plan as it is held, and as it would be held with what was found now. */
  async #isReleased(change: ResourceChange, found: readonly Unexplained[]): Promise<boolean> {
    const hold = this.#holds.get(change.id);
    if (hold !== undefined && (await this.#plans.isConfirmed(hold.hash))) this.confirm(change.id, itemsOf(hold.items));
    const removed = found.flatMap((one) => one.removed);
    if (await this.#plans.isConfirmed(this.#holds.merged(change, removed).hash)) this.confirm(change.id, removed);
    const confirmed = this.#confirmed.get(change.id.toLowerCase());
    if (confirmed === undefined || !removed.every((item) => confirmed.has(itemKey(item)))) return false;
    this.#holds.resume(change.id, "a person has confirmed them");
    return true;
  }

  #forgetOld(): void {
    const nowMs = this.#context.clock.monotonic();
    const { windowMs } = this.#limits;
    this.#holds.forgetOld();
    for (const timed of [this.#recent, this.#confirmed])
      for (const [id, items] of timed) if (prune(items, nowMs - windowMs)) timed.delete(id);
  }
}

/** The guard of one generation, with the limits of the cloud config. */
export const removalGuard = (context: GuardContext, config: AzureConfig): RemovalGuard =>
  new RemovalGuard(context, {
    maxRemovals: config.removalGuardMaxRemovals,
    maxPercent: config.removalGuardMaxPercent,
    windowMs: config.removalGuardWindowInSeconds * 1000,
  });
