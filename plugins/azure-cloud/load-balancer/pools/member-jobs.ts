import { sameName } from "../../arm/resource-id.ts";
import { ownerOf } from "../../instances/provider-id.ts";
import { isIPv6Name } from "../model/names.ts";
import type { ReleasePools, UpdateMembers, Write } from "../model/plan-model.ts";
import type { PoolEdit } from "./pool-edits.ts";

export type MembersWrite = UpdateMembers | ReleasePools;

export const isMembersWrite = (write: Write): write is MembersWrite =>
  write.kind === "update-members" || write.kind === "release-pools";

/** One resource to write and what is to change in it. */
export interface Job {
  readonly id: string;
  readonly kind: "instance" | "interface" | "model";
  readonly edits: PoolEdit[];
  readonly reasons: Set<MembersWrite>;
}

export const isModel = ({ kind }: Job): boolean => kind === "model";

export interface PlannedEdit {
  readonly id: string;
  readonly kind: Job["kind"];
  readonly edit: PoolEdit;
}

export function* leaving(ipConfigurationId: string, edit: PoolEdit): Generator<PlannedEdit> {
  const owner = ownerOf(ipConfigurationId);
  if (owner !== undefined) yield { id: owner.id, kind: owner.kind, edit };
}

export function addEdit(jobs: Map<string, Job>, write: MembersWrite, { id, kind, edit }: PlannedEdit): void {
  const key = id.toLowerCase();
  const job = jobs.get(key) ?? { id, kind, edits: [], reasons: new Set() };
  job.edits.push(edit);
  job.reasons.add(write);
  jobs.set(key, job);
}

/** The job for the pools of each family. */
export function familiesOf({ edits, reasons, ...job }: Job): readonly Job[] {
  const families = Map.groupBy(reasons, ({ id }) => isIPv6Name(id));
  return [...families.values()].map((writes) => {
    const pools = writes.flatMap((write) => (write.kind === "release-pools" ? write.poolIds : [write.id]));
    const isOf = ({ poolId }: PoolEdit): boolean => pools.some((id) => sameName(id, poolId));
    return { ...job, edits: edits.filter(isOf), reasons: new Set(writes) };
  });
}

/** Family of a pool by its name, as upstream. */
export const joining = (poolId: string): PoolEdit => ({
  poolId,
  family: isIPv6Name(poolId) ? "IPv6" : "IPv4",
  change: "join",
});
