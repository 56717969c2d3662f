import { CodedError, type Informer, type Informers, type KindRef, type KubeObject } from "cloud-controller-host/sdk";

import { LinkedSignal } from "../../async/linked-signal.ts";
import { resourceOf } from "../connection/wire.ts";
import type { Selection } from "./requests.ts";
import type { SharedInformer } from "./shared-informer.ts";

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

/** An informer, for one more share. */
export interface Taken<T extends KubeObject> {
  readonly informer: SharedInformer<T>;
  readonly release: () => void;
}

type Take = <T extends KubeObject>(kind: KindRef<T>, selection: Selection) => Taken<T>;

/** Remembers what it has taken of the pool, and gives it all back at once. */
export class Share implements GenerationInformers {
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
export function until(
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
