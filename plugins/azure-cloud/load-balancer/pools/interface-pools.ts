import { unlessAbsent } from "../../arm/errors.ts";
import { describeWrite } from "../../arm/pipeline/record.ts";
import { parseArmPath } from "../../arm/resource-id.ts";
import { hasFailed, retryConflicts } from "../../arm/writes/write-errors.ts";
import type { ExpiringSet } from "../../instances/expiring-set.ts";
import type { ServiceKey } from "../model/model.ts";
import { changeOf, type MemberOptions, type StuckMember, writeMember } from "./member-write.ts";
import { editPools, type PoolEdit } from "./pool-edits.ts";

/** Pause after a write that has not repaired a network interface. */
const repairPauseMs = 10 * 60_000;

/**
 * Writes of network interfaces: standalone VMs and those of availability sets and flexible scale sets. A write repairs
 * one in state `Failed`. `unrepaired`: lower-case ids of those for which it did not; their Services do without them.
 */
export function editInterface(
  id: string,
  edits: readonly PoolEdit[],
  { services, unrepaired }: { readonly services: readonly ServiceKey[]; readonly unrepaired: ExpiringSet },
  options: MemberOptions,
): Promise<number> {
  const { clients } = options;
  const path = parseArmPath(id);
  const group = path?.resourceGroup ?? "";
  const name = path?.names[0] ?? "";
  const { networkInterfaces } = clients.vmNetwork;
  return retryConflicts(options, async () => {
    const current = await unlessAbsent(networkInterfaces.get(group, name));
    if (current === undefined) return 0;
    const ipConfigurations = editPools(current.ipConfigurations ?? [], edits, options);
    if (ipConfigurations === undefined) return 0;
    const { provisioningState: state, virtualMachine } = current;
    const kind = "network interface";
    const member: StuckMember = { id, kind, vmId: virtualMachine?.id, state, change: changeOf(edits), services };
    const headers: Record<string, string> = current.etag === undefined ? {} : { "If-Match": current.etag };
    const body = { ...current, ipConfigurations: [...ipConfigurations] };
    const write = async (): Promise<number> => {
      await writeMember(member, options, (request) => {
        describeWrite(request.abortSignal, { before: current, after: body });
        return networkInterfaces.createOrUpdate(group, name, body, { ...request, requestOptions: { headers } });
      });
      return 1;
    };
    return state?.toLowerCase() === "failed" ? repair(member, unrepaired, options, write) : write();
  });
}

async function repair(
  member: StuckMember,
  unrepaired: ExpiringSet,
  { stuckMembers, skipped }: MemberOptions,
  write: () => Promise<number>,
): Promise<number> {
  const key = member.id.toLowerCase();
  const isDue = !unrepaired.has(key);
  try {
    if (isDue) return await write();
  } catch (error) {
    if (!hasFailed(error)) throw error;
    unrepaired.add(key, repairPauseMs);
  }
  stuckMembers?.found(member);
  if (member.vmId !== undefined) skipped?.(member.vmId);
  // A write that has failed may have changed something.
  return isDue ? 1 : 0;
}
