import { randomUUID } from "node:crypto";
import { hostname } from "node:os";

import { apiVersionOf, type EventSubject, kinds, type KubeClient } from "cloud-controller-host/sdk";

import type { Locks } from "./generation/scope.ts";
import { createClient } from "./kube/connection/client.ts";
import { component, type HostInput, type ProcessParts } from "./process-parts.ts";
import { type ElectionEnd, Elector } from "./process/leader-election/elector.ts";
import { lockClashes } from "./process/leader-election/migration-files.ts";
import { concerns, ownershipOf } from "./process/leader-election/migration.ts";

/** How leading ended: asked to stop and the locks given back; asked before ever leading; or a lock was lost. */
export type LeadershipOutcome = ElectionEnd;

/** One lock as `/statusz` shows it. */
export interface LockStatus {
  /** The name of its Lease. */
  readonly lease: string;
  readonly leading: boolean;
  /** Whoever holds it, as far as this process has seen; empty for nobody. */
  readonly leader: string;
}

export interface LeadershipStatus {
  readonly identity: string;
  /** Whether the main lock is held, and by whom. */
  readonly leading: boolean;
  readonly leader: string;
  /** The main lock first; none without leader election. */
  readonly locks: readonly LockStatus[];
}

/** The work that leadership allows. */
export interface Led {
  /** Begins when the main lock is won; `leading` aborts on stop or loss, and it returns when all work has stopped. */
  readonly lead: (leading: AbortSignal) => Promise<void>;
  /** Called when a further lock is won, while `lead` goes on. */
  readonly take: (lock: string) => Promise<void>;
}

/** Who may run controllers: the holder of the locks or, without leader election, this process from the start. */
export interface Leadership {
  readonly status: LeadershipStatus;
  readonly locks: Locks;
  /** What events about this process are attached to. */
  readonly lease: EventSubject;
  run(signal: AbortSignal, led: Led): Promise<LeadershipOutcome>;
}

export function createLeadership(input: HostInput, parts: ProcessParts): Leadership {
  const identity = `${hostname()}_${randomUUID()}`;
  return input.options.leaderElect ? elected(input, parts, identity) : alone(input, identity);
}

const leaseOf = ({ options }: HostInput): EventSubject => ({
  apiVersion: apiVersionOf(kinds.Lease),
  kind: kinds.Lease.kind,
  metadata: { name: options.leaderElectResourceName, namespace: options.leaderElectResourceNamespace },
});

function alone(input: HostInput, identity: string): Leadership {
  const main = input.options.leaderElectResourceName;
  return {
    status: { identity, leading: true, leader: identity, locks: [] },
    locks: { main, of: () => ({ lock: main }), problems: () => [], safelyHeld: () => true },
    lease: leaseOf(input),
    async run(signal, { lead }) {
      await lead(signal);
      return "stopped";
    },
  };
}

function elected(input: HostInput, parts: ProcessParts, identity: string): Leadership {
  const { options, migrations } = input;
  // The locks' own connections and rate limit: whatever controllers ask for, renewals are not behind it.
  const timeoutMs = Math.max(1000, options.leaderElectRenewDeadline / 2);
  const client = createClient(parts.clients.transport("leader-election", { timeoutMs, dedicated: true }));
  const candidate = (lease: string, checkName: string): Candidate =>
    new Candidate(input, parts, { client, identity, lease, checkName });
  const main = candidate(options.leaderElectResourceName, "leaderElection");
  // A lock under which nothing would run here is left to those that need it.
  const further = migrations
    .filter((migration) => concerns(migration, component))
    .map(({ leaderName }) => candidate(leaderName, `leaderElection-${leaderName}`));
  const candidates = new Map([main, ...further].map((each) => [each.lease, each]));
  return {
    get status() {
      const { leading, leader } = main.status;
      return { identity, leading, leader, locks: [...candidates.values()].map(({ status }) => status) };
    },
    locks: {
      main: main.lease,
      of(controller) {
        const ownership = ownershipOf(controller, component, migrations);
        if (ownership.result === "Unowned") return { runBy: ownership.component };
        return { lock: ownership.result === "Migrated" ? ownership.leaderName : main.lease };
      },
      problems: (controllers) => lockClashes(migrations, controllers, main.lease),
      safelyHeld: (lock) => candidates.get(lock)?.safelyHeld() ?? false,
    },
    lease: leaseOf(input),
    run: (signal, led) => contest(main, further, signal, led),
  };
}

/**
 * Wins the main lock and, while that is held, the further ones. Whichever is lost, all work stops. On a clean stop too
 * every controller returns first, then the further locks are given back, and the main one last.
 */
async function contest(
  main: Candidate,
  further: readonly Candidate[],
  signal: AbortSignal,
  { lead, take }: Led,
): Promise<LeadershipOutcome> {
  const loss = new AbortController();
  const contestOne = async (candidate: Candidate, leading: AbortSignal, work: Promise<void>): Promise<void> => {
    const end = await candidate.run(leading, async () => {
      await take(candidate.lease);
      await work;
    });
    if (end === "lost") loss.abort();
  };
  let all: Promise<unknown> = Promise.resolve();
  const end = await main.run(AbortSignal.any([signal, loss.signal]), async (leading) => {
    const work = lead(leading);
    all = Promise.all([work, ...further.map((candidate) => contestOne(candidate, leading, work))]);
    await all;
  });
  // A main lock that is lost is not waited for by its elector; the rest still ends in its order.
  await all;
  return loss.signal.aborted ? "lost" : end;
}

interface CandidateOptions {
  readonly client: KubeClient;
  readonly identity: string;
  readonly lease: string;
  readonly checkName: string;
}

/** This process's place in the election for one lock, with a health check of its own. */
class Candidate {
  readonly lease: string;
  readonly #identity: string;
  readonly #elector: Elector;
  readonly #watch: () => Disposable;

  constructor({ options }: HostInput, parts: ProcessParts, { client, identity, lease, checkName }: CandidateOptions) {
    const { clock, log, metrics, events, health } = parts;
    const namespace = options.leaderElectResourceNamespace;
    this.lease = lease;
    this.#identity = identity;
    this.#elector = new Elector({
      client,
      clock,
      log,
      events: events.recorder(component),
      metrics: metrics.root,
      identity,
      namespace,
      leaseName: lease,
      checkName,
      leaseDurationMs: options.leaderElectLeaseDuration,
      renewDeadlineMs: options.leaderElectRenewDeadline,
      retryPeriodMs: options.leaderElectRetryPeriod,
    });
    health.addProcess({ name: checkName, check: () => this.#elector.check() });
    this.#watch = () => watchLease({ namespace, name: lease }, parts, this.#elector);
  }

  get status(): LockStatus {
    const leader = this.#elector.observed()?.holderIdentity ?? "";
    return { lease: this.lease, leader, leading: leader === this.#identity && this.safelyHeld() };
  }

  safelyHeld(): boolean {
    return this.#elector.safelyHeld();
  }

  /** A standby watches the Lease, so that a clean hand-over takes milliseconds and not a retry period. */
  async run(signal: AbortSignal, lead: (leading: AbortSignal) => Promise<void>): Promise<ElectionEnd> {
    using watch = this.#watch();
    return await this.#elector.run({
      signal,
      lead(leading) {
        watch[Symbol.dispose]();
        return lead(leading);
      },
    });
  }
}

function watchLease(
  { namespace, name }: { readonly namespace: string; readonly name: string },
  { informers }: ProcessParts,
  elector: Elector,
): Disposable {
  const share = informers.share();
  const lease = share.of(kinds.Lease, { namespace, fieldSelector: `metadata.name=${name}` });
  lease.handle({ updated: (_, seen) => elector.nudge(seen), deleted: () => elector.nudge() });
  return { [Symbol.dispose]: () => share.release() };
}
