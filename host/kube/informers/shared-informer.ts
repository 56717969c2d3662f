import type { Clock, InformerHandler, KindRef, KubeObject, Logger } from "cloud-controller-host/sdk";

import { type DeliveryLoop, HandlerDelivery } from "./delivery.ts";
import type { InformerMetrics } from "./metrics.ts";
import { Reflector, type ReflectorOptions } from "./reflector.ts";
import { type Change, ObjectStore } from "./store.ts";

const shortestResyncMs = 1000;

export interface SharedInformerOptions<T extends KubeObject> extends Omit<
  ReflectorOptions<T>,
  "store" | "changed" | "synced"
> {
  readonly metrics: InformerMetrics | undefined;
  /** Of all informers whose handlers share the turns of the event loop. */
  readonly loop: DeliveryLoop;
}

/** The objects of a watch and, while its kind may not be read, the API server's reply. */
export interface WatchContent {
  readonly kind: KindRef;
  readonly objects: readonly KubeObject[];
  readonly refusal: Error | undefined;
}

/** One watched kind and selection: a reflector, its store and its handlers. */
export class SharedInformer<T extends KubeObject> {
  readonly store = new ObjectStore<T>();
  readonly #kind: KindRef<T>;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #metrics: InformerMetrics | undefined;
  readonly #loop: DeliveryLoop;
  readonly #deliveries = new Set<HandlerDelivery<T>>();
  readonly #waiters = new Set<() => void>();
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  readonly #reflector: Pick<Reflector<KubeObject>, "freshAt" | "refusal" | "relist">;
  #synced = false;
  #version = "";

  /** Starts to list and watch immediately. */
  constructor(options: SharedInformerOptions<T>) {
    this.#kind = options.kind;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#metrics = options.metrics;
    this.#loop = options.loop;
    const reflector = new Reflector<T>({
      ...options,
      store: this.store,
      changed: (changes, version) => this.#changed(changes, version),
      synced: () => this.#nowSynced(),
    });
    this.#reflector = reflector;
    this.#running = reflector.run(this.#stop.signal);
  }

  /** True if this is the informer of that kind; the pool looks informers up by group, version and resource. */
  serves<U extends KubeObject>(kind: KindRef<U>): this is SharedInformer<U> {
    const { group, version, plural } = this.#kind;
    return group === kind.group && version === kind.version && plural === kind.plural;
  }

  get kind(): KindRef<T> {
    return this.#kind;
  }

  get synced(): boolean {
    return this.#synced;
  }

  /** The resourceVersion of the store; "" before the first list. */
  get version(): string {
    return this.#version;
  }

  get content(): WatchContent {
    return { kind: this.#kind, objects: this.store.list(), refusal: this.#reflector.refusal };
  }

  /** Lists again, or proves the store fresh, unless a list that was sent at or after `since` is stored or under way. */
  refresh(since: number): void {
    this.#reflector.relist(since);
  }

  /**
   * True if the store shows what the API server held at `since`, or later: a list that was sent after that is in it, from
   * which the watch only continues, or the watch has caught up with a read that was sent after that.
   */
  isFresh(since: number): boolean {
    return this.#reflector.freshAt >= since;
  }

  /**
   * Calls back once when the condition is true, immediately if it already is; the result cancels the request. The
   * condition depends on `synced`, `version` and `isFresh`, and is evaluated after each step of the store.
   */
  when(holds: () => boolean, callback: () => void): () => void {
    const waiter = (): void => {
      if (!holds()) return;
      this.#waiters.delete(waiter);
      callback();
    };
    this.#waiters.add(waiter);
    waiter();
    return () => void this.#waiters.delete(waiter);
  }

  /** Adds a handler and delivers everything in the store to it. `resyncMs` of 0 means never; the minimum is a second. */
  handle(handler: InformerHandler<T>, resyncMs: number): { remove(): void } {
    const delivery = new HandlerDelivery<T>({
      loop: this.#loop,
      handler,
      what: this.#kind.plural,
      log: this.#log,
      delivered: (durationMs) => this.#metrics?.processed(durationMs),
      turnEnds: () => this.#tellQueued(),
    });
    const removed = new AbortController();
    this.#deliveries.add(delivery);
    delivery.bring(this.store.list().map((object) => ({ type: "added", object })));
    if (resyncMs > 0) void this.#resync(delivery, Math.max(shortestResyncMs, resyncMs), removed.signal);
    return {
      remove: () => {
        removed.abort();
        this.#deliveries.delete(delivery);
        delivery.stop();
      },
    };
  }

  /** Ends the watch and resolves when it has stopped. */
  async close(): Promise<void> {
    this.#stop.abort();
    for (const delivery of this.#deliveries) delivery.stop();
    this.#deliveries.clear();
    this.#waiters.clear();
    await this.#running;
  }

  /** Never rejects; ends with its registration. */
  async #resync(delivery: HandlerDelivery<T>, periodMs: number, removed: AbortSignal): Promise<void> {
    for (;;) {
      await this.#clock.sleep(periodMs, removed);
      if (removed.aborted) return;
      delivery.bring(this.store.list().map((object) => ({ type: "updated", before: object, object })));
    }
  }

  #changed(changes: readonly Change<T>[], version: string): void {
    this.#version = version;
    this.#metrics?.stored(version);
    if (changes.length > 0) {
      for (const delivery of this.#deliveries) delivery.bring(changes);
      this.#tellQueued();
    }
    this.#stepped();
  }

  #tellQueued(): void {
    if (this.#metrics === undefined) return;
    let queued = 0;
    for (const delivery of this.#deliveries) queued += delivery.pending;
    this.#metrics.queued(queued);
  }

  #nowSynced(): void {
    this.#synced = true;
    this.#stepped();
  }

  #stepped(): void {
    for (const waiter of this.#waiters) waiter();
  }
}
