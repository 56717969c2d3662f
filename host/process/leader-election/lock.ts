import { type Counter, isConflict, isNotFound, type Lease, type Logger } from "cloud-controller-host/sdk";

import { LeaseFailures } from "./failures.ts";
import {
  emptied,
  expiredError,
  isUntaken,
  isValidAt,
  type LeaseRecord,
  leaseWith,
  mayBeLedAt,
  newRecord,
  type Observation,
  observationOf,
  type ObservedRecord,
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
  readonly #failures: LeaseFailures;

  constructor(options: LeaseLockOptions) {
    this.#options = options;
    this.#requests = new LeaseRequests(options);
    this.#failures = new LeaseFailures(options.log, this.#lock);
  }

  get observed(): Observation | undefined {
    return this.#observed;
  }

  get observedRecord(): ObservedRecord | undefined {
    const observed = this.#observed;
    if (observed === undefined) return undefined;
    const isExpired = observed.record.holderIdentity !== "" && !isValidAt(observed, this.#monotonic());
    return { ...observed.record, isExpired };
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
    return (
      !this.held &&
      observed !== undefined &&
      observed.record.holderIdentity !== "" &&
      isValidAt(observed, this.#monotonic())
    );
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

  /**
   * True if the last renewal was sent longer ago than the lease lasts: another candidate, or another deployment that
   * counts on this one to have stopped, may have written since, and what this process has read may not show it yet.
   */
  get hasExpired(): boolean {
    return this.renewalAgeMs > this.#options.leaseDurationMs;
  }

  /** Why the last failed attempt failed; undefined once an attempt has succeeded. */
  get lastFailure(): unknown {
    return this.#failures.last;
  }

  /** Acquires the lease when it is free or has expired, renews it when it is ours. Never rejects. */
  async tryAcquireOrRenew(signals: LockSignals = {}): Promise<boolean> {
    try {
      const held = (await this.#renewFast(signals)) || (await this.#readThenWrite(signals));
      this.#failures.clear();
      return held;
    } catch (error) {
      this.#failures.attempt({ error, isAborted: isAborted(signals), isHeld: this.held });
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
      this.#failures.clear();
      return true;
    } catch (error) {
      log.debug(2, "Failed to take the released lock, falling back to slow path", { lock: this.#lock, error });
      return false;
    }
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
    if (this.#observed === undefined || !this.held || !isValidAt(this.#observed, this.#monotonic())) return false;
    const { record, lease } = this.#observed;
    const renewed = leaseWith(this.#wanted(tenureOf(record)), this.#options.name, lease);
    try {
      return await this.#write("replace", renewed, signals);
    } catch (error) {
      if (isAborted(signals)) throw error;
      this.#failures.step("Failed to update lock optimistically, falling back to slow path", error);
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
    const mayBeLed =
      signals.renewal === true
        ? this.#mayHaveBeenLed(record)
        : mayBeLedAt(this.#observed, this.#options.leaseDurationMs, this.#monotonic());
    if (this.heldByAnother || mayBeLed) {
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
    const nowMs = this.#monotonic();
    if (this.#observed === undefined || (this.held && isValidAt(this.#observed, nowMs))) return true;
    const missingMs = nowMs - (this.#missingSinceMs ?? nowMs);
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
    if (signals.renewal === true && this.hasExpired)
      throw expiredError(this.renewalAgeMs, this.#options.leaseDurationMs);
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

  /** True if another candidate has led and released the Lease since this one wrote it. */
  #mayHaveBeenLed({ leaseTransitions }: LeaseRecord): boolean {
    return !this.held && leaseTransitions !== this.#ownTransitions;
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
