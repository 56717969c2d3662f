import {
  type Clock,
  CodedError,
  type EventRecorder,
  type Gauge,
  type KubeClient,
  type Lease,
  type Logger,
  messageOf,
  type Metrics,
  ProblemsError,
} from "cloud-controller-host/sdk";

import { jitterFactor, leaseTimingProblems, type LeaseTimings } from "../../config/validate/election-timings.ts";
import { LeaseLock } from "./lock.ts";
import { isReleased, leaseSubject, type ObservedRecord, recordOf } from "./record.ts";

export interface ElectorOptions extends LeaseTimings {
  /** A client of the lease's own: other requests must not delay a renewal. */
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: EventRecorder;
  readonly metrics: Metrics;
  readonly identity: string;
  readonly namespace: string;
  readonly leaseName: string;
  /** Numbers from [0, 1) for the jitter between attempts. Default `Math.random`. */
  readonly random?: () => number;
  /** Name of its health check. Default `leaderElection`. */
  readonly checkName?: string;
  /** Annotations that each write of the Lease sets. */
  readonly annotations?: Readonly<Record<string, string>>;
  /**
   * Decides if this candidate may lead now: asked before it tries to acquire a Lease that is free, and again once it has
   * it. Never rejects; ends well within the renew deadline. Default: always.
   */
  readonly mayLead?: () => Promise<boolean>;
}

export interface Election {
  /** Aborts for a clean stop. */
  readonly signal: AbortSignal;
  /**
   * The work under the lease; `leaseSignal` aborts on stop or loss. It resolves when all of it has stopped, or to
   * `outstanding` when some of it never will: the lease is then left to expire.
   */
  readonly lead: (leaseSignal: AbortSignal) => Promise<"outstanding" | void>;
}

/** End of an election: released after a clean stop, kept until it expires, lost, or stopped before it was won. */
export type ElectionEnd = "released" | "kept" | "lost" | "stopped";

/** client-go's grace on top of the lease duration before a leader that does not renew is reported as unhealthy. */
const watchdogGraceMs = 20_000;

/**
 * A candidate for one Lease. client-go's algorithm (`tools/leaderelection`), with six differences: its first attempt may
 * rest on an earlier read; it renews until the work under the lease has stopped and then releases the lease; it stops
 * leading at once when it observes another holder, or that its lease has expired; it acquires a Lease that was deleted or
 * emptied by hand only when the last holder cannot lead any more; and `nudge` shortens a wait.
 */
export class Elector {
  readonly checkName: string;
  readonly #options: ElectorOptions;
  readonly #lock: LeaseLock;
  readonly #status: Gauge<"name">;
  #isLeader = false;
  #isAcquiring = false;
  #heldSince = Number.POSITIVE_INFINITY;
  #running = false;
  #nudged = new AbortController();
  /** Basis of the next attempt: the Lease as a watch has shown it to a standby, or as it was before the election. */
  #seen: { readonly lease: Lease | undefined; readonly seenMs: number } | undefined;

  /** Throws `ProblemsError` for timings that cannot be safe, or without an identity. */
  constructor(options: ElectorOptions) {
    const problems = [
      ...leaseTimingProblems(options),
      ...(options.identity === "" ? ["leader election needs an identity"] : []),
      ...(options.leaseName === "" ? ["--leader-elect-resource-name cannot be empty"] : []),
    ];
    if (problems.length > 0) throw new ProblemsError("leader election", problems);
    this.#options = options;
    this.checkName = options.checkName ?? "leaderElection";
    const { metrics, client, clock, log, identity, leaseDurationMs, renewDeadlineMs, annotations } = options;
    this.#status = metrics.gauge({
      name: "leader_election_master_status",
      help: "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease.",
      labels: ["name"],
    });
    this.#lock = new LeaseLock({
      client,
      clock,
      log,
      identity,
      leaseDurationMs,
      name: { namespace: options.namespace, name: options.leaseName },
      requestTimeMs: Math.max(1000, renewDeadlineMs / 2),
      ...(annotations && { annotations }),
      slowPath: metrics.counter({
        name: "leader_election_slowpath_total",
        help: "Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the lease.",
        labels: ["name"],
      }),
    });
    this.#setLeader(false);
  }

  /** The last observed record, of any holder; undefined before the first answer. */
  observed(): ObservedRecord | undefined {
    return this.#lock.observedRecord;
  }

  /**
   * True if no other candidate can hold the lease, by the local clock alone: this one leads, and its last successful
   * renewal was sent less than a renew deadline ago. Other candidates wait a whole lease duration.
   */
  safelyHeld(): boolean {
    return this.#isLeader && this.#lock.held && this.#lock.renewalAgeMs < this.#options.renewDeadlineMs;
  }

  /**
   * When the lease was observed to be free or expired before it was won, by the monotonic clock: the write that won it
   * was conditional on that observation, so no other process has led since. Infinity before it is won.
   */
  get heldSince(): number {
    return this.#heldSince;
  }

  /** The watchdog of `/healthz`: throws if this candidate is the recorded holder and has not renewed for too long. */
  check(): void {
    const { leaseName, clock, leaseDurationMs } = this.#options;
    const observed = this.#lock.observed;
    if (!this.#lock.held || observed === undefined) return;
    if (clock.monotonic() - observed.atMs > leaseDurationMs + watchdogGraceMs)
      throw new CodedError("LeaseNotRenewed", `failed election to renew leadership on lease ${leaseName}`);
  }

  /**
   * Ends the current wait: a standby tries to acquire now, a leader renews now. With the Lease that was observed, only
   * if that is released, or is no longer this leader's own. True if a standby was shown a Lease that is released.
   */
  nudge(seen?: Lease): boolean {
    const record = seen && recordOf(seen);
    const concerns = this.#isLeader
      ? record?.holderIdentity !== this.#options.identity
      : this.#isAcquiring && (record === undefined || isReleased(record));
    if (!concerns) return false;
    const isOffered = !this.#isLeader && seen !== undefined;
    if (isOffered) this.#seen = { lease: seen, seenMs: this.#options.clock.monotonic() };
    this.#nudged.abort();
    return isOffered;
  }

  /**
   * Reads the Lease for the first attempt, before `run`. If it is free and not written until that attempt, whatever is
   * listed in between is as new as the lease. Never rejects.
   */
  async look(signal: AbortSignal): Promise<void> {
    const { clock, log, mayLead } = this.#options;
    if (mayLead !== undefined) return;
    try {
      const lease = await this.#lock.read({ reads: signal });
      if (lease === undefined || isReleased(recordOf(lease)) || this.#lock.heldByAnother)
        this.#seen = { lease, seenMs: clock.monotonic() };
    } catch (error) {
      log.debug(2, "Failed to read lock before the election", { error });
    }
  }

  /**
   * Waits for the lease and calls `lead` with a signal that aborts on stop or loss. After a stop it continues to renew
   * until `lead` has resolved and then releases. If `lead` rejects, so does this, and the lease is left to expire:
   * it is not known then if the work has stopped.
   */
  async run(election: Election): Promise<ElectionEnd> {
    if (this.#running) throw new CodedError("Internal", "this candidate is already running an election");
    this.#running = true;
    try {
      this.#isAcquiring = true;
      const won = await this.#acquire(election.signal).finally(() => (this.#isAcquiring = false));
      if (won && !election.signal.aborted) return await this.#lead(election);
      if (this.#lock.maybeHeld) await this.#lock.release(this.#options.renewDeadlineMs);
      return "stopped";
    } finally {
      this.#running = false;
    }
  }

  async #acquire(signal: AbortSignal): Promise<boolean> {
    const { clock, retryPeriodMs, log, namespace, leaseName, random = Math.random } = this.#options;
    log.info("Attempting to acquire leader lease...", { lock: `${namespace}/${leaseName}` });
    while (!signal.aborted) {
      const wake = this.#nudgedOr(signal);
      if ((await this.#tryAcquire(signal)) && (await this.#isAdmitted())) return true;
      const pauseMs = retryPeriodMs * (1 + jitterFactor * random());
      await clock.sleep(pauseMs, wake);
    }
    return false;
  }

  async #tryAcquire(signal: AbortSignal): Promise<boolean> {
    const seen = this.#seen;
    this.#seen = undefined;
    if (seen !== undefined && (await this.#lock.tryTake(seen.lease, seen.seenMs))) return true;
    if (seen?.lease?.spec?.holderIdentity && this.#lock.heldByAnother) return false;
    const { mayLead } = this.#options;
    if (mayLead !== undefined && !this.#lock.heldByAnother && !(await mayLead())) return false;
    return this.#lock.tryAcquireOrRenew({ reads: signal });
  }

  /** The Lease is released again where this candidate may not lead. */
  async #isAdmitted(): Promise<boolean> {
    const { mayLead, renewDeadlineMs } = this.#options;
    if (mayLead === undefined || (await mayLead())) return true;
    await this.#lock.release(renewDeadlineMs);
    return false;
  }

  async #lead({ signal, lead }: Election): Promise<ElectionEnd> {
    const { events, identity, namespace, leaseName, log, renewDeadlineMs } = this.#options;
    const record = (what: string): void => {
      const subject = leaseSubject({ namespace, name: leaseName }, this.#lock.observed?.lease);
      events.event(subject, "Normal", "LeaderElection", `${identity} ${what}`);
    };
    log.info("Successfully acquired lease", { lock: `${namespace}/${leaseName}`, identity });
    this.#heldSince = this.#lock.availableSinceMs;
    this.#setLeader(true);

    const lost = new AbortController();
    const settled = new AbortController();
    const work = (async () => lead(AbortSignal.any([signal, lost.signal])))().finally(() => settled.abort());
    work.catch(() => undefined);
    // After the work has begun: the controllers of a take-over do not wait for an event.
    record("became leader");
    const isHeld = await this.#renewUntil(settled.signal);
    this.#setLeader(false);
    if (!isHeld) {
      lost.abort(new CodedError("LeaseLost", `the lease ${namespace}/${leaseName} was lost`));
      work.catch((error: unknown) => log.error("Work failed after the lease was lost", { error: messageOf(error) }));
      log.error("Failed to renew lease", { lock: `${namespace}/${leaseName}`, ...this.#lossReason() });
      record("stopped leading");
      return "lost";
    }
    if ((await work) === "outstanding") return "kept";
    const released = await this.#lock.release(renewDeadlineMs);
    record("stopped leading");
    return released ? "released" : "kept";
  }

  /** True when the work ended first, false when the lease could not be renewed in time. */
  async #renewUntil(settled: AbortSignal): Promise<boolean> {
    const { clock, retryPeriodMs } = this.#options;
    while (!settled.aborted) {
      await clock.sleep(retryPeriodMs, this.#nudgedOr(settled));
      if (settled.aborted) return true;
      if (!(await this.#renewRound(settled))) return settled.aborted;
    }
    return true;
  }

  /** Tries now and every retry period, until one succeeds, the renew deadline has passed, or another holds the lease. */
  async #renewRound(settled: AbortSignal): Promise<boolean> {
    const { clock, retryPeriodMs, renewDeadlineMs } = this.#options;
    const over = new AbortController();
    const late = new AbortController();
    void clock.sleep(renewDeadlineMs, over.signal).then(() => late.abort());
    try {
      while (!late.signal.aborted && !settled.aborted) {
        if (await this.#lock.tryAcquireOrRenew({ renewal: true, reads: late.signal, writes: late.signal })) return true;
        if (this.#lock.heldByAnother || this.#lock.hasExpired) return false;
        await clock.sleep(retryPeriodMs, AbortSignal.any([late.signal, settled]));
      }
      return false;
    } finally {
      over.abort();
    }
  }

  /** Why the lease was lost: another holder, or the last request that failed. */
  #lossReason(): { readonly holder?: string; readonly error?: unknown } {
    const holder = this.observed()?.holderIdentity ?? "";
    if (holder !== this.#options.identity && holder !== "") return { holder };
    return {
      error: this.#lock.lastFailure ?? new CodedError("RenewDeadlineExceeded", "the renew deadline has passed"),
    };
  }

  /** Aborts with the signal or with the next nudge from now on. */
  #nudgedOr(signal: AbortSignal): AbortSignal {
    this.#nudged = new AbortController();
    return AbortSignal.any([signal, this.#nudged.signal]);
  }

  #setLeader(isLeader: boolean): void {
    this.#isLeader = isLeader;
    this.#status.set(isLeader ? 1 : 0, { name: this.#options.leaseName });
  }
}
