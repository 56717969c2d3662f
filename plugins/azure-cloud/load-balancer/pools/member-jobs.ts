import { parseArmPath, siblingId } from "../../arm/resource-id.ts";
import { isIPv6Name } from "../model/names.ts";
import type { ReleasePools, UpdateMembers } from "../model/plan-model.ts";
import type { PoolEdit } from "./pool-edits.ts";

export type MembersWrite = UpdateMembers | ReleasePools;

/** One resource to write and what is to change in it. */
export interface Job {
  readonly id: string;
  readonly kind: "instance" | "interface" | "model";
  readonly edits: PoolEdit[];
  readonly reasons: Set<MembersWrite>;
}

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

/** Family of a pool by its name, as upstream. */
export const joining = (poolId: string): PoolEdit => ({
  poolId,
  family: isIPv6Name(poolId) ? "IPv6" : "IPv4",
  change: "join",
});

/** An instance of a uniform scale set, or a network interface that is a resource itself. */
type ConfigurationOwner =
  | { readonly kind: "instance"; readonly id: string; readonly scaleSetId: string }
  | { readonly kind: "interface"; readonly id: string };

/** The owner of an IP configuration, by the configuration's id; undefined for an id of another kind. */
export function ownerOf(ipConfigurationId: string): ConfigurationOwner | undefined {
  const path = parseArmPath(ipConfigurationId);
  if (path === undefined) return undefined;
  const type = path.type.toLowerCase();
  const [first = "", second = ""] = path.names;
  if (type.startsWith("virtualmachinescalesets/virtualmachines/networkinterfaces")) {
    const scaleSetId = siblingId(path, "Microsoft.Compute/virtualMachineScaleSets", first);
    return { kind: "instance", id: `${scaleSetId}/virtualMachines/${second}`, scaleSetId };
  }
  if (type.startsWith("networkinterfaces"))
    return { kind: "interface", id: siblingId(path, "Microsoft.Network/networkInterfaces", first) };
  return undefined;
}
