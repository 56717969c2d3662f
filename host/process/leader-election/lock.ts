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
  messageOf,
  type ObjectName,
} from "cloud-controller-host/sdk";

import { type LeaseRecord, leaseWith, microTime, recordOf, sameRecord } from "./record.ts";

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

/** What cuts a try short. A write that is cut off leaves it open who holds the lease, so a clean stop cuts only reads. */
export interface Cut {
  readonly reads?: AbortSignal;
  readonly writes?: AbortSignal;
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
  /** What the last try failed of, while tries fail. */
  #complaint = "";

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
  async tryAcquireOrRenew(cut: Cut = {}): Promise<boolean> {
    const { log, name } = this.#options;
    try {
      const taken = (await this.#renewFast(cut)) || (await this.#readThenWrite(cut));
      this.#complaint = "";
      return taken;
    } catch (error) {
      if (isCut(cut)) return false;
      if (isConflict(error)) log.debug(2, "somebody else wrote the lease first", { lease: name, error });
      else this.#complain(error);
      return false;
    }
  }

  /** A standby may fail in one way for hours, every other second: that is said once. A leader's failures all are. */
  #complain(error: unknown): void {
    const { log, name } = this.#options;
    const complaint = messageOf(error);
    const message = "the lease could not be taken or renewed";
    if (complaint === this.#complaint && !this.held) log.debug(4, message, { lease: name, error });
    else log.error(message, { lease: name, error });
    this.#complaint = complaint;
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

  /** The record that we should like to see there. */
  #wanted(tenure: Partial<LeaseRecord>): LeaseRecord {
    const { clock, identity, leaseDurationMs } = this.#options;
    const now = microTime(clock.now());
    return {
      holderIdentity: identity,
      leaseDurationSeconds: Math.floor(leaseDurationMs / 1000),
      acquireTime: now,
      renewTime: now,
      leaseTransitions: 0,
      ...tenure,
    };
  }

  /** Writes over what was last seen, if that is ours and has not run out; where that fails, a read must come first. */
  async #renewFast(cut: Cut): Promise<boolean> {
    const { log, name } = this.#options;
    if (this.#observed === undefined || !this.held || !this.#valid()) return false;
    const { record, lease } = this.#observed;
    try {
      return await this.#write("replace", leaseWith(this.#wanted(tenureOf(record)), name, lease), cut);
    } catch (error) {
      if (isCut(cut)) throw error;
      log.debug(2, "the fast renewal of the lease failed, reading it first", { lease: name, error });
      return false;
    }
  }

  async #readThenWrite(cut: Cut): Promise<boolean> {
    const { client, log, name, slowPath } = this.#options;
    const read = (signal: AbortSignal): Promise<Lease> => client.get(kinds.Lease, name, { signal });
    const lease = await this.#call("get", read, cut.reads).catch((error: unknown) => {
      if (isNotFound(error)) return undefined;
      throw error;
    });
    if (lease === undefined) return this.#write("create", leaseWith(this.#wanted({}), name), cut);
    const record = recordOf(lease);
    if (this.#observed === undefined || !sameRecord(this.#observed.record, record)) this.#observe(lease);
    else this.#observed = { ...this.#observed, lease };
    if (this.heldByAnother) {
      log.debug(4, "the lease is held by another", { lease: name, holder: record.holderIdentity });
      return false;
    }
    if (this.held) slowPath.inc({ name: name.name });
    const tenure = this.held ? tenureOf(record) : { leaseTransitions: record.leaseTransitions + 1 };
    return this.#write("replace", leaseWith(this.#wanted(tenure), name, lease), cut);
  }

  async #write(verb: "create" | "replace", lease: Lease, cut: Cut = {}): Promise<boolean> {
    cut.reads?.throwIfAborted();
    const sentMs = this.#monotonic();
    const { client } = this.#options;
    const write = (signal: AbortSignal): Promise<Lease> => client[verb](kinds.Lease, lease, { signal });
    this.#uncertain = true;
    try {
      this.#observe(await this.#call(verb, write, cut.writes));
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

const isCut = ({ reads, writes }: Cut): boolean => (reads?.aborted ?? false) || (writes?.aborted ?? false);

/** What stays as it is while one holder renews. */
const tenureOf = ({
  acquireTime,
  leaseTransitions,
}: LeaseRecord): Pick<LeaseRecord, "acquireTime" | "leaseTransitions"> => ({
  acquireTime,
  leaseTransitions,
});
