import {
  type Clock,
  CodedError,
  type Informer,
  type InformerHandler,
  type Informers,
  keyOf,
  type KindRef,
  kinds,
  type KubeClient,
  type KubeObject,
  type Logger,
  type Metrics,
  type Node,
  type ObjectName,
  type Service,
  type Store,
} from "cloud-controller-host/sdk";

import { LinkedSignal } from "../../async/linked-signal.ts";
import { within } from "../../async/timeout.ts";
import type { Transport } from "../connection/transport.ts";
import { resourceOf } from "../connection/wire.ts";
import type { CatchUpOptions } from "./catch-up.ts";
import { DeliveryLoop } from "./delivery.ts";
import { LogOnce } from "./log-once.ts";
import { informerMetrics } from "./metrics.ts";
import { type Selection, watchKeyOf } from "./requests.ts";
import { SharedInformer, type WatchContent } from "./shared-informer.ts";
import { WriteTracker } from "./write-tracker.ts";

export interface InformerPoolOptions extends Pick<CatchUpOptions, "catchUpFrom"> {
  readonly transport: Transport;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics?: Metrics;
  /** Label selector added to every selection of Nodes, and to no other kind. */
  readonly nodeSelector?: string;
  /** Resync period of handlers without one of their own; 0, the default, disables resyncs. */
  readonly resyncMs?: number;
  /** Handlers of the process itself: they start no watch, and follow those of whole Services and Nodes. */
  readonly observers?: { readonly services: InformerHandler<Service>; readonly nodes: InformerHandler<Node> };
}

/** One generation's share of the pool. */
export interface GenerationInformers extends Informers {
  /** Resolves when all informers requested so far have synced; rejects with the signal's reason when it aborts. */
  synced(signal?: AbortSignal): Promise<void>;
  /** Requested kinds that have not synced yet, as `plural.group`. */
  readonly unsynced: readonly string[];
  /**
   * Reads again what may be older than `since`, by the monotonic clock, and resolves when nothing in use is. An informer
   * that has never synced has an empty store and is not waited for. Rejects with the signal's reason.
   */
  refreshed(since: number, signal: AbortSignal): Promise<void>;
  /** The kinds that `refreshed` would wait for, as `plural.group`. */
  stale(since: number): readonly string[];
  /** Removes all handlers of this share and releases its watches. No handler is called after this. */
  release(): void;
}

/** Time for which an unused watch is kept: a new generation that uses it again sends no LIST. */
const graceMs = 10_000;
/** Longest wait until watches have observed this process's writes. A broken watch takes longer. */
const showLimitMs = 1000;

interface Entry {
  readonly informer: SharedInformer<KubeObject>;
  readonly selection: Selection;
  shares: number;
  /** Aborts when a share is taken during the grace period, and when the pool closes. */
  grace: AbortController | undefined;
}

/** Watches that outlive generations: one per kind and selection, kept while any share uses it. */
export class InformerPool {
  readonly #options: InformerPoolOptions;
  readonly #unreachable: LogOnce;
  readonly #log: Logger;
  readonly #entries = new Map<string, Entry>();
  readonly #ownWrites = new WriteTracker();
  readonly #loop = new DeliveryLoop();
  #closed = false;

  constructor(options: InformerPoolOptions) {
    this.#options = options;
    this.#log = options.log.with({ component: "informers" });
    this.#unreachable = new LogOnce(this.#log, `the API server ${options.transport.url} answers`);
  }

  share(): GenerationInformers {
    return new Share(this.#options.resyncMs ?? 0, (kind, selection) => this.#take(kind, selection));
  }

  /** Sends first lists again that were sent before `since`, by the monotonic clock. */
  relist(since: number): void {
    for (const { informer } of this.#entries.values()) if (!informer.synced) informer.refresh(since);
  }

  /** The latest version of an object from a watch of the whole kind; undefined if no watch has it. */
  find(kind: KindRef, { name, namespace }: ObjectName): KubeObject | undefined {
    return this.stored(kind)?.get(
      keyOf({ metadata: { name, ...(kind.namespaced && { namespace: namespace ?? "" }) } }),
    );
  }

  /** The store of a kind that is watched without a selection; undefined if none is. Starts no watch. */
  stored<T extends KubeObject>(kind: KindRef<T>): Store<T> | undefined {
    const informer = this.#entries.get(watchKeyOf(kind, this.#narrowed(kind, {})))?.informer;
    return informer?.serves(kind) === true && informer.synced ? informer.store : undefined;
  }

  /** Contents of each watch of whole objects. */
  contents(): readonly WatchContent[] {
    const whole = [...this.#entries.values()].filter(({ selection }) => selection.metadataOnly !== true);
    return whole.map(({ informer }) => informer.content);
  }

  /** Wraps a client so that `showWrites` waits for its writes. */
  track(client: KubeClient): KubeClient {
    return this.#ownWrites.track(client);
  }

  /**
   * Resolves when the stores have observed all writes of tracked clients, or after a second, so that the next reader of
   * the stores repeats no write. Never rejects.
   */
  async showWrites(): Promise<void> {
    const over = new AbortController();
    const shown = [...this.#entries.values()].map(({ informer }) =>
      until(informer, () => this.#ownWrites.isObserved(informer.kind, informer.version), over.signal),
    );
    await within(this.#options.clock, showLimitMs, Promise.all(shown));
    over.abort();
  }

  /** Ends all watches and resolves when they have stopped. */
  async close(): Promise<void> {
    this.#closed = true;
    const entries = [...this.#entries.values()];
    this.#entries.clear();
    for (const entry of entries) entry.grace?.abort();
    await Promise.all(entries.map((entry) => entry.informer.close()));
  }

  #take<T extends KubeObject>(kind: KindRef<T>, asked: Selection): Taken<T> {
    if (this.#closed)
      throw new CodedError("Released", `the informers are closed; ${kind.plural} can no longer be watched`);
    const selection = this.#narrowed(kind, asked);
    const key = watchKeyOf(kind, selection);
    const entry = this.#entries.get(key) ?? this.#begin(key, kind, selection);
    const { informer } = entry;
    if (!informer.serves(kind)) throw new TypeError(`the informer of ${key} serves another kind`);
    entry.shares += 1;
    entry.grace?.abort();
    return { informer, release: () => void this.#release(key, entry) };
  }

  #begin<T extends KubeObject>(key: string, kind: KindRef<T>, selection: Selection): Entry {
    const { transport, clock, metrics } = this.#options;
    const chosen = [selection.namespace, selection.labelSelector, selection.fieldSelector].filter(Boolean);
    const informer = new SharedInformer<T>({
      loop: this.#loop,
      kind,
      selection,
      transport,
      clock,
      log: this.#log,
      metrics: metrics && informerMetrics(metrics, ["shared-informers", ...chosen].join("/"), kind),
      unreachable: this.#unreachable,
      catchUpFrom: this.#options.catchUpFrom,
    });
    const { observers } = this.#options;
    if (observers !== undefined && selection.metadataOnly !== true) {
      if (informer.serves(kinds.Service)) informer.handle(observers.services, 0);
      if (informer.serves(kinds.Node)) informer.handle(observers.nodes, 0);
    }
    const entry: Entry = { informer, selection, shares: 0, grace: undefined };
    this.#entries.set(key, entry);
    return entry;
  }

  /** Gives a share of a watch back, and ends the watch after the grace period if it was the last. Never rejects. */
  async #release(key: string, entry: Entry): Promise<void> {
    entry.shares -= 1;
    if (entry.shares > 0) return;
    const grace = new AbortController();
    entry.grace = grace;
    await this.#options.clock.sleep(graceMs, grace.signal);
    if (grace.signal.aborted) return;
    this.#entries.delete(key);
    await entry.informer.close();
  }

  #narrowed(kind: KindRef, selection: Selection): Selection {
    const isNode = kind.group === kinds.Node.group && kind.plural === kinds.Node.plural;
    if (!isNode || !this.#options.nodeSelector) return selection;
    const labelSelector = [this.#options.nodeSelector, selection.labelSelector].filter(Boolean).join(",");
    return { ...selection, labelSelector };
  }
}

interface Taken<T extends KubeObject> {
  readonly informer: SharedInformer<T>;
  readonly release: () => void;
}

type Take = <T extends KubeObject>(kind: KindRef<T>, selection: Selection) => Taken<T>;

class Share implements GenerationInformers {
  readonly #resyncMs: number;
  readonly #take: Take;
  /** The informers that this share uses, without duplicates, each with the function that releases it. */
  readonly #taken = new Map<SharedInformer<KubeObject>, () => void>();
  readonly #handlers = new Set<{ remove(): void }>();
  #released = false;

  constructor(resyncMs: number, take: Take) {
    this.#resyncMs = resyncMs;
    this.#take = take;
  }

  of<T extends KubeObject>(kind: KindRef<T>, selection: Selection = {}): Informer<T> {
    if (this.#released)
      throw new CodedError("Released", `this generation has ended and can no longer watch ${kind.plural}`);
    const { informer, release } = this.#take(kind, selection);
    if (this.#taken.has(informer)) release();
    else this.#taken.set(informer, release);
    return {
      store: informer.store,
      hasSynced: () => informer.synced,
      handle: (handler, options) => {
        if (this.#released) return { remove: () => undefined };
        const registration = informer.handle(handler, options?.resyncMs ?? this.#resyncMs);
        this.#handlers.add(registration);
        return {
          remove: () => {
            this.#handlers.delete(registration);
            registration.remove();
          },
        };
      },
    };
  }

  async synced(signal?: AbortSignal): Promise<void> {
    await Promise.all([...this.#taken.keys()].map((informer) => until(informer, () => informer.synced, signal)));
  }

  get unsynced(): readonly string[] {
    return [...this.#taken.keys()].filter(({ synced }) => !synced).map(({ kind }) => resourceOf(kind));
  }

  async refreshed(since: number, signal: AbortSignal): Promise<void> {
    const informers = [...this.#taken.keys()];
    for (const informer of informers) informer.refresh(since);
    const waiting = informers.filter(({ synced }) => synced);
    await Promise.all(waiting.map((informer) => until(informer, () => informer.isFresh(since), signal)));
  }

  stale(since: number): readonly string[] {
    return [...this.#taken.keys()]
      .filter((informer) => informer.synced && !informer.isFresh(since))
      .map(({ kind }) => resourceOf(kind));
  }

  release(): void {
    this.#released = true;
    for (const handler of this.#handlers) handler.remove();
    this.#handlers.clear();
    for (const release of this.#taken.values()) release();
    this.#taken.clear();
  }
}

/** Resolves when the condition is true. Rejects when the signal aborts, and leaves no callback behind on the informer. */
function until(
  informer: SharedInformer<KubeObject>,
  condition: () => boolean,
  signal: AbortSignal | undefined,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const link = new LinkedSignal(signal);
    const forget = informer.when(condition, () => {
      link.release();
      resolve();
    });
    const fail = (): void => {
      forget();
      reject(link.signal.reason);
    };
    if (link.signal.aborted) fail();
    else link.signal.addEventListener("abort", fail, { once: true });
  });
}
