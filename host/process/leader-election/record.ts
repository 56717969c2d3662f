import {
  apiVersionOf,
  CodedError,
  type EventSubject,
  kinds,
  type Lease,
  type ObjectName,
} from "cloud-controller-host/sdk";

/** upstream: `resourcelock.LeaderElectionRecord`, with times as they are on the wire. */
export interface LeaseRecord {
  /** Empty: the lease is free. */
  readonly holderIdentity: string;
  readonly leaseDurationSeconds: number;
  readonly acquireTime: string;
  readonly renewTime: string;
  readonly leaseTransitions: number;
}

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

/** A record to write; `tenure` overrides the fields that an existing Lease keeps or increments. */
export function newRecord(
  holderIdentity: string,
  leaseDurationMs: number,
  nowMs: number,
  tenure: Partial<LeaseRecord>,
): LeaseRecord {
  const now = microTime(nowMs);
  const leaseDurationSeconds = Math.floor(leaseDurationMs / 1000);
  return { holderIdentity, leaseDurationSeconds, acquireTime: now, renewTime: now, leaseTransitions: 0, ...tenure };
}

/** The fields that stay while one holder renews. */
export const tenureOf = ({
  acquireTime,
  leaseTransitions,
}: LeaseRecord): Pick<LeaseRecord, "acquireTime" | "leaseTransitions"> => ({
  acquireTime,
  leaseTransitions,
});

/** A record without a holder, which can be acquired at once. */
export function emptied(record: LeaseRecord, nowMs: number): LeaseRecord {
  const now = microTime(nowMs);
  return { ...record, holderIdentity: "", leaseDurationSeconds: 1, acquireTime: now, renewTime: now };
}

/** True for a Lease that its holder has released: ours and client-go's then have a duration of one second. */
export const isReleased = ({ holderIdentity, leaseDurationSeconds }: LeaseRecord): boolean =>
  holderIdentity === "" && leaseDurationSeconds === 1;

/** True for a Lease without a holder whose next write can be made conditional on this state. */
export const isUntaken = (lease: Lease): boolean =>
  recordOf(lease).holderIdentity === "" && (lease.metadata?.resourceVersion ?? "") !== "";

/** The last observed record, and when by the local clock. Times inside a Lease are never compared with local time. */
export interface Observation {
  readonly record: LeaseRecord;
  readonly lease: Lease;
  readonly atMs: number;
  /** Another writer removed the holder, which leads until it observes that. One first seen without a duration had none. */
  readonly wasEmptied: boolean;
  /** The lease duration with which the last holder has renewed: it leads by that. 0 without one. */
  readonly holderSeconds: number;
}

/**
 * A Lease whose holder was removed, for example with `kubectl edit`, keeps its duration or has none. Another duration at the
 * same time of renewal is what another client has written.
 */
export function observationOf(lease: Lease, atMs: number, before: Observation | undefined): Observation {
  const record = recordOf(lease);
  const { holderIdentity, leaseDurationSeconds } = record;
  const wasHeld = before !== undefined || leaseDurationSeconds > 0;
  const wasEmptied = holderIdentity === "" && !isReleased(record) && wasHeld;
  const { holderSeconds: formerSeconds = 0, record: former } = before ?? {};
  const isRenewal = former?.holderIdentity !== holderIdentity || former.renewTime !== record.renewTime;
  const holderSeconds = holderIdentity !== "" && isRenewal ? leaseDurationSeconds : formerSeconds;
  return { record, lease, atMs, wasEmptied, holderSeconds };
}

/** An observed record, as it is now. */
export interface ObservedRecord extends LeaseRecord {
  /** It has a holder, which has not renewed it for its lease duration. */
  readonly isExpired: boolean;
}

/** True until a lease duration after the observation: until then, its holder may lead. */
export const isValidAt = ({ holderSeconds, atMs }: Observation, nowMs: number): boolean =>
  atMs + holderSeconds * 1000 > nowMs;

/** True within a lease duration after the Lease was emptied: ours or its last holder's, since its own may be wrong. */
export function mayBeLedAt(observed: Observation | undefined, ownDurationMs: number, nowMs: number): boolean {
  const { wasEmptied = false, atMs = 0, holderSeconds = 0 } = observed ?? {};
  return wasEmptied && nowMs - atMs <= Math.max(ownDurationMs, holderSeconds * 1000);
}

export function expiredError(ageMs: number, durationMs: number): CodedError {
  const [age, duration] = [ageMs, durationMs].map((ms) => `${Math.round(ms / 1000)} s`);
  return new CodedError(
    "LeaseExpired",
    `not renewed for ${age}, and the lease lasts ${duration}: was the process paused?`,
  );
}

/**
 * True if the lease was not written in between. client-go compares times by the second; compared in full, a renewal
 * within the same second is noticed as well.
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

/** The object to write: metadata as read, labels of other writers included; the spec is the record and nothing else. */
export function leaseWith(record: LeaseRecord, name: ObjectName, read?: Lease): Lease {
  const { acquireTime, renewTime, ...rest } = record;
  return {
    apiVersion: apiVersionOf(kinds.Lease),
    kind: kinds.Lease.kind,
    metadata: read?.metadata ?? { name: name.name, namespace: name.namespace ?? "" },
    spec: { ...rest, ...(acquireTime !== "" && { acquireTime }), ...(renewTime !== "" && { renewTime }) },
  };
}

export function leaseSubject(name: ObjectName, lease: Lease | undefined): EventSubject {
  return {
    apiVersion: apiVersionOf(kinds.Lease),
    kind: kinds.Lease.kind,
    metadata: lease?.metadata ?? { name: name.name, namespace: name.namespace ?? "" },
  };
}
