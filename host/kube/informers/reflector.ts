import {
  ApiError,
  type Clock,
  CodedError,
  compareResourceVersion,
  type ErrorCode,
  isObject,
  type KindRef,
  type KubeObject,
  type Logger,
  messageOf,
} from "cloud-controller-host/sdk";

import { Backoff } from "../../async/backoff.ts";
import { LinkedSignal } from "../../async/linked-signal.ts";
import { streamList } from "../connection/stream-list.ts";
import type { Transport } from "../connection/transport.ts";
import { watchEvents } from "../connection/watch-events.ts";
import { objectOf, resourceOf, statusError, textAt } from "../connection/wire.ts";
import { isReadable } from "../protobuf/envelope.ts";
import { CatchUp, type CatchUpOptions } from "./catch-up.ts";
import { Compactor } from "./compaction.ts";
import { isUnreachable, LogOnce } from "./log-once.ts";
import { listOptions, type Selection, watchRequest } from "./requests.ts";
import type { Change, ObjectStore } from "./store.ts";

export interface ReflectorOptions<T extends KubeObject> extends Pick<CatchUpOptions, "catchUpFrom"> {
  readonly transport: Transport;
  readonly clock: Clock;
  readonly log: Logger;
  readonly kind: KindRef<T>;
  readonly selection: Selection;
  readonly store: ObjectStore<T>;
  /** Shared by all reflectors of one API server. */
  readonly unreachable: LogOnce;
  /** Called for every change after it is stored, in order; `version` is that of the store. */
  changed(changes: readonly Change<T>[], version: string): void;
  /** Called once, when the first list is stored. */
  synced(): void;
}

/** Bookmarks come about once a minute; a watch that is silent for longer has lost its server without noticing. */
const idleLimitMs = 150_000;
/** A watch that ends sooner and brought nothing counts as a failure. */
const shortWatchMs = 1000;
/** After this many refused or silent watches in a row everything is listed again. */
const refusalsUntilRelist = 3;
/** A watch may end early now and then; this many failures in a row are a problem to report. */
const failuresUntilReport = 3;
const relist: ErrorCode = "Relist";

/** Keeps a store equal to what the API server holds. upstream: client-go `tools/cache.Reflector`. */
export class Reflector<T extends KubeObject> {
  readonly #options: ReflectorOptions<T>;
  readonly #what: string;
  readonly #refused: LogOnce;
  readonly #backoff = new Backoff({ baseMs: 800, maxMs: 30_000 });
  readonly #compactor: Compactor;
  readonly #protobuf: boolean;
  /** Resource version of the store; undefined when everything must be listed. */
  #version: string | undefined;
  #refusals = 0;
  /** Since a watch last worked. */
  #failures = 0;
  #refusal: ApiError | undefined;
  #syncedOnce = false;
  /** When the list was sent that is under way; undefined while none is. */
  #listingSince: number | undefined;
  #freshAt = Number.NEGATIVE_INFINITY;
  readonly #catchUp: CatchUp;
  /** Ends the list, watch or pause under way. */
  #step: LinkedSignal | undefined;

  constructor(options: ReflectorOptions<T>) {
    const { kind, log } = options;
    this.#options = options;
    this.#what = resourceOf(kind);
    this.#refused = new LogOnce(log, `${this.#what} are listed and watched again`);
    this.#compactor = new Compactor(kind);
    this.#protobuf = options.transport.protobuf === true && isReadable(kind);
    this.#catchUp = new CatchUp({
      ...options,
      version: () => this.#version,
      proven: (sentAt) => {
        this.#freshAt = sentAt;
        options.changed([], this.#version ?? "");
      },
      unproven: () => this.#listAgain(),
    });
  }

  /** The reply by which the API server does not let the kind be read; undefined for other failures, and once it does. */
  get refusal(): ApiError | undefined {
    return this.#refusal;
  }

  /** Lists and watches until the signal aborts; never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      using step = this.#begin(signal);
      try {
        if (this.#version === undefined) await this.#list(step.signal);
        else await this.#watch(this.#version, step);
      } catch (error) {
        if (signal.aborted) break;
        if (isRelist(step.signal.reason)) continue;
        this.#report(error);
        if (this.#catchUp.paused()) {
          this.#listAgain();
          continue;
        }
        using pause = this.#begin(signal);
        await this.#options.clock.sleep(this.#backoff.next(), pause.signal);
      }
    }
    this.#catchUp.paused();
  }

  #begin(signal: AbortSignal): LinkedSignal {
    this.#step = new LinkedSignal(signal);
    return this.#step;
  }

  /** The store shows what the API server held then, by the monotonic clock, or later. */
  get freshAt(): number {
    return this.#freshAt;
  }

  /**
   * Lists everything again, now, unless a list that was sent at or after `since` is stored or under way: also in place
   * of a list that was sent earlier, and of a pause after failures. A large store may be proven fresh instead.
   */
  relist(since: number): void {
    if (this.#freshAt >= since || (this.#listingSince ?? Number.NEGATIVE_INFINITY) >= since) return;
    if (!this.#catchUp.begin(since)) this.#listAgain();
  }

  #listAgain(): void {
    this.#version = undefined;
    this.#backoff.reset();
    this.#step?.abort(new CodedError(relist, "everything is listed again"));
  }

  async #list(signal: AbortSignal): Promise<void> {
    const { transport, kind, selection, store, clock } = this.#options;
    const sentAt = clock.monotonic();
    this.#listingSince = sentAt;
    try {
      const { items, resourceVersion } = await streamList(transport, kind, {
        ...listOptions(selection),
        signal,
        trim: this.#compactor.compact,
        protobuf: this.#protobuf,
      });
      signal.throwIfAborted();
      this.#options.unreachable.ended();
      this.#version = resourceVersion;
      this.#freshAt = sentAt;
      this.#options.changed(store.replace(items), resourceVersion);
    } finally {
      this.#listingSince = undefined;
    }
    if (!this.#syncedOnce) this.#options.synced();
    this.#syncedOnce = true;
  }

  async #watch(from: string, step: LinkedSignal): Promise<void> {
    const { transport, kind, selection, clock } = this.#options;
    const startedAt = clock.monotonic();
    const response = await transport.send({
      ...watchRequest(kind, selection, from, this.#protobuf),
      signal: step.signal,
    });
    this.#options.unreachable.ended();
    const heard = await this.#follow(response, step);
    if (heard === 0 && clock.monotonic() - startedAt < shortWatchMs)
      throw new CodedError("ShortWatch", "it ended at once and brought nothing");
    this.#succeeded();
  }

  /** Applies what the watch brings until it ends, and returns how many events that was. */
  async #follow(response: Response, step: LinkedSignal): Promise<number> {
    const { clock } = this.#options;
    const ended = new AbortController();
    let heardAt = clock.monotonic();
    let events = 0;
    const guard = async (): Promise<void> => {
      for (let silence = 0; !ended.signal.aborted; silence = clock.monotonic() - heardAt) {
        if (silence >= idleLimitMs) return step.abort(new CodedError("IdleWatch", "the watch timed out"));
        await clock.sleep(idleLimitMs - silence, ended.signal);
      }
    };
    const guarding = guard();
    try {
      for await (const batch of watchEvents(response)) {
        // What was read before a new list was requested must not set the version.
        step.signal.throwIfAborted();
        const heard = batch.length === 0 ? 0 : this.#applyAll(batch);
        if (heard > 0 || batch.length === 0) heardAt = clock.monotonic();
        if (heard > 0 && events === 0) this.#succeeded();
        events += heard;
      }
    } finally {
      ended.abort();
      await guarding;
    }
    return events;
  }

  #applyAll(batch: readonly unknown[]): number {
    const changes: Change<T>[] = [];
    let heard = 0;
    try {
      for (const event of batch) {
        const change = this.#apply(event);
        if (change !== "past") heard += 1;
        if (change instanceof Object) changes.push(change);
      }
    } finally {
      this.#options.changed(changes, this.#version ?? "");
    }
    this.#catchUp.heard();
    return heard;
  }

  #apply(event: unknown): Change<T> | undefined | "past" {
    const { kind, store } = this.#options;
    const fields = isObject(event) ? event : {};
    if (fields["type"] === "ERROR") throw statusError(`watch of ${this.#what}`, 500, fields["object"]);
    const object = objectOf(kind, fields["object"]);
    // Applied again, a change that the store is past would be taken for a new one: a node would leave its pools.
    const known = fields["type"] === "DELETED" ? store.versionOf(object) : this.#version;
    if (compareResourceVersion(object.metadata?.resourceVersion, known) === -1) return "past";
    this.#version = object.metadata?.resourceVersion || this.#version;
    switch (fields["type"]) {
      case "ADDED":
      case "MODIFIED":
        this.#compactor.compact(object);
        return store.set(object);
      case "DELETED":
        this.#compactor.compact(object);
        return store.delete(object);
      case "BOOKMARK":
        return undefined;
      default:
        throw new CodedError("UnexpectedReply", `a watch event of type "${textAt(fields, "type")}"`);
    }
  }

  /** Only a watch that works ends a run of failures: a list that succeeds before each failing watch would hide it. */
  #succeeded(): void {
    this.#refusals = 0;
    this.#failures = 0;
    this.#refusal = undefined;
    this.#backoff.reset();
    this.#refused.ended();
  }

  #report(error: unknown): void {
    const { unreachable, transport, log } = this.#options;
    this.#failures += 1;
    this.#refusal = error instanceof ApiError && [401, 403, 404].includes(error.status) ? error : undefined;
    if (isUnreachable(error)) {
      unreachable.failed(`waiting for the API server ${transport.url}`, error);
    } else if (error instanceof ApiError && error.status === 410) {
      log.debug(2, `the watch of ${this.#what} is too old; listing again`);
      this.#version = undefined;
    } else if (isBrokenOff(error) && this.#failures < failuresUntilReport) {
      log.debug(2, `Watch of ${this.#what} ended, resuming: ${messageOf(error)}`);
    } else if (error instanceof CodedError && error.code === "IdleWatch") {
      log.debug(2, `Watch of ${this.#what} timed out, resuming`);
      this.#countRefusal();
    } else {
      if (!isBrokenOff(error) && !(error instanceof ApiError && error.status === 429)) this.#countRefusal();
      this.#refused.failed(`cannot list or watch ${this.#what}, trying again`, error);
    }
  }

  /** A server that was restored from a backup is behind the store's version and then refuses it, or stays silent. */
  #countRefusal(): void {
    this.#refusals += 1;
    if (this.#refusals < refusalsUntilRelist) return;
    this.#refusals = 0;
    this.#version = undefined;
  }
}

const isRelist = (reason: unknown): boolean => reason instanceof CodedError && reason.code === relist;

/** Errors of a connection are not coded; an empty watch comes from a server or proxy that is shutting down. */
const isBrokenOff = (error: unknown): boolean => !(error instanceof CodedError) || error.code === "ShortWatch";
