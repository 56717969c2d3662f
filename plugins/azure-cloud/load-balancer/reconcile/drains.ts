import {
  annotationOf,
  type CloudContext,
  isConflict,
  isNotFound,
  keyOf,
  kinds,
  messageOf,
  type Node,
  type Service,
} from "cloud-controller-host/sdk";

import { drainCause, drainStep, type NodeDrain, readDrain, requested, wantedRecord } from "../model/drain.ts";
import type { Observed, ServiceKey } from "../model/model.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import { type DrainingAddress, drainingIn } from "../plan/balancer/drain-places.ts";
import { nodeName } from "../plan/draft/nodes.ts";
import type { Flight } from "./in-flight.ts";
import { Ticker } from "./ticker.ts";

/** Pauses after a pass that failed, and before a record that another writer's change of the node kept from being written. */
const firstPauseMs = 5_000;
const longestPauseMs = 300_000;
const conflictPauseMs = 1_000;
/** Until the Services of a pool are planned whose node should have left: this pass may not have planned them. */
const overduePauseMs = 10_000;
/** Passes at once. One lasts for as long as the slowest write, and delays no node on another load balancer. */
const maxPasses = 8;

export interface DrainsOptions {
  readonly context: Pick<CloudContext, "client" | "clock" | "informers" | "log" | "planning" | "signal">;
  readonly config: PlannerConfig;
  readonly services: () => {
    /** To be called for a node that does not leave after all, before the next plan. */
    returned(node: Node): void;
    /** Plans the Services again. Rejects if one of them fails. */
    refreshNodes(keys: ReadonlySet<ServiceKey>): Promise<void>;
  };
}

/**
 * Follows nodes that are about to leave, and keeps the records of their drains. All state is in these records and in
 * Azure. A record changes only while no write of the load balancers concerned is in flight, and only on the version of
 * the node that was seen: one that arrives late, from a process that has ended, finds a newer node.
 */
export class Drains {
  readonly #options: DrainsOptions;
  /** Key of the annotation. */
  readonly #record: string;
  /** Services whose load balancer exists. */
  readonly #ensured = new Set<ServiceKey>();
  /** Writes of records in flight, by node. */
  readonly #writing = new Map<string, Promise<void>>();
  /** Nodes whose record could not be written: they leave in one step. */
  readonly #skipped = new Set<string>();
  /** In flight; the latest one is about all that those before are about. */
  readonly #passes = new Set<Promise<void>>();
  #latest = 0;
  #ticker: Ticker | undefined;
  #failures = 0;

  constructor(options: DrainsOptions) {
    this.#options = options;
    this.#record = options.config.drainRecord;
  }

  ensured(service: Service): void {
    this.#ensured.add(keyOf(service));
  }

  deleted(service: Service): void {
    this.#ensured.delete(keyOf(service));
  }

  async run(signal: AbortSignal): Promise<void> {
    const { informers, clock } = this.#options.context;
    this.#ticker = new Ticker({ clock, signal }, () => this.#startPass());
    const handler = informers.of(kinds.Node).handle({
      updated: (before, after) => this.#changed(before, after),
      deleted: (last) => void this.#skipped.delete(nodeName(last)),
    });
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener("abort", () => resolve(), { once: true });
    });
    handler.remove();
    await Promise.all(this.#writing.values());
  }

  /** Drains of the nodes, for a plan. */
  read(nodes: readonly Node[]): ReadonlyMap<string, NodeDrain> {
    const { clock, planning } = this.#options.context;
    const drains = new Map<string, NodeDrain>();
    for (const node of nodes) {
      const drain = readDrain(node, clock.now(), this.#record);
      if (drain === undefined) continue;
      const name = nodeName(node);
      const isNew = drain.record === "none" || drain.record === "invalid";
      // A plan writes no records, and shows what follows from them.
      if (isNew && planning !== undefined && drain.cause !== undefined)
        drains.set(name, { ...drain, record: "requested" });
      else if (this.#skipped.has(name)) drains.set(name, { ...drain, record: "skipped" });
      else drains.set(name, drain);
    }
    return drains;
  }

  /** Brings the records up to what Azure shows. `held`: writes that the observation may lack. */
  keep(observed: Observed, held: readonly Flight[]): void {
    const { context, config } = this.#options;
    if (context.planning !== undefined || observed.drains === undefined || observed.drains.size === 0) return;
    const { addresses } = drainingIn(observed, config);
    const byNode = Map.groupBy(addresses.values(), ({ node }) => node);
    const writing = new Set(held.flatMap(({ holds }) => holds.map((id) => id.toLowerCase())));
    for (const node of observed.nodes) {
      const drain = observed.drains.get(nodeName(node));
      const found = byNode.get(nodeName(node)) ?? [];
      if (drain === undefined || found.some(({ place }) => writing.has(place.balancer))) continue;
      this.#wakeAtEnd(drain, found);
      const wanted = wantedRecord(
        drain,
        found.map(({ place }) => place),
      );
      const name = nodeName(node);
      if (wanted === undefined || this.#writing.has(name)) continue;
      this.#writing.set(
        name,
        this.#write(node, wanted).finally(() => this.#writing.delete(name)),
      );
    }
  }

  #wakeAtEnd({ cause, record, elapsedMs }: NodeDrain, found: readonly DrainingAddress[]): void {
    if (cause === undefined || record !== "down") return;
    for (const { drain, place } of found)
      if (place.drainMs > elapsedMs) this.#ticker?.after(place.drainMs - elapsedMs);
      else if (drainStep(drain, place) === "out") this.#ticker?.after(overduePauseMs);
  }

  /** Never rejects. */
  async #write(node: Node, wanted: "requested" | "now" | "none"): Promise<void> {
    const { client, clock, log, signal } = this.#options.context;
    const name = nodeName(node);
    const value = { requested, now: new Date(clock.now()).toISOString(), none: null }[wanted];
    const metadata = { resourceVersion: node.metadata?.resourceVersion, annotations: { [this.#record]: value } };
    try {
      await client.patch(kinds.Node, { name }, "merge", { metadata });
      log.info("Updated the drain record of node", {
        node: name,
        cause: drainCause(node),
        record: value ?? "none",
      });
    } catch (error) {
      if (signal.aborted || isNotFound(error)) return;
      if (isConflict(error)) return this.#ticker?.after(conflictPauseMs);
      log.warn("Failed to record the drain of a node; it leaves the backend pools in one step", {
        node: name,
        error: messageOf(error),
      });
      this.#skipped.add(name);
      this.#ticker?.soon();
    }
  }

  #changed(before: Node, after: Node): void {
    const [from, to] = [drainCause(before), drainCause(after)];
    // One that was recreated under the name has a record of its own.
    if (before.metadata?.uid !== after.metadata?.uid) this.#skipped.delete(nodeName(after));
    if (from === to && annotationOf(before, this.#record) === annotationOf(after, this.#record)) return;
    if (to === undefined) this.#skipped.delete(nodeName(after));
    if (to === undefined && from !== undefined) this.#options.services().returned(after);
    this.#ticker?.soon();
  }

  async #startPass(): Promise<void> {
    if (this.#ensured.size === 0) return;
    while (this.#passes.size >= maxPasses) await Promise.race(this.#passes);
    const pass: Promise<void> = this.#pass().finally(() => this.#passes.delete(pass));
    this.#passes.add(pass);
  }

  /** Never rejects. */
  async #pass(): Promise<void> {
    const { log, signal } = this.#options.context;
    this.#latest += 1;
    const number = this.#latest;
    try {
      await this.#options.services().refreshNodes(this.#ensured);
      if (number === this.#latest) this.#failures = 0;
    } catch (error) {
      if (signal.aborted || number !== this.#latest) return;
      const delayMs = Math.min(longestPauseMs, firstPauseMs * 2 ** this.#failures);
      this.#failures += 1;
      log.warn("Failed to update backend pools for nodes that are about to leave; trying again", { delayMs, error });
      this.#ticker?.after(delayMs);
    }
  }
}
