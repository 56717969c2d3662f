import { type CloudContext, type Gauge, type KnownWarning, type UnrequestedRemovals } from "cloud-controller-host/sdk";

import type { AzureConfig } from "../config/decode.ts";
import { ConfirmedPlans, hashOf } from "./confirmed-plans.ts";
import {
  heldRemovals,
  type Item,
  itemKey,
  itemsOf,
  type Limits,
  type Owner,
  prune,
  type Timed,
  type Unexplained,
} from "./rule.ts";

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
  /** Reads made for it: the names of the owners that are really gone. */
  confirmGone(owners: readonly Owner[]): Promise<(owner: Owner) => boolean>;
}

/** Removals that are held, and why. */
export interface HeldChange {
  readonly change: ResourceChange;
  readonly items: readonly Item[];
  readonly message: string;
}

interface Hold {
  readonly title: string;
  readonly items: Timed;
  readonly hash: string;
  readonly message: string;
  readonly since: string;
}

export type GuardContext = Pick<CloudContext, "clock" | "confirmations" | "log" | "metrics" | "planning" | "signal">;

/** Period in which held changes are planned again, and the time without a plan after which they are forgotten. */
export const recheckMs = 30_000;
const forgetMs = 90_000;

/**
 * Holds what a plan would remove without a cause, and keeps what was removed within the window. A hold dissolves when
 * the plan does not have it any more, or once exactly its removals are confirmed.
 */
export class RemovalGuard {
  readonly #context: GuardContext;
  readonly #limits: Limits & { readonly windowMs: number };
  readonly #gauge: Gauge<"resource">;
  readonly #holds = new Map<string, Hold>();
  /** By resource and key: unexplained removals that were let through. */
  readonly #recent = new Map<string, Timed>();
  /** By resource: removals of confirmed plans. */
  readonly #confirmed = new Map<string, Timed>();
  /** By resource and key: what it was last seen with, or written with. Its absence from a read is a removal like any other. */
  readonly #known = new Map<string, Map<string, Item>>();
  readonly #plans: ConfirmedPlans;
  #isWatching = false;
  /** Called with the Services of what is held, every half minute. */
  onRecheck: ((services: readonly string[]) => void) | undefined;

  constructor(context: GuardContext, limits: Limits & { readonly windowMs: number }) {
    this.#context = context;
    this.#limits = limits;
    this.#plans = new ConfirmedPlans(context);
    this.#gauge = context.metrics.gauge({
      name: "cloudprovider_azure_held_removals",
      help: "Number of frontends, rules, pool members, public IPs and routes that are not removed because too many would go without a cause, by resource.",
      labels: ["resource"],
    });
  }

  /** Why removals are held and since when, for `/statusz`. */
  get warnings(): readonly KnownWarning[] {
    this.#forgetOld();
    return [...this.#holds.values()].map(({ since, message }) => {
      return { kind: "RemovalsHeld", text: `removals are held since ${since}: ${message}`, since };
    });
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
      items.map(({ kind, name }) => `${kind} ${name} of ${change.title}`),
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

  /** A pass over a resource begins: removals of its last one that it does not plan again are forgotten, a while later. */
  planned(id: string): void {
    const items = this.#holds.get(id.toLowerCase())?.items ?? new Map();
    for (const [key, { item, atMs }] of items)
      if (atMs === Number.POSITIVE_INFINITY) items.set(key, { item, atMs: this.#context.clock.monotonic() });
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
    if (found.length > 0 && !(await this.#isReleased(change, found))) return [this.#hold(change, found)];
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
    const hold = this.#holds.get(change.id.toLowerCase());
    if (hold !== undefined && (await this.#plans.isConfirmed(hold.hash))) this.confirm(change.id, itemsOf(hold.items));
    const removed = found.flatMap((one) => one.removed);
    if (await this.#plans.isConfirmed(this.#merged(change, removed).hash)) this.confirm(change.id, removed);
    const confirmed = this.#confirmed.get(change.id.toLowerCase());
    if (confirmed === undefined || !removed.every((item) => confirmed.has(itemKey(item)))) return false;
    this.#resume(change.id.toLowerCase(), "a person has confirmed them");
    return true;
  }

  #merged({ id, lastsUntilPlanned }: ResourceChange, removed: readonly Item[]): Pick<Hold, "items" | "hash"> {
    const atMs = lastsUntilPlanned ? Number.POSITIVE_INFINITY : this.#context.clock.monotonic();
    const items: Timed = new Map(this.#holds.get(id.toLowerCase())?.items);
    for (const item of removed) items.set(itemKey(item), { item, atMs });
    return { items, hash: hashOf(id, items.keys()) };
  }

  #hold(change: ResourceChange, found: readonly Unexplained[]): HeldChange {
    const { log, planning } = this.#context;
    const id = change.id.toLowerCase();
    const removed = found.flatMap((one) => one.removed);
    const { items, hash } = this.#merged(change, removed);
    const known = this.#holds.get(id);
    const isNew = known?.hash !== hash;
    const all = itemsOf(items);
    const message = isNew ? this.#explain(change, found, all, hash) : known.message;
    const since = known?.since ?? new Date(this.#context.clock.now()).toISOString();
    this.#holds.set(id, { title: change.title, items, hash, message, since });
    this.#gauge.set(items.size, { resource: change.title });
    if (isNew)
      log.warn("Removals are held", { resource: change.id, removals: items.size, confirmation: hash, reason: message });
    const removals = all.map(({ kind, name }) => `${kind}: ${name}`);
    planning?.hold({ resource: change.id, title: change.title, removals, reason: message });
    if (planning === undefined && !this.#isWatching) void this.#watch();
    return { change, items: removed, message };
  }

  #explain({ title }: ResourceChange, found: readonly Unexplained[], items: readonly Item[], hash: string): string {
    const { confirmations } = this.#context;
    const how = confirmations === undefined ? "" : `, or confirm exactly this plan: ${confirmations.command(hash)}`;
    const { maxRemovals, maxPercent, windowMs } = this.#limits;
    const isByConfig = found.every(({ isByPlace }) => isByPlace);
    const why = isByConfig
      ? "because the config places them elsewhere, which no Service asks for: none of them is removed; if this is intended, set removalGuardMaxPercent to 100"
      : `and no deleted or changed Service, node or config explains it: none of them is removed (the limit is ${maxRemovals} or ${maxPercent} %); ` +
        "if this is intended, raise removalGuardMaxRemovals or removalGuardMaxPercent";
    const all = Map.groupBy(items, ({ kind }) => kind);
    const counts = found.map(({ kind, count, population }) => {
      const lost = Math.max(count, all.get(kind)?.length ?? 0);
      return `${lost} of ${Math.max(lost, population)} ${kind}`;
    });
    return `${counts.join(" and ")} of ${title} would be removed within ${windowMs / 1000} s, ${why}${how}`;
  }

  async #watch(): Promise<void> {
    const { clock, signal } = this.#context;
    this.#isWatching = true;
    while (this.#holds.size > 0 && !signal.aborted) {
      await clock.sleep(recheckMs, signal);
      this.#forgetOld();
      const services = [...this.#holds.values()].flatMap(({ items }) =>
        itemsOf(items).flatMap((item) => item.services),
      );
      if (services.length > 0 && !signal.aborted) this.onRecheck?.([...new Set(services)]);
    }
    this.#isWatching = false;
  }

  #forgetOld(): void {
    const nowMs = this.#context.clock.monotonic();
    const { windowMs } = this.#limits;
    for (const [id, { items }] of this.#holds)
      if (prune(items, nowMs - forgetMs)) this.#resume(id, "they are not planned any more");
    for (const timed of [this.#recent, this.#confirmed])
      for (const [id, items] of timed) if (prune(items, nowMs - windowMs)) timed.delete(id);
  }

  #resume(id: string, reason: string): void {
    const hold = this.#holds.get(id);
    if (hold === undefined) return;
    this.#holds.delete(id);
    this.#gauge.set(0, { resource: hold.title });
    this.#context.log.info("Removals are no longer held", { resource: id, reason });
  }
}

/** The guard of one generation, with the limits of the cloud config. */
export const removalGuard = (context: GuardContext, config: AzureConfig): RemovalGuard =>
  new RemovalGuard(context, {
    maxRemovals: config.removalGuardMaxRemovals,
    maxPercent: config.removalGuardMaxPercent,
    windowMs: config.removalGuardWindowInSeconds * 1000,
  });
