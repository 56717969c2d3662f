import { type Counter, isConflict, isNotFound, type Lease, type Logger, messageOf } from "cloud-controller-host/sdk";

import {
  emptied,
  isUntaken,
  type LeaseRecord,
  leaseWith,
  newRecord,
  type Observation,
  observationOf,
  recordOf,
  sameRecord,
  tenureOf,
} from "./record.ts";
import { isAborted, isLostRace, type LeaseRequestOptions, LeaseRequests, type LockSignals } from "./requests.ts";

export interface LeaseLockOptions extends LeaseRequestOptions {
  readonly log: Logger;
  readonly identity: string;
  readonly leaseDurationMs: number;
  /** Counts renewals that needed a read first. */
  readonly slowPath: Counter<"name">;
}

/**
 * One candidate's view of one Lease: acquires, renews and releases it.
 * Source: client-go `leaderelection.tryAcquireOrRenew` and `release`.
 */
export class LeaseLock {
  readonly #options: LeaseLockOptions;
  readonly #requests: LeaseRequests;
  #observed: Observation | undefined;
  #renewedMs: number | undefined;
  /** The transitions of the last record that this candidate wrote. */
  #ownTransitions: number | undefined;
  #availableSinceMs = Number.POSITIVE_INFINITY;
  /** Since when reads have found no Lease. */
  #missingSinceMs: number | undefined;
  /** A write of ours got no answer; it may have been applied. */
  #uncertain = false;
  #lastFailure: unknown;
  /** Message of the last failure, while attempts fail. */
  #complaint = "";

  constructor(options: LeaseLockOptions) {
    this.#options = options;
    this.#requests = new LeaseRequests(options);
  }

  get observed(): Observation | undefined {
    return this.#observed;
  }

  /** True if the last observed record names this candidate, expired or not. */
  get held(): boolean {
    return this.#observed?.record.holderIdentity === this.#options.identity;
  }

  /** True if the lease is ours, or may be because a write got no answer. */
  get maybeHeld(): boolean {
    return this.held || this.#uncertain;
  }

  /** True if the last observed record names another holder and has not expired. */
  get heldByAnother(): boolean {
    const observed = this.#observed;
    return !this.held && observed !== undefined && observed.record.holderIdentity !== "" && this.#isValid(observed);
  }

  /**
   * When the Lease was last observed as free, expired or ours, right before the write that rests on this: if that write
   * succeeded, no other candidate has held the lease since. Infinity before.
   */
  get availableSinceMs(): number {
    return this.#availableSinceMs;
  }

  /** Milliseconds since the last renewal was sent; infinite when there has been none. */
  get renewalAgeMs(): number {
    return this.#renewedMs === undefined ? Number.POSITIVE_INFINITY : this.#monotonic() - this.#renewedMs;
  }

  /** Why the last failed attempt failed; undefined once an attempt has succeeded. */
  get lastFailure(): unknown {
    return this.#lastFailure;
  }

  /** Acquires the lease when it is free or has expired, renews it when it is ours. Never rejects. */
  async tryAcquireOrRenew(signals: LockSignals = {}): Promise<boolean> {
    const { log } = this.#options;
    try {
      const held = (await this.#renewFast(signals)) || (await this.#readThenWrite(signals));
      this.#complaint = "";
      this.#lastFailure = undefined;
      return held;
    } catch (error) {
      if (isAborted(signals)) {
        this.#lastFailure ??= error;
        return false;
      }
      this.#lastFailure = error;
      if (isLostRace(error)) log.debug(2, "Lease was written by another candidate first", { lock: this.#lock, error });
      else this.#complain(error);
      return false;
    }
  }

  /**
   * Acquires a Lease that was released, or, on a first start, missing at that time, without a read: the write succeeds
   * only if it has not been written since. False where it must be read. Never rejects.
   */
  async tryTake(seen: Lease | undefined, seenMs: number): Promise<boolean> {
    const { log, name } = this.#options;
    if (this.#uncertain || !(seen === undefined ? this.#observed === undefined : isUntaken(seen))) return false;
    this.#availableSinceMs = seenMs;
    try {
      const wanted = this.#wanted(seen === undefined ? {} : { leaseTransitions: recordOf(seen).leaseTransitions + 1 });
      await this.#write(seen === undefined ? "create" : "replace", leaseWith(wanted, name, seen));
      this.#complaint = "";
      this.#lastFailure = undefined;
      return true;
    } catch (error) {
      log.debug(2, "Failed to take the released lock, falling back to slow path", { lock: this.#lock, error });
      return false;
    }
  }

  /** A standby may fail the same way for hours, every other second: logged once. A leader's failures are all logged. */
  #complain(error: unknown): void {
    const { log } = this.#options;
    const complaint = messageOf(error);
    const message = "Failed to update lock";
    if (complaint === this.#complaint && !this.held) log.debug(4, message, { lock: this.#lock, error });
    else log.error(message, { lock: this.#lock, error });
    this.#complaint = complaint;
  }

  /**
   * Empties the lease, so that the next leader need not wait. Only when all work under it has stopped. The Lease is read
   * only where what was last written or observed is not its newest state.
   */
  async release(budgetMs: number): Promise<boolean> {
    const { clock, identity, log, name } = this.#options;
    const deadlineMs = this.#monotonic() + budgetMs;
    let known = this.held && !this.#uncertain ? this.#observed?.lease : undefined;
    while (this.#monotonic() < deadlineMs)
      try {
        const lease = known ?? (await this.#requests.get());
        known = undefined;
        const record = recordOf(lease);
        if (record.holderIdentity !== identity) return true;
        return await this.#write("replace", leaseWith(emptied(record, clock.now()), name, lease));
      } catch (error) {
        if (isConflict(error)) continue;
        if (isNotFound(error)) return true;
        log.error("Failed to release lock; it expires by itself", { lock: this.#lock, error });
        return false;
      }
    return false;
  }

  #wanted(tenure: Partial<LeaseRecord>): LeaseRecord {
    const { clock, identity, leaseDurationMs } = this.#options;
    return newRecord(identity, leaseDurationMs, clock.now(), tenure);
  }

  /** Renews without a read while the observed record is ours and valid. After a failure the lease must be read first. */
  async #renewFast(signals: LockSignals): Promise<boolean> {
    const { log, name } = this.#options;
    if (this.#observed === undefined || !this.held || !this.#isValid(this.#observed)) return false;
    const { record, lease } = this.#observed;
    try {
      return await this.#write("replace", leaseWith(this.#wanted(tenureOf(record)), name, lease), signals);
    } catch (error) {
      if (isAborted(signals)) throw error;
      this.#lastFailure = error;
      log.debug(2, "Failed to update lock optimistically, falling back to slow path", { lock: this.#lock, error });
      return false;
    }
  }

  async #readThenWrite(signals: LockSignals): Promise<boolean> {
    const { log, name, slowPath } = this.#options;
    const lease = await this.read(signals);
    if (lease === undefined && !this.#mayCreate()) {
      log.debug(2, "Lease was deleted while its holder may still lead", { lock: this.#lock });
      return false;
    }
    if (lease === undefined) {
      this.#availableSinceMs = this.#monotonic();
      return this.#create(signals);
    }
    const record = recordOf(lease);
    const mayBeTaken = signals.renewal === true ? this.#mayHaveBeenLed(record) : this.#mayBeLed();
    if (this.heldByAnother || mayBeTaken) {
      log.debug(4, "Lock is held and has not yet expired", { lock: this.#lock, holder: record.holderIdentity });
      return false;
    }
    this.#availableSinceMs = this.#monotonic();
    if (this.held) slowPath.inc({ name: name.name });
    const tenure = this.held ? tenureOf(record) : { leaseTransitions: record.leaseTransitions + 1 };
    return this.#write("replace", leaseWith(this.#wanted(tenure), name, lease), signals);
  }

  /** Reads and observes the Lease; undefined if there is none, which leaves the last observation as it is. */
  async read(signals: LockSignals): Promise<Lease | undefined> {
    const lease = await this.#requests.get(signals.reads).catch((error: unknown) => {
      if (isNotFound(error)) return undefined;
      throw error;
    });
    if (lease === undefined) {
      this.#missingSinceMs ??= this.#monotonic();
      return undefined;
    }
    if (this.#observed === undefined || !sameRecord(this.#observed.record, recordOf(lease))) this.#observe(lease);
    else this.#observed = { ...this.#observed, lease };
    this.#missingSinceMs = undefined;
    return lease;
  }

  /**
   * True if this candidate has never seen the Lease, holds it validly, or has missed it for a whole lease duration. The
   * holder of a Lease that was deleted may write until its next renewal. client-go creates every missing Lease at
   * once; here only a first start does so, because it cannot distinguish a deleted Lease from a new cluster.
   */
  #mayCreate(): boolean {
    if (this.#observed === undefined || (this.held && this.#isValid(this.#observed))) return true;
    const missingMs = this.#monotonic() - (this.#missingSinceMs ?? this.#monotonic());
    return missingMs > Math.max(this.#options.leaseDurationMs, this.#observed.record.leaseDurationSeconds * 1000);
  }

  /**
   * Creates the Lease; a leader keeps its tenure. A lost race is followed by a read, so that a candidate knows the
   * winner before that Lease can be deleted.
   */
  async #create(signals: LockSignals): Promise<boolean> {
    const tenure = this.held && this.#observed !== undefined ? tenureOf(this.#observed.record) : {};
    try {
      return await this.#write("create", leaseWith(this.#wanted(tenure), this.#options.name), signals);
    } catch (error) {
      if (isLostRace(error)) await this.read(signals);
      throw error;
    }
  }

  async #write(verb: "create" | "replace", lease: Lease, signals: LockSignals = {}): Promise<boolean> {
    signals.reads?.throwIfAborted();
    const sentMs = this.#monotonic();
    const wasUncertain = this.#uncertain;
    this.#uncertain = true;
    try {
      this.#observe(await this.#requests[verb](lease, signals.writes));
      this.#missingSinceMs = undefined;
      this.#renewedMs = this.held ? sentMs : undefined;
      this.#ownTransitions = this.#observed?.record.leaseTransitions;
      this.#uncertain = false;
      return true;
    } catch (error) {
      // The write that came first may be an earlier one of ours that got no answer.
      if (isLostRace(error)) this.#uncertain = wasUncertain;
      throw error;
    }
  }

  #observe(lease: Lease): void {
    const before = this.#observed;
    this.#observed = observationOf(lease, this.#monotonic(), before);
    const { record } = this.#observed;
    if (record.holderIdentity !== "" && record.holderIdentity !== before?.record.holderIdentity)
      this.#options.log.info("New leader elected", { lock: this.#lock, holder: record.holderIdentity });
  }

  /** True within a lease duration after the Lease was emptied: ours or its last holder's, since its own may be wrong. */
  #mayBeLed(): boolean {
    const { wasEmptied = false, atMs = 0, holderSeconds = 0 } = this.#observed ?? {};
    return wasEmptied && this.#monotonic() - atMs <= Math.max(this.#options.leaseDurationMs, holderSeconds * 1000);
  }

  /** True if another candidate may have led and released the Lease while this process was paused. */
  #mayHaveBeenLed({ leaseTransitions }: LeaseRecord): boolean {
    const isOld = this.renewalAgeMs > this.#options.leaseDurationMs;
    return !this.held && (isOld || leaseTransitions !== this.#ownTransitions);
  }

  #isValid({ record, atMs }: Observation): boolean {
    return atMs + record.leaseDurationSeconds * 1000 > this.#monotonic();
  }

  /** `namespace/name`, as client-go logs it. */
  get #lock(): string {
    const { namespace = "", name } = this.#options.name;
    return `${namespace}/${name}`;
  }

  #monotonic(): number {
    return this.#options.clock.monotonic();
  }
}
