import { kinds, type KubeClient, type Lease, type Logger } from "cloud-controller-host/sdk";

import { shardName } from "../config/validate/shard.ts";
import { type Election, type ElectionEnd, Elector, type ElectorOptions } from "../process/leader-election/elector.ts";
import { component, type HostInput, type ProcessParts } from "./process-parts.ts";
import type { LockStatus } from "./status.ts";

export type ElectionWork = Election["lead"];

/** Parts of the process that a candidate uses. */
export interface CandidateParts extends Pick<ProcessParts, "clock"> {
  readonly log: Logger;
  readonly metrics: Pick<ProcessParts["metrics"], "root">;
  readonly health: Pick<ProcessParts["health"], "addProcess">;
  readonly events: Pick<ProcessParts["events"], "recorder">;
  readonly informers: Pick<ProcessParts["informers"], "share">;
}

interface CandidateOptions extends Pick<ElectorOptions, "annotations" | "mayLead"> {
  readonly client: KubeClient;
  readonly identity: string;
  readonly lease: string;
  readonly checkName: string;
}

/** A candidate for one lock, with a health check of its own. */
export class LockCandidate {
  readonly lease: string;
  readonly #identity: string;
  readonly #elector: Elector;
  readonly #watch: () => Disposable;
  onReleased: (() => void) | undefined;
  #looking: Promise<void> | undefined;

  constructor(
    options: HostInput["options"],
    parts: CandidateParts,
    { client, identity, lease, checkName, ...rules }: CandidateOptions,
  ) {
    const { clock, log, metrics, events, health } = parts;
    const namespace = options.leaderElectResourceNamespace;
    this.lease = lease;
    this.#identity = identity;
    this.#elector = new Elector({
      ...rules,
      client,
      clock,
      log,
      events: events.recorder(shardName(options, component)),
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
    this.#watch = () => watchLease({ namespace, name: lease }, parts, this.#elector, () => this.onReleased?.());
  }

  get status(): LockStatus {
    const observed = this.#elector.observed();
    const leader = observed?.holderIdentity ?? "";
    return {
      lease: this.lease,
      leader,
      leading: leader === this.#identity && this.safelyHeld(),
      ...(observed?.isExpired === true && { expired: true }),
      ...(observed === undefined && { unread: true }),
    };
  }

  safelyHeld(): boolean {
    return this.#elector.safelyHeld();
  }

  get heldSince(): number {
    return this.#elector.heldSince;
  }

  look(signal: AbortSignal): Promise<void> {
    this.#looking = this.#elector.look(signal);
    return this.#looking;
  }

  /** The Lease is watched: a standby takes over from a clean stop within milliseconds, not within a retry period. */
  async run(signal: AbortSignal, lead: ElectionWork): Promise<ElectionEnd> {
    await this.#looking;
    using _ = this.#watch();
    return await this.#elector.run({ signal, lead });
  }
}

/** Deletion concerns only the leader, which creates the Lease again; a standby waits for the last record to expire. */
function watchLease(
  { namespace, name }: { readonly namespace: string; readonly name: string },
  { informers }: { readonly informers: Pick<ProcessParts["informers"], "share"> },
  elector: Elector,
  released: () => void,
): Disposable {
  const show = (seen: Lease): void => {
    // The write that takes the lease is sent first.
    if (elector.nudge(seen)) setImmediate(released);
  };
  const share = informers.share();
  const lease = share.of(kinds.Lease, { namespace, fieldSelector: `metadata.name=${name}` });
  lease.handle({
    // The first list may show that it has been released meanwhile.
    added: show,
    updated: (_, seen) => show(seen),
    deleted: () => {
      if (elector.safelyHeld()) elector.nudge();
    },
  });
  return { [Symbol.dispose]: () => share.release() };
}
