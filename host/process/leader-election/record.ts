import { apiVersionOf, type EventSubject, kinds, type Lease, type ObjectName } from "cloud-controller-host/sdk";

/** upstream: `resourcelock.LeaderElectionRecord`, with times as they are on the wire. */
export interface LeaseRecord {
  /** Empty: nobody holds the lease. */
  readonly holderIdentity: string;
  readonly leaseDurationSeconds: number;
  readonly acquireTime: string;
  readonly renewTime: string;
  readonly leaseTransitions: number;
}

export interface LeaseTimings {
  /** How long others wait, counted from the last change that they saw, before they take over. */
  readonly leaseDurationMs: number;
  /** How long a leader tries to renew before it gives up. */
  readonly renewDeadlineMs: number;
  readonly retryPeriodMs: number;
}

/** client-go's `JitterFactor`: a candidate sleeps its retry period times [1, 1 + 1.2). */
export const jitterFactor = 1.2;

/** RFC 3339 with microseconds, as a `MicroTime` is on the wire. */
export const microTime = (ms: number): string => new Date(ms).toISOString().replace("Z", "000Z");

export function recordOf({ spec = {} }: Lease): LeaseRecord {
  return {
    holderIdentity: spec.holderIdentity ?? "",
    leaseDurationSeconds: spec.leaseDurationSeconds ?? 0,
    acquireTime: spec.acquireTime ?? "",
    renewTime: spec.renewTime ?? "",
    leaseTransitions: spec.leaseTransitions ?? 0,
  };
}

/**
 * Whether somebody has written the lease since. client-go compares times by the second; compared in full, a renewal
 * within the same second is seen as well.
 */
export function sameRecord(one: LeaseRecord, other: LeaseRecord): boolean {
  return (
    one.holderIdentity === other.holderIdentity &&
    one.leaseDurationSeconds === other.leaseDurationSeconds &&
    one.acquireTime === other.acquireTime &&
    one.renewTime === other.renewTime &&
    one.leaseTransitions === other.leaseTransitions
  );
}

/** The object to write: metadata as it was read, whosever it is; the spec is the record and nothing else. */
export function leaseWith(record: LeaseRecord, name: ObjectName, read?: Lease): Lease {
  const { acquireTime, renewTime, ...rest } = record;
  return {
    apiVersion: apiVersionOf(kinds.Lease),
    kind: kinds.Lease.kind,
    metadata: read?.metadata ?? { name: name.name, namespace: name.namespace ?? "" },
    spec: { ...rest, ...(acquireTime !== "" && { acquireTime }), ...(renewTime !== "" && { renewTime }) },
  };
}

/** What an event about the lease is recorded on. */
export function leaseSubject(name: ObjectName, lease: Lease | undefined): EventSubject {
  return {
    apiVersion: apiVersionOf(kinds.Lease),
    kind: kinds.Lease.kind,
    metadata: lease?.metadata ?? { name: name.name, namespace: name.namespace ?? "" },
  };
}

/** Every reason why an election with these timings could not be safe or could not work, naming the flags. */
export function validateLeaseTimings({
  leaseDurationMs,
  renewDeadlineMs,
  retryPeriodMs,
}: LeaseTimings): readonly string[] {
  const problems: string[] = [];
  const lease = "--leader-elect-lease-duration";
  const renew = "--leader-elect-renew-deadline";
  const retry = "--leader-elect-retry-period";
  if (!(leaseDurationMs >= 1000)) problems.push(`${lease} must be at least 1s: a Lease counts whole seconds`);
  if (!(renewDeadlineMs > 0)) problems.push(`${renew} must be greater than zero`);
  if (!(retryPeriodMs > 0)) problems.push(`${retry} must be greater than zero`);
  if (!(leaseDurationMs > renewDeadlineMs)) problems.push(`${lease} must be greater than ${renew}`);
  if (!(renewDeadlineMs > jitterFactor * retryPeriodMs))
    problems.push(`${renew} must be greater than ${jitterFactor} times ${retry}`);
  return problems;
}
