import { type Clock, compareResourceVersion, type KindRef, type Logger, messageOf } from "cloud-controller-host/sdk";

import { within } from "../../async/timeout.ts";
import { latestVersion } from "../connection/list.ts";
import type { Transport } from "../connection/transport.ts";
import { resourceOf } from "../connection/wire.ts";
import { listOptions, type Selection } from "./requests.ts";

/** A store of fewer objects is listed again sooner than its watch is likely to bring something. */
const defaultFrom = 1000;
/** About as long as the list of the smallest such store takes: waiting longer would cost more than it saves. */
const limitMs = 250;
/** The watch of a kind at rest, which has brought nothing for as long, is unlikely to bring something in time. */
const restMs = 1000;

export interface CatchUpOptions {
  readonly transport: Transport;
  readonly clock: Clock;
  readonly log: Logger;
  readonly kind: KindRef;
  readonly selection: Selection;
  readonly store: { readonly size: number };
  /** A smaller store is listed again at once. */
  readonly catchUpFrom?: number | undefined;
  /** Resource version of the store; undefined while everything is listed. */
  readonly version: () => string | undefined;
  /** The store shows what the API server held at `sentAt`, by the monotonic clock, or later. */
  readonly proven: (sentAt: number) => void;
  /** Only a list can tell. */
  readonly unproven: () => void;
}

interface Proof {
  readonly sentAt: number;
  /** The version that the store has to reach, once that is known. */
  target: string | undefined;
  readonly reached: PromiseWithResolvers<void>;
  readonly ended: AbortController;
}

/**
 * Proves that a large store is fresh, without listing it again:
 *
 * A consistent read of the selection, limited to one object's metadata, is answered with the version that etcd had come to
 * when it was carried out, which is after it was sent. A watch delivers changes in the order of their versions, so a
 * store to which it has brought a change or bookmark of that version or a later one lacks no earlier change. Therefore the
 * store shows what the API server held when the read was sent, however long the bytes of either have waited anywhere.
 *
 * In a large cluster, heartbeats bring such a change within tens of milliseconds.
 */
export class CatchUp {
  readonly #options: CatchUpOptions;
  #heardAt = Number.NEGATIVE_INFINITY;
  #proof: Proof | undefined;

  constructor(options: CatchUpOptions) {
    this.#options = options;
  }

  /** True if a proof begins, or one whose read was sent at or after `since` is under way; a list is sooner otherwise. */
  begin(since: number): boolean {
    const { clock, store, catchUpFrom = defaultFrom, version } = this.#options;
    if (this.#proof !== undefined && this.#proof.sentAt >= since) return true;
    this.stop();
    const sentAt = clock.monotonic();
    if (version() === undefined || store.size < catchUpFrom || sentAt - this.#heardAt > restMs) return false;
    const proof = { sentAt, target: undefined, reached: Promise.withResolvers<void>(), ended: new AbortController() };
    this.#proof = proof;
    void this.#prove(proof);
    return true;
  }

  /** The watch has brought something, which is in the store. */
  heard(): void {
    this.#heardAt = this.#options.clock.monotonic();
    this.#compare();
  }

  /**
   * No list or watch is under way: after a failure, until a pause has passed, or because the reflector has ended. True if a
   * proof was under way: a list is sooner than the next watch.
   */
  paused(): boolean {
    const isProving = this.#proof !== undefined;
    this.#heardAt = Number.NEGATIVE_INFINITY;
    this.stop();
    return isProving;
  }

  /** Ends a proof without a result: everything is listed. */
  stop(): void {
    this.#proof?.ended.abort();
    this.#proof = undefined;
  }

  /** Never rejects, and ends with `stop`. */
  async #prove(proof: Proof): Promise<void> {
    const { clock, log, kind, proven, unproven } = this.#options;
    const result = await within(clock, limitMs, this.#failureOf(proof), proof.ended.signal);
    if (this.#proof !== proof) return;
    this.stop();
    const failure = result.done ? result.value : `its watch has not caught up within ${limitMs} ms`;
    if (failure === undefined) return proven(proof.sentAt);
    log.debug(2, `Listing ${resourceOf(kind)} again: ${failure}`);
    unproven();
  }

  /** Undefined once the store has caught up. */
  async #failureOf(proof: Proof): Promise<string | undefined> {
    const { transport, kind, selection, version } = this.#options;
    const known = version();
    const { signal } = proof.ended;
    try {
      const target = await latestVersion(transport, kind, { ...listOptions(selection), signal });
      // Versions go back only on a server that was restored from a backup.
      if (compareResourceVersion(target, known) === -1) return `version ${target} is older than ${known}`;
      if (compareResourceVersion(target, target) === undefined) return `version ${target} cannot be compared`;
      proof.target = target;
    } catch (error) {
      return messageOf(error);
    }
    this.#compare();
    await proof.reached.promise;
    return undefined;
  }

  /** Versions that cannot be compared prove nothing, unless they are equal. */
  #compare(): void {
    const { target, reached } = this.#proof ?? {};
    const version = this.#options.version();
    if (target === undefined) return;
    if (version === target || compareResourceVersion(target, version) === -1) reached?.resolve();
  }
}
