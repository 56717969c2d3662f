import {
  type Clock,
  CodedError,
  type InformerHandler,
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

import { within } from "../../async/timeout.ts";
import type { Transport } from "../connection/transport.ts";
import type { CatchUpOptions } from "./catch-up.ts";
import { DeliveryLoop } from "./delivery.ts";
import { LogOnce } from "./log-once.ts";
import { informerMetrics } from "./metrics.ts";
import { type Selection, watchKeyOf } from "./requests.ts";
import { type GenerationInformers, Share, type Taken, until } from "./share.ts";
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
