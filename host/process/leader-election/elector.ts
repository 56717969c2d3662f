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

import { LeaseLock } from "./lock.ts";
import {
  jitterFactor,
  type LeaseRecord,
  leaseSubject,
  type LeaseTimings,
  recordOf,
  validateLeaseTimings,
} from "./record.ts";

export interface ElectorOptions extends LeaseTimings {
  /** The lease's own client: a crowd of other requests must not delay a renewal. */
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: EventRecorder;
  readonly metrics: Metrics;
  readonly identity: string;
  readonly namespace: string;
  readonly leaseName: string;
  /** Name of its health check. Default `leaderElection`. */
  readonly checkName?: string;
}

export interface Election {
  /** Aborts for a clean stop. */
  readonly signal: AbortSignal;
  /** The work under the lease. It resolves only when all of it has stopped; `lost` aborts on stop or loss. */
  readonly lead: (lost: AbortSignal) => Promise<void>;
}

/** How an election ended: given back after a clean stop, lost, or stopped before it was ever won. */
export type ElectionEnd = "released" | "lost" | "stopped";

/** client-go's grace on top of the lease's duration before a leader that does not renew counts as wedged. */
const watchdogGraceMs = 20_000;

/**
 * A candidate for one Lease. client-go's algorithm (`tools/leaderelection`), with three differences: it renews until
 * the work under the lease has stopped and then gives the lease back; it gives up at once when it sees another
 * holder; and a standby can be nudged.
 */
export class Elector {
  readonly checkName: string;
  readonly #options: ElectorOptions;
  readonly #lock: LeaseLock;
  readonly #status: Gauge<"name">;
  #leading = false;
  #running = false;
  #nudged = new AbortController();

  /** Throws `ProblemsError` for timings that cannot be safe, or without an identity. */
  constructor(options: ElectorOptions) {
    const problems = [
      ...validateLeaseTimings(options),
      ...(options.identity === "" ? ["the candidate needs an identity"] : []),
      ...(options.leaseName === "" ? ["--leader-elect-resource-name must not be empty"] : []),
    ];
    if (problems.length > 0) throw new ProblemsError("leader election", problems);
    this.#options = options;
    this.checkName = options.checkName ?? "leaderElection";
    const { metrics, client, clock, log, identity, leaseDurationMs, renewDeadlineMs } = options;
    this.#status = metrics.gauge({
      name: "leader_election_master_status",
      help: "Whether this process leads (1) or stands by (0), by the name of the lease.",
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
      slowPath: metrics.counter({
        name: "leader_election_slowpath_total",
        help: "Renewals that had to read the lease first, by its name.",
        labels: ["name"],
      }),
    });
    this.#setLeading(false);
  }

  /** The last record seen, whoever holds it; undefined before the first answer. */
  observed(): LeaseRecord | undefined {
    return this.#lock.observed?.record;
  }

  /**
   * Whether nobody else can hold the lease, by the local clock alone: we lead, and the last successful renewal was
   * sent less than a renew deadline ago. Others wait a whole lease duration.
   */
  safelyHeld(): boolean {
    return this.#leading && this.#lock.held && this.#lock.renewalAgeMs < this.#options.renewDeadlineMs;
  }

  /** The watchdog: throws when this process counts as leader and has not renewed for far too long. */
  check(): void {
    const { leaseName, clock, leaseDurationMs } = this.#options;
    const observed = this.#lock.observed;
    if (!this.#lock.held || observed === undefined) return;
    if (clock.monotonic() - observed.atMs > leaseDurationMs + watchdogGraceMs)
      throw new CodedError("LeaseNotRenewed", `leadership has not been renewed on the lease ${leaseName}`);
  }

  /** Makes a standby try now. With the lease that has been seen, only if that is free to take. */
  nudge(seen?: Lease): void {
    if (seen === undefined || recordOf(seen).holderIdentity === "") this.#nudged.abort();
  }

  /**
   * Waits for the lease and calls `lead` with a signal that aborts on stop or loss. After a stop it goes on renewing
   * until `lead` has resolved and then releases. Where `lead` rejects, so does this, and the lease is left to run
   * out: whether its work has stopped is not known then.
   */
  async run(election: Election): Promise<ElectionEnd> {
    if (this.#running) throw new CodedError("AlreadyRunning", "this candidate is already in an election");
    this.#running = true;
    try {
      const won = await this.#acquire(election.signal);
      if (won && !election.signal.aborted) return await this.#lead(election);
      if (this.#lock.maybeHeld) await this.#lock.release(this.#options.renewDeadlineMs);
      return "stopped";
    } finally {
      this.#running = false;
    }
  }

  async #acquire(signal: AbortSignal): Promise<boolean> {
    const { clock, retryPeriodMs, log, namespace, leaseName } = this.#options;
    log.info("waiting for the lease", { lease: `${namespace}/${leaseName}` });
    while (!signal.aborted) {
      this.#nudged = new AbortController();
      if (await this.#lock.tryAcquireOrRenew({ reads: signal })) return true;
      const pauseMs = retryPeriodMs * (1 + jitterFactor * Math.random());
      await clock.sleep(pauseMs, AbortSignal.any([signal, this.#nudged.signal]));
    }
    return false;
  }

  async #lead({ signal, lead }: Election): Promise<ElectionEnd> {
    const { events, identity, namespace, leaseName, log, renewDeadlineMs } = this.#options;
    const say = (what: string): void => {
      const subject = leaseSubject({ namespace, name: leaseName }, this.#lock.observed?.lease);
      events.event(subject, "Normal", "LeaderElection", `${identity} ${what}`);
    };
    log.info("took the lease", { lease: `${namespace}/${leaseName}`, identity });
    say("became leader");
    this.#setLeading(true);

    const lost = new AbortController();
    const settled = new AbortController();
    const leading = (async () => lead(AbortSignal.any([signal, lost.signal])))().finally(() => settled.abort());
    leading.catch(() => undefined);
    const kept = await this.#renewUntil(settled.signal);
    this.#setLeading(false);
    if (!kept) {
      lost.abort(new CodedError("LeaseLost", `the lease ${namespace}/${leaseName} is lost`));
      leading.catch((error: unknown) => log.error("work under the lost lease failed", { error: messageOf(error) }));
      log.error("the lease is lost", { lease: `${namespace}/${leaseName}`, holder: this.observed()?.holderIdentity });
      say("stopped leading");
      return "lost";
    }
    await leading;
    await this.#lock.release(renewDeadlineMs);
    say("stopped leading");
    return "released";
  }

  /** True when the work ended first, false when the lease could not be renewed in time. */
  async #renewUntil(settled: AbortSignal): Promise<boolean> {
    const { clock, retryPeriodMs } = this.#options;
    while (!settled.aborted) {
      await clock.sleep(retryPeriodMs, settled);
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
        if (await this.#lock.tryAcquireOrRenew({ reads: late.signal, writes: late.signal })) return true;
        if (this.#lock.heldByAnother) return false;
        await clock.sleep(retryPeriodMs, AbortSignal.any([late.signal, settled]));
      }
      return false;
    } finally {
      over.abort();
    }
  }

  #setLeading(leading: boolean): void {
    this.#leading = leading;
    this.#status.set(leading ? 1 : 0, { name: this.#options.leaseName });
  }
}
