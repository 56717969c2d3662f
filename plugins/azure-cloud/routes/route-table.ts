import type { RouteTable } from "@azure/arm-network";
import { type Clock, CodedError, type Gauge, type Logger, type Metrics } from "cloud-controller-host/sdk";

import type { ArmClients } from "../arm/clients.ts";
import { isUnprovisioned, unlessAbsent } from "../arm/errors.ts";
import { describeWrite } from "../arm/pipeline/record.ts";
import { SharedRead } from "../arm/reads/shared-read.ts";
import { KeyedBatcher, type Outcome } from "../arm/writes/keyed-batcher.ts";
import { withOperationLimit } from "../arm/writes/operation-limit.ts";
import { ifMatch } from "../arm/writes/resources.ts";
import { isRejected } from "../arm/writes/write-errors.ts";
import type { AzureConfig } from "../config/decode.ts";
import { limitGauge, limits } from "../load-balancer/model/limits.ts";
import { RemovalHeldError } from "../removal-guard/rule.ts";
import { findDrift, heldRoutes, type RouteRemovals } from "./held-routes.ts";
import { excessRoutes, maxRoutes, planRoutes, type RouteChange, type RouteTableWrite } from "./plan-routes.ts";

export interface RouteTableOptions {
  readonly clients: ArmClients;
  readonly config: AzureConfig;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Ends waiting changes, and the wait for a write in flight, which ARM may still carry out. */
  readonly signal: AbortSignal;
  readonly isKnownNode: (name: string) => boolean;
  readonly removals: RouteRemovals;
}

/** Changes that arrive within this time of each other are written together… */
const quietMs = 100;
/** … at the latest this long after the first of them. */
const longestWaitMs = 1_000;

/** Pauses of a change that ARM has rejected: it would reject the same change again. A deletion ends them all. */
const firstPauseMs = 60_000;
const longestPauseMs = 15 * 60_000;

/** A rejected change, not to be repeated before that time of the monotonic clock. */
interface Pause {
  readonly untilMs: number;
  readonly lengthMs: number;
  readonly error: unknown;
}

/**
 * The cluster's route table with one writer: many changes are one PUT, guarded by the table's etag. A table that
 * needs no change is not written, and one that does not exist is created by the first change.
 */
export class ClusterRouteTable {
  readonly #options: RouteTableOptions;
  readonly #resourceGroup: string;
  readonly #table: SharedRead<RouteTable | undefined>;
  readonly #batcher: KeyedBatcher<RouteChange, void>;
  readonly #pauses = new Map<string, Pause>();
  /** As it was last written, or planned on. */
  #last: RouteTable | undefined;
  readonly #used: Gauge<"limit" | "resource">;
  #isFull = false;

  constructor(options: RouteTableOptions) {
    const { clock, config, signal } = options;
    this.#options = options;
    this.#used = limitGauge(options.metrics);
    this.#resourceGroup = config.routeTableResourceGroup || config.resourceGroup;
    const ttlMs = config.disableAPICallCache ? 0 : config.routeTableCacheTTLInSeconds * 1000;
    this.#table = new SharedRead({ clock, ttlMs, read: () => this.#read() });
    this.#batcher = new KeyedBatcher<RouteChange, void>({
      clock,
      signal,
      quietMs,
      longestWaitMs,
      sourceOf: (change) => ("node" in change ? `node ${change.node}` : change.kind),
      apply: (_key, changes) => this.#apply(changes),
    });
  }

  get resourceGroup(): string {
    return this.#resourceGroup;
  }

  /** The table as it was last read or written; undefined when it does not exist. */
  async get(): Promise<RouteTable | undefined> {
    const table = await this.#table.get("cached");
    this.#options.removals.guard.planned(this.#idOf(table));
    return table;
  }

  /** Resolves once the table has the change. The signal ends the wait for a write that has not begun. */
  async change(change: RouteChange, signal?: AbortSignal): Promise<void> {
    const pause = this.#pauses.get(pauseKey(change));
    if (pause !== undefined && pause.untilMs > this.#options.clock.monotonic()) throw pause.error;
    await this.#batcher.submit(this.#options.config.routeTableName, change, signal);
  }

  async #read(): Promise<RouteTable | undefined> {
    const { clients, config, removals } = this.#options;
    const table = await unlessAbsent(clients.network.routeTables.get(this.#resourceGroup, config.routeTableName));
    if (table !== undefined) findDrift(table, removals);
    this.#measure(table);
    return table;
  }

  #measure(table: RouteTable | undefined): void {
    const used = (table?.routes?.length ?? 0) / limits.routesPerTable;
    this.#used.set(used, { limit: "routes", resource: this.#options.config.routeTableName });
  }

  async #apply(changes: readonly RouteChange[]): Promise<readonly Outcome<void>[]> {
    const { config, isKnownNode } = this.#options;
    // A cached absence is not enough to create a table.
    const table = await this.#current();
    const current = table ?? { location: config.location };
    const excess = excessRoutes(current, changes);
    this.#reportExcess(excess.size);
    const planned = changes.filter((change) => !excess.has(change));
    const after = planRoutes(current, planned, isKnownNode);
    const refused = await this.#held(table, planned, { before: current, after });
    const fitting = planned.filter((change) => !refused.has(change));
    const left = refused.size === 0 ? after : planRoutes(current, fitting, isKnownNode);
    // What ARM shows of a table whose last operation failed may not be in effect.
    const wanted = left ?? (isUnprovisioned(table) ? current : undefined);
    if (wanted !== undefined) await this.#write(table, wanted, fitting);
    return changes.map((change) => {
      const error = refused.get(change);
      if (error !== undefined) return { ok: false, error };
      return excess.has(change) ? full(config.routeTableName) : done;
    });
  }

  /** A table from which routes have disappeared is read again: a write would remove them for good. */
  async #current(): Promise<RouteTable | undefined> {
    const first = (await this.#table.get("cached")) ?? (await this.#table.get("fresh"));
    const names = new Set(first?.routes?.map(({ name }) => name));
    const isWhole = (this.#last?.routes ?? []).every(({ name }) => names.has(name));
    const table = isWhole ? first : await this.#table.get("fresh");
    this.#last = table;
    return table;
  }

  /** The changes that must not be made, with the reason: deletions and, of a table that lacks routes, all. */
  async #held(
    table: RouteTable | undefined,
    changes: readonly RouteChange[],
    { before, after }: { readonly before: RouteTableWrite; readonly after: RouteTableWrite | undefined },
  ): Promise<ReadonlyMap<RouteChange, RemovalHeldError>> {
    if (after === undefined) return new Map();
    const { config, removals } = this.#options;
    const name = config.routeTableName;
    const held = await heldRoutes({ id: this.#idOf(table), name, before, after }, removals);
    if (held === undefined) return new Map();
    const nodes = new Set(held.items.flatMap((item) => (item.kind === "routes" ? [item.node] : [])));
    const deletions = changes.filter((change) => change.kind === "delete" && nodes.has(change.node));
    const error = new RemovalHeldError(held.message);
    return new Map((deletions.length > 0 ? deletions : changes).map((change) => [change, error]));
  }

  #idOf(table: RouteTable | undefined): string {
    return table?.id ?? `${this.#resourceGroup}/${this.#options.config.routeTableName}`;
  }

  async #write(table: RouteTable | undefined, wanted: RouteTableWrite, changes: readonly RouteChange[]): Promise<void> {
    const { clients, config, log, removals, signal } = this.#options;
    const name = config.routeTableName;
    const group = this.#resourceGroup;
    const requestOptions = { headers: ifMatch(table?.etag) };
    const id = table?.id ?? "";
    removals.drifts.started(id);
    try {
      const written = await withOperationLimit(`write of route table ${name}`, signal, (abortSignal) => {
        describeWrite(abortSignal, { before: table, after: wanted });
        return clients.network.routeTables.createOrUpdate(group, name, wanted, { abortSignal, requestOptions });
      });
      this.#table.replace(written);
      this.#last = written;
      removals.drifts.ended(id);
      findDrift(written, removals);
      this.#measure(written);
    } catch (error) {
      removals.drifts.ended(id);
      // The table may have changed, by another writer or by this write: the next attempt reads it again.
      this.#table.forget();
      const [only] = changes;
      if (only !== undefined && changes.length === 1 && (isRejected(error) || only.kind === "repeat"))
        this.#pause(only, error);
      throw error;
    }
    this.#endPauses(changes);
    if (table === undefined) log.info("Created route table", { routeTable: name, resourceGroup: group });
  }

  #pause(change: RouteChange, error: unknown): void {
    const now = this.#options.clock.monotonic();
    // Changes that nothing asks for any more: those of a node that is gone and never had a route.
    for (const [other, { untilMs }] of this.#pauses) if (now - untilMs > longestPauseMs) this.#pauses.delete(other);
    const key = pauseKey(change);
    const former = this.#pauses.get(key);
    const lengthMs = former === undefined ? firstPauseMs : Math.min(longestPauseMs, former.lengthMs * 2);
    this.#pauses.set(key, { untilMs: now + lengthMs, lengthMs, error });
  }

  /** A deletion makes room in the table; any other write only proves its own changes. */
  #endPauses(changes: readonly RouteChange[]): void {
    if (changes.some(({ kind }) => kind === "delete")) this.#pauses.clear();
    else for (const change of changes) this.#pauses.delete(pauseKey(change));
  }

  /** One line until there is room for all again; each node has its own event. */
  #reportExcess(count: number): void {
    const { config, log } = this.#options;
    const isFull = count > 0;
    if (isFull && !this.#isFull)
      log.warn("Route table is full; not creating further routes", {
        routeTable: config.routeTableName,
        maxRoutes,
        routes: count,
      });
    this.#isFull = isFull;
  }
}

const done = { ok: true, value: undefined } as const;

const full = (name: string): Outcome<never> => ({
  ok: false,
  error: new CodedError(
    "RouteTableFull",
    `route table ${name} has ${maxRoutes} routes, the most that Azure allows: no further route is created`,
  ),
});

/** Names a change across calls. */
const pauseKey = (change: RouteChange): string =>
  "node" in change
    ? `${change.kind} ${change.node} ${change.cidr} ${change.kind === "create" ? change.nextHop : ""}`
    : JSON.stringify(change);
