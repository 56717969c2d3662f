import { type CloudContext, keyOf, type Node, type Service } from "cloud-controller-host/sdk";

import type { ServiceIntent, ServiceKey } from "../model/model.ts";
import type { Activity } from "./activity.ts";
import type { Applier } from "./apply/apply.ts";
import { InFlight } from "./in-flight.ts";
import type { UnendedOperations } from "./later/unended-operations.ts";
import { nothingKnown } from "./observe/needed-reads.ts";
import { OpenedRecords } from "./opened-records.ts";
import { Outcomes, type OutcomesOptions } from "./outcomes.ts";
import { LockKeeper, type ResourceLock } from "./resource-lock.ts";
import { Tick, type TickOptions } from "./tick.ts";
import { planningPace, Ticker } from "./ticker.ts";
import { type Reconciled, Wanted } from "./wanted.ts";
import { WriteStarter } from "./write-starter.ts";

export interface LoopOptions
  extends
    Pick<TickOptions, "config" | "observer" | "rounds" | "newServices" | "drains">,
    Pick<OutcomesOptions, "followUp" | "moved"> {
  readonly applier: Applier;
  readonly activity: Activity;
  readonly lock: ResourceLock;
  readonly unended: Pick<UnendedOperations, "seen" | "lost">;
  readonly context: Pick<CloudContext, "client" | "clock" | "signal" | "events" | "log" | "planning">;
}

/**
 * Brings Services to their desired state. A tick observes and plans all of them, starts the writes whose resources are
 * free, and settles the Services of which nothing is planned or in flight; each change and each end of a write leads to
 * the next one. The next observation shows all that a write needs, so a crash at any point leads to the same plan.
 */
export class Loop {
  readonly #options: LoopOptions;
  readonly #wanted = new Map<ServiceKey, Wanted>();
  readonly #known = nothingKnown();
  readonly #inFlight: InFlight;
  readonly #outcomes: Outcomes;
  readonly #ticker: Ticker;
  readonly #keeper: LockKeeper;
  readonly #ofTicks: TickOptions;
  /** Nodes of the latest ensure; a delayed Service must not restore older ones. */
  nodes: readonly Node[] = [];

  constructor(options: LoopOptions) {
    const { context } = options;
    this.#options = options;
    this.#inFlight = new InFlight(context.clock);
    this.#ticker = new Ticker(context, () => this.#tick(), context.planning && planningPace);
    this.#keeper = new LockKeeper(options.lock, context, (ms) => this.#ticker.after(ms));
    const lasting = { wanted: this.#wanted, known: this.#known, inFlight: this.#inFlight, ticker: this.#ticker };
    this.#outcomes = new Outcomes({ ...options, ...lasting, tickSoon: () => this.#ticker.soon() });
    const starter = new WriteStarter({ ...options, ...lasting, outcomes: this.#outcomes });
    const ofTicks = { nodes: () => this.nodes, outcomes: this.#outcomes, records: new OpenedRecords(options), starter };
    this.#ofTicks = { ...options, ...lasting, ...ofTicks };
  }

  /** Services of writes in flight. */
  get written(): readonly ServiceKey[] {
    return this.#inFlight.current().flatMap(({ services }) => services);
  }

  /** True while a caller waits for the Service. */
  readonly isWanted = (service: Service): boolean => this.#wanted.has(keyOf(service));

  /** Resolves when the newest intent of the Service is carried out. */
  submit(intent: ServiceIntent, signal?: AbortSignal): Promise<Reconciled> {
    const stop = this.#options.context.signal;
    if (stop.aborted || signal?.aborted) return Promise.reject(stop.aborted ? stop.reason : signal?.reason);
    if (intent.action === "ensure") this.nodes = intent.nodes;
    const key = keyOf(intent.service);
    const known = this.#wanted.get(key);
    const entry = known ?? new Wanted(intent);
    if (known === undefined) this.#outcomes.rejections.wanted(intent.service);
    else known.want(intent);
    this.#wanted.set(key, entry);
    this.#ticker.soon();
    return entry.wait(signal, () => this.#wanted.delete(key));
  }

  async #tick(): Promise<void> {
    const { signal } = this.#options.context;
    this.#ticker.after(this.#inFlight.pauseMs());
    if (!signal.aborted) await new Tick(this.#ofTicks).run();
    else if (this.#inFlight.size === 0) for (const entry of this.#wanted.values()) entry.fail(signal.reason);
    await this.#settle();
  }

  /** The lock is released before the last Services are settled, which fail when it cannot be. */
  async #settle(): Promise<void> {
    const ended = [...this.#wanted.values()].filter(({ isEnded }) => isEnded);
    for (const { key } of ended) this.#wanted.delete(key);
    const unlockError = await this.#keeper.keep({
      isWriting: this.#inFlight.size > 0,
      isIdle: this.#wanted.size === 0,
    });
    for (const entry of ended) {
      this.#outcomes.notices.forget(entry.key);
      if (entry.failure === undefined) {
        this.#outcomes.cleared(entry.key);
        this.#options.rounds.settled(entry.intent);
      }
      entry.settle(unlockError);
    }
    if (this.#wanted.size === 0) this.#forget();
  }

  /** Nothing is wanted: the next Service is observed without what the writes so far have left. */
  #forget(): void {
    this.#outcomes.notices.forget();
    for (const known of Object.values(this.#known)) known.clear();
    for (const id of this.#outcomes.outdated.take()) this.#options.observer.outdate(id);
  }
}
