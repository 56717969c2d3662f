import {
  type Clock,
  CodedError,
  type Counter,
  isConflict,
  isNotFound,
  kinds,
  type KubeClient,
  type Lease,
  type Logger,
  type ObjectName,
} from "cloud-controller-host/sdk";

import { type LeaseRecord, leaseWith, microTime, recordOf, sameRecord } from "./lease-record.ts";

export interface LeaseLockOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly name: ObjectName;
  readonly identity: string;
  readonly leaseDurationMs: number;
  /** One request; longer than that it counts as failed. */
  readonly requestTimeMs: number;
  /** Counts renewals that needed a read first. */
  readonly slowPath: Counter<"name">;
}

/** What was last seen of the lease, and when by the local clock: times inside a Lease are never compared with it. */
interface Observation {
  readonly record: LeaseRecord;
  readonly lease: Lease;
  readonly atMs: number;
}

/**
 * One candidate's view of one Lease: tries to take or keep it, and gives it back.
 * Source: client-go `leaderelection.tryAcquireOrRenew` and `release`.
 */
export class LeaseLock {
  readonly #options: LeaseLockOptions;
  #observed: Observation | undefined;
  /** When the last write that is known to have succeeded was sent. */
  #renewedMs: number | undefined;
  /** A write of ours was cut off: nobody knows whether it arrived. */
  #uncertain = false;

  constructor(options: LeaseLockOptions) {
    this.#options = options;
  }

  get observed(): Observation | undefined {
    return this.#observed;
  }

  /** Whether the last record seen names us. */
  get held(): boolean {
    return this.#observed?.record.holderIdentity === this.#options.identity;
  }

  /** Whether the lease is ours or may be. */
  get maybeHeld(): boolean {
    return this.held || this.#uncertain;
  }

  /** Whether somebody else holds it, by a record that has not run out. */
  get heldByAnother(): boolean {
    return !this.held && (this.#observed?.record.holderIdentity ?? "") !== "" && this.#valid();
  }

  /** Milliseconds since the last renewal was sent; infinite when there has been none. */
  get renewalAgeMs(): number {
    return this.#renewedMs === undefined ? Number.POSITIVE_INFINITY : this.#monotonic() - this.#renewedMs;
  }

  /** Takes the lease when it is free or has run out, renews it when it is ours. Never rejects. */
  async tryAcquireOrRenew(signal?: AbortSignal): Promise<boolean> {
    const { clock, identity, leaseDurationMs, log, name } = this.#options;
    const now = microTime(clock.now());
    const wanted: LeaseRecord = {
      holderIdentity: identity,
      leaseDurationSeconds: Math.floor(leaseDurationMs / 1000),
      acquireTime: now,
      renewTime: now,
      leaseTransitions: 0,
    };
    try {
      if (this.held && this.#valid() && this.#observed !== undefined) {
        const { record, lease } = this.#observed;
        if (await this.#renewFast({ ...wanted, ...tenureOf(record) }, lease, signal)) return true;
      }
      const lease = await this.#call(
        "get",
        (cut) => this.#options.client.get(kinds.Lease, name, { signal: cut }),
        signal,
      ).catch((error: unknown) => {
        if (isNotFound(error)) return undefined;
        throw error;
      });
      if (lease === undefined) return await this.#write("create", leaseWith(wanted, name), signal);
      const record = recordOf(lease);
      if (this.#observed === undefined || !sameRecord(this.#observed.record, record)) this.#observe(lease);
      else this.#observed = { ...this.#observed, lease };
      if (this.heldByAnother) {
        log.debug(4, "the lease is held by another", { lease: name, holder: record.holderIdentity });
        return false;
      }
      if (this.held) this.#options.slowPath.inc({ name: name.name });
      const tenure = this.held ? tenureOf(record) : { leaseTransitions: record.leaseTransitions + 1 };
      return await this.#write("replace", leaseWith({ ...wanted, ...tenure }, name, lease), signal);
    } catch (error) {
      if (signal?.aborted) return false;
      if (isConflict(error)) log.debug(2, "somebody else wrote the lease first", { lease: name, error });
      else log.error("the lease could not be taken or renewed", { lease: name, error });
      return false;
    }
  }

  /** Gives the lease back, so that the next leader need not wait. Only when all work under it has stopped. */
  async release(budgetMs: number): Promise<boolean> {
    const { client, clock, identity, log, name } = this.#options;
    const deadlineMs = this.#monotonic() + budgetMs;
    while (this.#monotonic() < deadlineMs)
      try {
        const lease = await this.#call("get", (cut) => client.get(kinds.Lease, name, { signal: cut }));
        const record = recordOf(lease);
        if (record.holderIdentity !== identity) return true;
        const now = microTime(clock.now());
        const empty = { ...record, holderIdentity: "", leaseDurationSeconds: 1, acquireTime: now, renewTime: now };
        return await this.#write("replace", leaseWith(empty, name, lease));
      } catch (error) {
        if (isConflict(error)) continue;
        if (isNotFound(error)) return true;
        log.error("the lease could not be released; it will run out by itself", { lease: name, error });
        return false;
      }
    return false;
  }

  async #renewFast(record: LeaseRecord, lease: Lease, signal: AbortSignal | undefined): Promise<boolean> {
    try {
      return await this.#write("replace", leaseWith(record, this.#options.name, lease), signal);
    } catch (error) {
      this.#options.log.debug(2, "the fast renewal of the lease failed, reading it first", {
        lease: this.#options.name,
        error,
      });
      if (signal?.aborted) throw error;
      return false;
    }
  }

  async #write(verb: "create" | "replace", lease: Lease, signal?: AbortSignal): Promise<boolean> {
    const sentMs = this.#monotonic();
    const { client } = this.#options;
    this.#uncertain = true;
    try {
      const written = await this.#call(verb, (cut) => client[verb](kinds.Lease, lease, { signal: cut }), signal);
      this.#observe(written);
      this.#renewedMs = this.held ? sentMs : undefined;
      this.#uncertain = false;
      return true;
    } catch (error) {
      if (isConflict(error)) this.#uncertain = false;
      throw error;
    }
  }

  /** A call that ends with the signal or at the time limit, even where the client does not heed its signal. */
  async #call<T>(what: string, call: (signal: AbortSignal) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const { clock, requestTimeMs } = this.#options;
    const late = new AbortController();
    const over = new AbortController();
    const cut = signal === undefined ? late.signal : AbortSignal.any([signal, late.signal]);
    const failed = new Promise<never>((_, reject) => {
      cut.addEventListener("abort", () => reject(cut.reason), { signal: over.signal });
    });
    void clock.sleep(requestTimeMs, over.signal).then(() => {
      if (!over.signal.aborted)
        late.abort(new CodedError("LeaseTimeout", `no answer to ${what} within ${requestTimeMs / 1000} s`));
      return undefined;
    });
    try {
      cut.throwIfAborted();
      return await Promise.race([call(cut), failed]);
    } finally {
      over.abort();
    }
  }

  #observe(lease: Lease): void {
    const before = this.#observed?.record.holderIdentity;
    const record = recordOf(lease);
    this.#observed = { record, lease, atMs: this.#monotonic() };
    if (record.holderIdentity !== "" && record.holderIdentity !== before)
      this.#options.log.info("the lease has a new holder", {
        lease: this.#options.name,
        holder: record.holderIdentity,
      });
  }

  #valid(): boolean {
    if (this.#observed === undefined) return false;
    const { record, atMs } = this.#observed;
    return atMs + record.leaseDurationSeconds * 1000 > this.#monotonic();
  }

  #monotonic(): number {
    return this.#options.clock.monotonic();
  }
}

/** What stays as it is while one holder renews. */
const tenureOf = ({
  acquireTime,
  leaseTransitions,
}: LeaseRecord): Pick<LeaseRecord, "acquireTime" | "leaseTransitions"> => ({
  acquireTime,
  leaseTransitions,
});
