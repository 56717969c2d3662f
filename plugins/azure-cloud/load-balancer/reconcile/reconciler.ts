import { keyOf, type LoadBalancerStatus, type Node, type Service } from "cloud-controller-host/sdk";

import { KeyedBatcher, type Outcome } from "../../arm/writes/keyed-batcher.ts";
import { isRejected } from "../../arm/writes/write-errors.ts";
import type { ServiceIntent } from "../model/model.ts";
import { observedAddresses } from "../plan/draft/ingress.ts";
import { plan } from "../plan/plan.ts";
import type { BatchOptions, Reconciled } from "./batch-model.ts";
import { Batch } from "./batch.ts";
import { blamedFor } from "./blame.ts";
import { LateWriteError, LateWrites } from "./late-writes.ts";

interface Change extends ServiceIntent {
  readonly refresh?: boolean;
  /** Its batch waits for every write, so that one which ARM rejects late is found by halving the batch. */
  readonly patient?: boolean;
}

/** All load balancers share public IPs, a security group and the choice between them: one batch at a time. */
const cluster = "cluster";

/** Times that a Service waits for a late write before it is reported as failed. */
const maxWaits = 20;
/** Pauses before a pool is planned again of which an instance failed late. */
const firstPauseMs = 5_000;
const longestPauseMs = 300_000;

/** Brings Services to their desired state, those that come at about the same time together. */
export class Reconciler {
  readonly #options: BatchOptions;
  readonly #batcher: KeyedBatcher<Change, Reconciled>;
  readonly #late = new LateWrites();
  /** Those of the latest ensure: a Service that has waited for minutes must not bring back its own. */
  #nodes: readonly Node[] = [];
  /** Pools with instances in flight, by lower-case id. */
  readonly #followed = new Set<string>();
  readonly #looks: KeyedBatcher<Service, LoadBalancerStatus | undefined>;

  constructor(options: BatchOptions) {
    this.#options = options;
    const { clock, signal } = options.context;
    this.#batcher = new KeyedBatcher({
      clock,
      signal,
      apply: (_key, changes) => this.#apply(changes),
      sourceOf: ({ service }) => keyOf(service),
      suspects: blamedFor,
    });
    this.#looks = new KeyedBatcher({
      clock,
      signal,
      apply: (_key, services) => this.#lookAt(services),
      sourceOf: keyOf,
    });
  }

  reconcile(intent: ServiceIntent, signal?: AbortSignal): Promise<Reconciled> {
    if (intent.action === "ensure") this.#nodes = intent.nodes;
    return this.#submit(() => ({ ...intent, nodes: this.#nodes }), signal);
  }

  /** Reconciles a Service that may be about to go: it is left alone when it is deleted meanwhile. */
  refresh(service: Service, nodes: readonly Node[]): Promise<Reconciled> {
    return this.#submit(() => ({ service, nodes, action: "ensure", refresh: true }));
  }

  /** Submits the change again when its Service has left a batch because of a write that was late. */
  async #submit(change: () => Change, signal?: AbortSignal): Promise<Reconciled> {
    let writes = 0;
    let patient = false;
    for (let waits = 0; ; waits += 1) {
      try {
        const result = await this.#batcher.submit(cluster, { ...change(), patient }, signal);
        return { ...result, writes: writes + result.writes };
      } catch (error) {
        if (!(error instanceof LateWriteError) || waits >= maxWaits) throw error;
        const outcome = await error.late.outcome;
        if (error.isOwn && outcome.kind === "failed") {
          if (!isRejected(outcome.error) || outcome.write.services.length === 1) throw outcome.error;
          patient = true;
        }
        if (error.isOwn && outcome.kind === "written") writes += outcome.requests;
      }
    }
  }

  /** A Service is planned once, however many intents a batch holds for it; a deletion comes before all others. */
  async #apply(changes: readonly Change[]): Promise<readonly Outcome<Reconciled>[]> {
    const intents = new Map<string, ServiceIntent>();
    for (const { refresh = false, patient: _patient, ...intent } of changes) {
      const key = keyOf(intent.service);
      // As it is now: the Service may have been changed since, or deleted and created again under its name.
      const service = refresh ? this.#options.observer.service(intent.service) : intent.service;
      if (service !== undefined && intents.get(key)?.action !== "delete") intents.set(key, { ...intent, service });
    }
    const keys = [...intents.keys()];
    const batch = new Batch(this.#options, [...intents.values()], {
      late: this.#late,
      patient: changes.some(({ patient }) => patient),
      follow: (poolId, services, end) => void this.#follow(poolId, services, end),
    });
    const outcomes = await batch.run();
    const nothing: Outcome<Reconciled> = { ok: true, value: { status: undefined, writes: 0 } };
    return changes.map(({ service }) => outcomes[keys.indexOf(keyOf(service))] ?? nothing);
  }

  /** Plans a pool again once its late instances are written: what became of them, no batch has seen. Never rejects. */
  async #follow(poolId: string, services: readonly Service[], end: Promise<unknown>): Promise<void> {
    const key = poolId.toLowerCase();
    if (this.#followed.has(key)) return;
    this.#followed.add(key);
    const { context, observer, activity } = this.#options;
    const { clock, signal, log } = context;
    let error = await end;
    this.#followed.delete(key);
    for (let delayMs = firstPauseMs; !signal.aborted; delayMs = Math.min(longestPauseMs, delayMs * 2)) {
      if (error !== undefined) {
        log.warn("Failed to update a backend pool; trying again", { pool: poolId, delayMs, error });
        await clock.sleep(delayMs, signal);
      }
      const service = [...services, ...observer.services()].find((one) => observer.service(one) !== undefined);
      if (service === undefined || signal.aborted) return;
      error = await activity.track(this.refresh(service, this.#nodes)).then(
        () => undefined,
        (reason: unknown) => reason,
      );
      if (error === undefined) return;
    }
  }

  /** The status of what Azure has of the Service, or undefined when it has nothing. Writes nothing. */
  look(service: Service): Promise<LoadBalancerStatus | undefined> {
    return this.#looks.submit(cluster, service);
  }

  /** What a deletion would write, and what is being written, tells whether there is anything. */
  async #lookAt(services: readonly Service[]): Promise<readonly Outcome<LoadBalancerStatus | undefined>[]> {
    const { observer, config } = this.#options;
    const intents = services.map((service): ServiceIntent => ({ service, action: "delete", nodes: [] }));
    // A write that ends during the observation may be missing from it.
    const late = this.#late.current().map(({ write }) => write);
    const observation = await observer.observe(intents);
    const { observed } = observation;
    const { stages } = plan(intents, observed, config);
    const writes = [...stages.flatMap((stage) => stage.writes), ...late];
    const found = new Set(writes.flatMap((write) => write.services));
    const kept = intents.filter(({ service }) => found.has(keyOf(service)));
    const { results } = plan(
      kept.map((intent) => ({ ...intent, action: "ensure" as const })),
      observed,
      config,
    );
    return intents.map((intent) => {
      const { service } = intent;
      const error = observer.blocked(intent, observation);
      if (error !== undefined) return { ok: false, error };
      if (!found.has(keyOf(service))) return { ok: true, value: undefined };
      const ingress = observedAddresses(observed, service).map((ip) => ({ ip }));
      return { ok: true, value: results.get(keyOf(service))?.status ?? (ingress.length > 0 ? { ingress } : {}) };
    });
  }
}
