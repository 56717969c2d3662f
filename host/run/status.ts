import type { FieldChange } from "../changes/fields.ts";
import type { ReloadStatus } from "../generation/report/reload-status.ts";
import type { ShardStatus } from "../process/leader-election/shards.ts";

/** One lock as `/statusz` shows it. */
export interface LockStatus {
  /** The name of its Lease. */
  readonly lease: string;
  readonly leading: boolean;
  /** The last holder that this process has observed; empty for none. */
  readonly leader: string;
  /** Set where that holder has not renewed the Lease for its duration. */
  readonly expired?: true;
  /** Set where this process has not read the Lease: a standby reads that of the main lock alone. */
  readonly unread?: true;
}

export interface LeadershipStatus {
  readonly identity: string;
  /** True if this process holds the main lock; `leader` is its holder. */
  readonly leading: boolean;
  readonly leader: string;
  /** The main lock first; none without leader election. */
  readonly locks: readonly LockStatus[];
}

/** Content of `/statusz`. */
export interface HostStatus extends ReloadStatus, LeadershipStatus {
  /** Name of this shard, with `--shard`. */
  readonly shard?: string;
  /** The shards of the cluster, where this process shares its Services, as seen up to 5 s ago. */
  readonly shards?: readonly ShardStatus[];
  /** When the process started. */
  readonly startedAt: string;
  /** Each lock, the main one first, and the controllers that run here under it. */
  readonly locks: readonly (LockStatus & { readonly controllers: readonly string[] })[];
  /** With `--shadow`: what the comparison has shown. */
  readonly shadow?: ShadowStatus;
}

/** A change that a host with `--shadow` would have made and the other manager has not. */
export interface ShadowDifference {
  readonly system: "cloud" | "kubernetes";
  readonly action: "create" | "change" | "delete";
  readonly resource: string;
  readonly title: string;
  /** Services and nodes behind it. */
  readonly reasons: readonly string[];
  readonly interruptions: readonly string[];
  readonly fields: readonly FieldChange[];
  /** When it was found (RFC 3339). */
  readonly since: string;
}

/** Section of `/statusz` of a host with `--shadow`. */
export interface ShadowStatus {
  /** Holder of the lease: the manager that this one is compared with. Empty while the lease has no holder. */
  readonly comparedWith: string;
  /** Changes of Services and nodes after which the other manager had left nothing to do. */
  readonly changesAgreed: number;
  /** Changes after which a difference remained. */
  readonly changesDiffered: number;
  /** Changes that have not settled, or that a failed plan could not judge. */
  readonly changesPending: number;
  /** Each difference, for as long as it lasts. */
  readonly differences: readonly ShadowDifference[];
  readonly plans: number;
  /** When the last plan was complete, or could judge the rest (RFC 3339). */
  readonly lastComparedAt: string | undefined;
  /** Subjects that the last plan could not read or plan. */
  readonly notCompared: readonly string[];
}
