import type { ReloadStatus } from "../generation/report/reload-status.ts";

/** One lock as `/statusz` shows it. */
export interface LockStatus {
  /** The name of its Lease. */
  readonly lease: string;
  readonly leading: boolean;
  /** The last holder that this process has observed; empty for none. */
  readonly leader: string;
}

export interface LeadershipStatus {
  readonly identity: string;
  /** True if this process holds the main lock; `leader` is its holder. */
  readonly leading: boolean;
  readonly leader: string;
  /** The main lock first; none without leader election. */
  readonly locks: readonly LockStatus[];
}

/** What `/statusz` shows. */
export interface HostStatus extends ReloadStatus, LeadershipStatus {
  /** When the process started. */
  readonly startedAt: string;
  /** Each lock, the main one first, and the controllers that run here under it. */
  readonly locks: readonly (LockStatus & { readonly controllers: readonly string[] })[];
}
