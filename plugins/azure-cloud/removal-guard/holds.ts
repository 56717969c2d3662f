import type { CloudContext, Gauge, KnownWarning } from "cloud-controller-host/sdk";

import { hashOf } from "./confirmed-plans.ts";
import { type Item, itemKey, kindOf, nameOf } from "./items.ts";
import { itemsOf, type Limits, prune, type Timed, type Unexplained } from "./rule.ts";

export type GuardContext = Pick<CloudContext, "clock" | "confirmations" | "log" | "metrics" | "planning" | "signal">;

export interface WindowLimits extends Limits {
  /** Period within which unexplained removals are counted together. */
  readonly windowMs: number;
}

/** Period in which held changes are planned again, and the time without a plan after which they are forgotten. */
export const recheckMs = 30_000;
const forgetMs = 90_000;

/** A resource of which removals are held. */
interface HeldResource {
  readonly id: string;
  /** Such as `load balancer kubernetes`. */
  readonly title: string;
  /** Only passes, which call `planned`, plan held removals of it again. */
  readonly lastsUntilPlanned?: boolean;
}

interface Hold {
  readonly title: string;
  readonly items: Timed;
  readonly hash: string;
  readonly message: string;
  readonly since: string;
}

/** The removals that are held, by resource: where they show, and how long they last. */
export class Holds {
  readonly #context: GuardContext;
  readonly #limits: WindowLimits;
  readonly #gauge: Gauge<"resource">;
  readonly #holds = new Map<string, Hold>();
  #isWatching = false;
  /** Called with the Services of what is held, every half minute. */
  onRecheck: ((services: readonly string[]) => void) | undefined;

  constructor(context: GuardContext, limits: WindowLimits) {
    this.#context = context;
    this.#limits = limits;
    this.#gauge = context.metrics.gauge({
      name: "cloudprovider_azure_held_removals",
      help: "Number of frontends, rules, pool members, public IPs and routes that are not removed because too many would go without a cause, by resource.",
      labels: ["resource"],
    });
  }

  get warnings(): readonly KnownWarning[] {
    this.forgetOld();
    return [...this.#holds.values()].map(({ since, message }) => {
      return { kind: "RemovalsHeld", text: `removals are held since ${since}: ${message}`, since };
    });
  }

  get(id: string): Pick<Hold, "items" | "hash"> | undefined {
    return this.#holds.get(id.toLowerCase());
  }

  /** A pass over a resource begins: removals of its last one that it does not plan again are forgotten, a while later. */
  planned(id: string): void {
    const items = this.get(id)?.items ?? new Map();
    for (const [key, { item, atMs }] of items)
      if (atMs === Number.POSITIVE_INFINITY) items.set(key, { item, atMs: this.#context.clock.monotonic() });
  }

  /** The removals that are held of a resource, with these as well. */
  merged({ id, lastsUntilPlanned }: HeldResource, removed: readonly Item[]): Pick<Hold, "items" | "hash"> {
    const atMs = lastsUntilPlanned ? Number.POSITIVE_INFINITY : this.#context.clock.monotonic();
    const items: Timed = new Map(this.get(id)?.items);
    for (const item of removed) items.set(itemKey(item), { item, atMs });
    return { items, hash: hashOf(id, items.keys()) };
  }

  /** Holds the removals of a plan, together with those that are held of the resource. */
  hold(
    resource: HeldResource,
    found: readonly Unexplained[],
  ): { readonly items: readonly Item[]; readonly message: string } {
    const { clock, log, planning } = this.#context;
    const { id: shown, title } = resource;
    const id = shown.toLowerCase();
    const removed = found.flatMap((one) => one.removed);
    const { items, hash } = this.merged(resource, removed);
    const known = this.#holds.get(id);
    const isNew = known?.hash !== hash;
    const all = itemsOf(items);
    const message = isNew ? this.#explain(title, found, all, hash) : known.message;
    const since = known?.since ?? new Date(clock.now()).toISOString();
    this.#holds.set(id, { title, items, hash, message, since });
    this.#gauge.set(items.size, { resource: title });
    if (isNew)
      log.warn("Removals are held", { resource: shown, removals: items.size, confirmation: hash, reason: message });
    const removals = all.map((item) => `${kindOf(item)}: ${nameOf(item)}`);
    planning?.hold({ resource: shown, title, removals, reason: message });
    if (planning === undefined && !this.#isWatching) void this.#watch();
    return { items: removed, message };
  }

  /** Ends a hold, if there is one. */
  resume(id: string, reason: string): void {
    const key = id.toLowerCase();
    const hold = this.#holds.get(key);
    if (hold === undefined) return;
    this.#holds.delete(key);
    this.#gauge.set(0, { resource: hold.title });
    this.#context.log.info("Removals are no longer held", { resource: key, reason });
  }

  /** Ends the holds of what is not planned any more. */
  forgetOld(): void {
    const oldestMs = this.#context.clock.monotonic() - forgetMs;
    for (const [id, { items }] of this.#holds)
      if (prune(items, oldestMs)) this.resume(id, "they are not planned any more");
  }

  #explain(title: string, found: readonly Unexplained[], items: readonly Item[], hash: string): string {
    const { confirmations } = this.#context;
    const how = confirmations === undefined ? "" : `, or confirm exactly this plan: ${confirmations.command(hash)}`;
    const { maxRemovals, maxPercent, windowMs } = this.#limits;
    const isByConfig = found.every(({ isByPlace }) => isByPlace);
    const why = isByConfig
      ? "because the config places them elsewhere, which no Service asks for: none of them is removed; if this is intended, set removalGuardMaxPercent to 100"
      : `and no deleted or changed Service, node or config explains it: none of them is removed (the limit is ${maxRemovals} or ${maxPercent} %); ` +
        "if this is intended, raise removalGuardMaxRemovals or removalGuardMaxPercent";
    const all = Map.groupBy(items, kindOf);
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
      this.forgetOld();
      const services = [...this.#holds.values()].flatMap(({ items }) =>
        itemsOf(items).flatMap((item) => item.services),
      );
      if (services.length > 0 && !signal.aborted) this.onRecheck?.([...new Set(services)]);
    }
    this.#isWatching = false;
  }
}
