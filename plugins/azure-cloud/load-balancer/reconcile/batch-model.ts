import type { CloudContext, LoadBalancerStatus, Service } from "cloud-controller-host/sdk";

import type { Write } from "../model/plan-model.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import type { Activity } from "./activity.ts";
import type { Applier } from "./apply.ts";
import type { LateWrites } from "./late-writes.ts";
import type { Observer } from "./observe.ts";
import type { ResourceLock } from "./resource-lock.ts";

export interface BatchOptions {
  readonly config: PlannerConfig;
  readonly observer: Observer;
  readonly applier: Applier;
  readonly activity: Activity;
  readonly lock: ResourceLock;
  readonly context: Pick<CloudContext, "clock" | "signal" | "events" | "log">;
}

export interface BatchRun {
  readonly late: LateWrites;
  /** Set to wait for every write, however long it takes. */
  readonly patient: boolean;
  /** Called for a pool that is left with instances in flight; `end` resolves when none is, with an error if one failed. */
  readonly follow: (poolId: string, services: readonly Service[], end: Promise<unknown>) => void;
}

export interface Reconciled {
  readonly status: LoadBalancerStatus | undefined;
  /** Requests that changed something for this Service, alone or with others. */
  readonly writes: number;
}

/** Names a write of membership in a batch: it has no effect that the next plan would see at once. */
export function doneKey(write: Write): string {
  const details = write.kind === "update-members" ? `${write.join.join()} ${write.leave.join()}` : "";
  return `${write.kind} ${write.id} ${details}`.toLowerCase();
}
