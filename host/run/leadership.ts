import { randomUUID } from "node:crypto";
import { hostname } from "node:os";

import { apiVersionOf, CodedError, type EventSubject, kinds } from "cloud-controller-host/sdk";

import type { LeaderMigration } from "../config/parse/migration-config.ts";
import { shardName } from "../config/validate/shard.ts";
import type { Locks } from "../generation/scope/scope.ts";
import type { WorkEnd } from "../generation/slot/slot.ts";
import { createClient } from "../kube/connection/client.ts";
import type { ElectionEnd } from "../process/leader-election/elector.ts";
import { lockClashes } from "../process/leader-election/migration-files.ts";
import { concerns, ownershipOf } from "../process/leader-election/migration.ts";
import type { Shards } from "../process/leader-election/shards.ts";
import { type CandidateParts, type ElectionWork, LockCandidate } from "./lock-candidate.ts";
import { component, type HostInput, type ProcessParts } from "./process-parts.ts";
import { announcement, shardsOf, watchShards } from "./shards.ts";
import type { LeadershipStatus } from "./status.ts";

/**
 * The end of leading: the locks were released, or kept because plugin work has not returned; a lock was lost; or it was
 * stopped before it was won.
 */
export interface LeadershipEnd {
  readonly outcome: ElectionEnd;
  /** Outcome of the work under the locks; undefined if it never began. */
  readonly work: WorkEnd | undefined;
}

/** upstream: client-go `leaderelection.LeaderCallbacks`. */
export interface LeaderCallbacks {
  /** Called when the main lock is won. `leaseSignal` aborts on stop or loss; resolves when the work has ended. */
  readonly onStartedLeading: (leaseSignal: AbortSignal) => Promise<WorkEnd>;
  /** Called when a watch has shown that the main lock was released, as this process tries to acquire it. */
  readonly onReleased?: () => void;
  /** Called when a further lock is won, while the work continues. */
  readonly onLockWon: (lock: string) => void;
  /** Called at once when any lock is lost. */
  readonly onStoppedLeading: () => void;
}

/** Decides if controllers may run here: as holder of the locks or, without leader election, from the start. */
export interface Leadership {
  readonly status: LeadershipStatus;
  readonly locks: Locks;
  readonly lease: EventSubject;
  /** Present if this process shares the cluster's Services with others. */
  readonly shards?: Shards | undefined;
  /** Reads the main lock before `run`: lists that are sent once it was free need not be sent again. Never rejects. */
  look(signal: AbortSignal): Promise<void>;
  run(signal: AbortSignal, callbacks: LeaderCallbacks): Promise<LeadershipEnd>;
}

export interface ElectionParts extends CandidateParts {
  readonly clients: Pick<ProcessParts["clients"], "transport">;
}

type ElectionInput = Pick<HostInput, "options" | "migrations">;

export function createLeadership(input: ElectionInput, parts: ElectionParts): Leadership {
  const identity = `${shardName(input.options, hostname())}_${randomUUID()}`;
  return input.options.leaderElect ? elected(input, parts, identity) : alone(input, identity);
}

const leaseOf = ({ options }: ElectionInput): EventSubject => ({
  apiVersion: apiVersionOf(kinds.Lease),
  kind: kinds.Lease.kind,
  metadata: { name: options.leaderElectResourceName, namespace: options.leaderElectResourceNamespace },
});

function alone(input: ElectionInput, identity: string): Leadership {
  const main = input.options.leaderElectResourceName;
  return {
    status: { identity, leading: true, leader: identity, locks: [] },
    locks: {
      main,
      of: () => ({ lock: main }),
      problems: () => [],
      safelyHeld: () => true,
      heldSince: () => Number.NEGATIVE_INFINITY,
    },
    lease: leaseOf(input),
    look: async () => undefined,
    run: async (signal, { onStartedLeading }) => ({ outcome: "stopped", work: await onStartedLeading(signal) }),
  };
}

/**
 * The locks of a process that writes nothing: which controllers would run here, and under which lock. None is taken.
 * A plan may be made while another process leads, so each counts as held.
 */
export function untakenLocks(input: ElectionInput): Pick<Leadership, "lease" | "locks"> & {
  readonly names: readonly string[];
} {
  const { options, migrations } = input;
  const main = options.leaderElectResourceName;
  const held = { safelyHeld: () => true, heldSince: () => Number.NEGATIVE_INFINITY };
  const further = furtherLocks(input).map(({ leaderName }) => leaderName);
  const locks = options.leaderElect ? { ...ownedLocks(main, migrations), ...held } : alone(input, "").locks;
  return { lease: leaseOf(input), locks, names: options.leaderElect ? [main, ...further] : [main] };
}

/** Migrations whose lock this process needs. Under the others no controller would run here. */
const furtherLocks = ({ migrations }: ElectionInput): readonly LeaderMigration[] =>
  migrations.filter((migration) => concerns(migration, component));

const ownedLocks = (main: string, migrations: readonly LeaderMigration[]): Pick<Locks, "main" | "of" | "problems"> => ({
  main,
  of(controller) {
    const ownership = ownershipOf(controller, component, migrations);
    if (ownership.result === "Unowned") return { runBy: ownership.component };
    return { lock: ownership.result === "Migrated" ? ownership.leaderName : main };
  },
  problems: (controllers) => lockClashes(migrations, controllers, main),
});

function elected(input: ElectionInput, parts: ElectionParts, identity: string): Leadership {
  const { options, migrations } = input;
  // Connections of their own and no rate limit: renewals never wait, whatever --kube-api-qps is.
  const timeoutMs = Math.max(1000, options.leaderElectRenewDeadline / 2);
  const client = createClient(parts.clients.transport("leader-election", { timeoutMs, dedicated: true, qps: -1 }));
  const shards = shardsOf(input, parts, client);
  const common = { client, identity };
  const main = new LockCandidate(options, parts, {
    ...common,
    lease: options.leaderElectResourceName,
    checkName: "leaderElection",
    annotations: announcement(input, identity),
    ...(shards && { mayLead: () => shards.mayLead() }),
  });
  const further = furtherLocks(input).map(
    ({ leaderName: lease }) =>
      new LockCandidate(options, parts, { ...common, lease, checkName: `leaderElection-${lease}` }),
  );
  const candidates = new Map([main, ...further].map((each) => [each.lease, each]));
  return {
    get status() {
      const { leading, leader } = main.status;
      return { identity, leading, leader, locks: [...candidates.values()].map(({ status }) => status) };
    },
    locks: {
      ...ownedLocks(main.lease, migrations),
      safelyHeld: (lock) => candidates.get(lock)?.safelyHeld() ?? false,
      heldSince: (lock) => candidates.get(lock)?.heldSince ?? Number.POSITIVE_INFINITY,
    },
    lease: leaseOf(input),
    shards,
    look: (signal) => main.look(signal),
    async run(signal, callbacks) {
      const ended = new AbortController();
      const watching = shards && watchShards(shards, parts, AbortSignal.any([signal, ended.signal]));
      try {
        return await contest(main, further, signal, callbacks);
      } finally {
        ended.abort();
        await watching;
      }
    },
  };
}

/**
 * Wins the main lock and, while that is held, the further ones. Whichever is lost, all work stops. On a clean stop every
 * controller returns first, then the further locks are released, and the main one last. While plugin work is
 * outstanding no lock is released.
 */
async function contest(
  main: LockCandidate,
  further: readonly LockCandidate[],
  signal: AbortSignal,
  { onStartedLeading, onReleased, onLockWon, onStoppedLeading }: LeaderCallbacks,
): Promise<LeadershipEnd> {
  const loss = new AbortController();
  main.onReleased = onReleased;
  const contestOne = async (
    candidate: LockCandidate,
    leaseSignal: AbortSignal,
    lead: ElectionWork,
  ): Promise<ElectionEnd> => {
    const outcome = await candidate.run(leaseSignal, lead);
    if (outcome !== "lost") return outcome;
    loss.abort(new CodedError("LeaseLost", `the lease ${candidate.lease} is lost`));
    onStoppedLeading();
    return outcome;
  };
  let work: Promise<WorkEnd> | undefined;
  let all: Promise<unknown> = Promise.resolve();
  const endOf = async (working: Promise<WorkEnd>): ReturnType<ElectionWork> =>
    (await working).outstanding.length > 0 ? "outstanding" : undefined;
  const outcome = await contestOne(main, AbortSignal.any([signal, loss.signal]), async (leaseSignal) => {
    const working = onStartedLeading(leaseSignal);
    work = working;
    const others = further.map((candidate) =>
      contestOne(candidate, leaseSignal, () => {
        onLockWon(candidate.lease);
        return endOf(working);
      }),
    );
    all = Promise.all([working, ...others]);
    await all;
    return endOf(working);
  });
  // The elector does not wait for work under a main lock that is lost.
  await all;
  return { outcome: loss.signal.aborted ? "lost" : outcome, work: await work };
}
