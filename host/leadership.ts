import { randomUUID } from "node:crypto";
import { hostname } from "node:os";

import { apiVersionOf, type EventSubject, kinds } from "cloud-controller-host/sdk";

import type { Options } from "./config/options.ts";
import { createClient } from "./kube/client.ts";
import { component, type ProcessParts } from "./process-parts.ts";
import { Elector } from "./process/lease.ts";

/** How leading ended: asked to stop and the lease given back; asked before ever leading; or the lease was lost. */
export type LeadershipOutcome = "released" | "stopped" | "lost";

/** Who may run controllers: the holder of the Lease or, without leader election, this process from the start. */
export interface Leadership {
  readonly status: { readonly identity: string; readonly leading: boolean; readonly leader: string };
  /** What events about this process are attached to. */
  readonly lease: EventSubject;
  safelyHeld(): boolean;
  /** Calls `lead` once leadership is won; `leading` aborts when it is to stop, and `lead` returns when all has. */
  run(signal: AbortSignal, lead: (leading: AbortSignal) => Promise<void>): Promise<LeadershipOutcome>;
}

export function createLeadership(options: Options, parts: ProcessParts): Leadership {
  const identity = `${hostname()}_${randomUUID()}`;
  return options.leaderElect ? elected(options, parts, identity) : alone(options, identity);
}

const leaseOf = (options: Options): EventSubject => ({
  apiVersion: apiVersionOf(kinds.Lease),
  kind: kinds.Lease.kind,
  metadata: { name: options.leaderElectResourceName, namespace: options.leaderElectResourceNamespace },
});

function alone(options: Options, identity: string): Leadership {
  return {
    status: { identity, leading: true, leader: identity },
    lease: leaseOf(options),
    safelyHeld: () => true,
    async run(signal, lead) {
      await lead(signal);
      return "stopped";
    },
  };
}

function elected(options: Options, parts: ProcessParts, identity: string): Leadership {
  const { clock, log, metrics, clients, events, health } = parts;
  // The lease's own connections and rate limit: whatever controllers ask for, renewals are not behind it.
  const timeoutMs = Math.max(1000, options.leaderElectRenewDeadline / 2);
  const elector = new Elector({
    client: createClient(clients.transport("leader-election", timeoutMs)),
    clock,
    log,
    events: events.recorder(component),
    metrics: metrics.root,
    identity,
    namespace: options.leaderElectResourceNamespace,
    leaseName: options.leaderElectResourceName,
    leaseDurationMs: options.leaderElectLeaseDuration,
    renewDeadlineMs: options.leaderElectRenewDeadline,
    retryPeriodMs: options.leaderElectRetryPeriod,
  });
  health.addProcess({ name: "leaderElection", check: () => elector.check() });
  return {
    get status() {
      const leader = elector.observed()?.holderIdentity ?? "";
      return { identity, leader, leading: leader === identity && elector.safelyHeld() };
    },
    lease: leaseOf(options),
    safelyHeld: () => elector.safelyHeld(),
    async run(signal, lead) {
      // A standby watches the Lease, so that a clean hand-over takes milliseconds and not a retry period.
      using watch = watchLease(options, parts, elector);
      return await elector.run({
        signal,
        lead(leading) {
          watch[Symbol.dispose]();
          return lead(leading);
        },
      });
    },
  };
}

function watchLease(options: Options, { informers }: ProcessParts, elector: Elector): Disposable {
  const share = informers.share();
  const lease = share.of(kinds.Lease, {
    namespace: options.leaderElectResourceNamespace,
    fieldSelector: `metadata.name=${options.leaderElectResourceName}`,
  });
  lease.handle({ updated: (_, seen) => elector.nudge(seen), deleted: () => elector.nudge() });
  return { [Symbol.dispose]: () => share.release() };
}
