import type { RouteTable } from "@azure/arm-network";
import type { Clock, Logger } from "cloud-controller-host/sdk";

import type { ArmClients } from "../arm/clients.ts";
import { unlessAbsent } from "../arm/errors.ts";
import { SharedRead } from "../arm/reads/shared-read.ts";
import { KeyedBatcher, type Outcome } from "../arm/writes/keyed-batcher.ts";
import type { AzureConfig } from "../config/decode.ts";
import { planRoutes, type RouteChange } from "./plan-routes.ts";

export interface RouteTableOptions {
  readonly clients: ArmClients;
  readonly config: AzureConfig;
  readonly clock: Clock;
  readonly log: Logger;
  /** Ends waiting changes; a write in flight is not interrupted. */
  readonly signal: AbortSignal;
  readonly isKnownNode: (name: string) => boolean;
}

/** Changes that arrive within this time of each other are written together… */
const quietMs = 100;
/** … at the latest this long after the first of them. */
const longestWaitMs = 1_000;

/**
 * The cluster's route table with one writer: many changes are one PUT, guarded by the table's etag. A table that
 * already is as wanted is not written, and one that does not exist is created by the first change.
 */
export class ClusterRouteTable {
  readonly #options: RouteTableOptions;
  readonly #resourceGroup: string;
  readonly #table: SharedRead<RouteTable | undefined>;
  readonly #batcher: KeyedBatcher<RouteChange, void>;

  constructor(options: RouteTableOptions) {
    const { clock, config, signal } = options;
    this.#options = options;
    this.#resourceGroup = config.routeTableResourceGroup || config.resourceGroup;
    const ttlMs = config.disableAPICallCache ? 0 : config.routeTableCacheTTLInSeconds * 1000;
    this.#table = new SharedRead({ clock, ttlMs, read: () => this.#read() });
    this.#batcher = new KeyedBatcher<RouteChange, void>({
      clock,
      signal,
      quietMs,
      longestWaitMs,
      sourceOf: (change) => (change.kind === "tags" ? "tags" : `node ${change.node}`),
      apply: (_key, changes) => this.#apply(changes),
    });
  }

  get resourceGroup(): string {
    return this.#resourceGroup;
  }

  /** The table as it was last read or written; undefined when it does not exist. */
  get(): Promise<RouteTable | undefined> {
    return this.#table.get("cached");
  }

  /** Resolves once the table has the change. The signal ends the wait for a write that has not begun. */
  change(change: RouteChange, signal?: AbortSignal): Promise<void> {
    return this.#batcher.submit(this.#options.config.routeTableName, change, signal);
  }

  #read(): Promise<RouteTable | undefined> {
    const { clients, config } = this.#options;
    return unlessAbsent(clients.network.routeTables.get(this.#resourceGroup, config.routeTableName));
  }

  async #apply(changes: readonly RouteChange[]): Promise<readonly Outcome<void>[]> {
    const { clients, config, log, isKnownNode } = this.#options;
    const table = await this.#table.get("cached");
    const wanted = planRoutes(table ?? { location: config.location }, changes, isKnownNode);
    const done = changes.map(() => ({ ok: true, value: undefined }) as const);
    if (wanted === undefined) return done;
    // Without an etag there must be no table yet: one that was created meanwhile is not replaced.
    const headers: Record<string, string> = table?.etag ? { "If-Match": table.etag } : {};
    if (table === undefined) headers["If-None-Match"] = "*";
    const name = config.routeTableName;
    const options = { requestOptions: { headers } };
    try {
      this.#table.replace(await clients.network.routeTables.createOrUpdate(this.#resourceGroup, name, wanted, options));
    } catch (error) {
      // The table may have changed, by another writer or by this write: the next attempt reads it again.
      this.#table.forget();
      throw error;
    }
    if (table === undefined) log.info("Created route table", { routeTable: name, resourceGroup: this.#resourceGroup });
    return done;
  }
}
