import {
  createCooperativeYield,
  type InformerHandler,
  keyOf,
  type KubeObject,
  type Logger,
} from "cloud-controller-host/sdk";

import { Fifo } from "../../async/fifo.ts";
import type { Change } from "./store.ts";

/** A handler that throws for one object may throw for all: the first errors are logged, and then every thousandth. */
const loggedErrors = 5;
const loggedEvery = 1000;

type Pause = ReturnType<typeof createCooperativeYield>;

interface Delivery {
  readonly pending: number;
  deliver(pause: Pause): Promise<void> | undefined;
}

/**
 * Works for the deliveries of a pool, in turn. With a budget each, a turn of the event loop would last as long as those of
 * all the handlers that a large list has.
 */
export class DeliveryLoop {
  /** In the order of their turns. */
  readonly #waiting = new Set<Delivery>();
  #running = false;

  /** Until nothing of it is pending. Begins later than the call. */
  add(delivery: Delivery): void {
    this.#waiting.add(delivery);
    if (!this.#running) void this.#run();
  }

  async #run(): Promise<void> {
    this.#running = true;
    await Promise.resolve();
    const pause = createCooperativeYield();
    try {
      // A set shows what is added while it is gone through, at its end.
      for (const next of this.#waiting) {
        this.#waiting.delete(next);
        const stopped = next.deliver(pause);
        if (next.pending > 0) this.#waiting.add(next);
        // After the last change others get their turn anyway.
        const turn = this.#waiting.size === 0 ? undefined : (stopped ?? pause());
        if (turn !== undefined) await turn;
      }
    } finally {
      this.#running = false;
    }
  }
}

/**
 * Delivers changes to one handler, sequentially and in order, and never from within the call that made the change. An
 * exception of the handler is logged, and delivery continues with the next change.
 */
export class HandlerDelivery<T extends KubeObject> {
  readonly #loop: DeliveryLoop;
  readonly #handler: InformerHandler<T>;
  readonly #what: string;
  readonly #log: Logger;
  readonly #delivered: (durationMs: number) => void;
  readonly #turnEnds: () => void;
  readonly #pending = new Fifo<Change<T>>();
  #errors = 0;

  constructor(options: {
    readonly loop: DeliveryLoop;
    readonly handler: InformerHandler<T>;
    /** The resource, for the log. */
    readonly what: string;
    readonly log: Logger;
    /** Called after each change. */
    readonly delivered: (durationMs: number) => void;
    /** Called when the event loop is left to others, and at the end: `pending` has become less. */
    readonly turnEnds: () => void;
  }) {
    this.#loop = options.loop;
    this.#handler = options.handler;
    this.#what = options.what;
    this.#log = options.log;
    this.#delivered = options.delivered;
    this.#turnEnds = options.turnEnds;
  }

  get pending(): number {
    return this.#pending.size;
  }

  bring(changes: Iterable<Change<T>>): void {
    for (const change of changes) this.#pending.push(change);
    if (this.#pending.size > 0) this.#loop.add(this);
  }

  /** Stops delivery; queued changes are dropped. */
  stop(): void {
    this.#pending.clear();
  }

  /** Tells the handler what is pending, until that is all or a promise says that it is the turn of others. */
  deliver(pause: Pause): Promise<void> | undefined {
    let turn: Promise<void> | undefined;
    for (let change = this.#pending.shift(); change !== undefined; change = this.#pending.shift()) {
      const began = performance.now();
      this.#tell(change);
      this.#delivered(performance.now() - began);
      turn = this.#pending.size === 0 ? undefined : pause();
      if (turn !== undefined) break;
    }
    this.#turnEnds();
    return turn;
  }

  #tell(change: Change<T>): void {
    try {
      if (change.type === "added") this.#handler.added?.(change.object);
      else if (change.type === "updated") this.#handler.updated?.(change.before, change.object);
      else this.#handler.deleted?.(change.object);
    } catch (error) {
      this.#errors++;
      if (this.#errors > loggedErrors && this.#errors % loggedEvery !== 0) return;
      this.#log.error(`Informer handler of ${this.#what} threw; the change is lost to it`, {
        change: change.type,
        object: keyOf(change.object),
        errors: this.#errors,
        error,
      });
    }
  }
}
