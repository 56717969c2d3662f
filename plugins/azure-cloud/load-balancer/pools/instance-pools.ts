import type { VirtualMachineScaleSetVM } from "@azure/arm-compute";
import { type Clock, CodedError } from "cloud-controller-host/sdk";

import { ArmError, isAbsent, isUnprovisioned, unlessAbsent } from "../../arm/errors.ts";
import { describeWrite } from "../../arm/pipeline/record.ts";
import { lastSegment, parseArmPath } from "../../arm/resource-id.ts";
import { hasOperationEnded, withOperationLimit } from "../../arm/writes/operation-limit.ts";
import { hasFailed, isRejected, retryConflicts } from "../../arm/writes/write-errors.ts";
import type { ExpiringSet } from "../../instances/expiring-set.ts";
import type { VmReads } from "../../instances/vm-types.ts";
import type { ServiceKey } from "../model/model.ts";
import { editInterfaces, type EditOptions, editPools, type PoolEdit } from "./pool-edits.ts";

export interface MemberOptions extends EditOptions, VmReads {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly withInstanceView: boolean;
  readonly stuckMembers?: StuckMembers;
  /** Receives the id of an instance or interface whose operation is not waited for any more. */
  readonly abandoned?: (id: string) => void;
  /** Receives the id of an instance that is left out: stopped, in an unknown state, not to be repaired, or not in a list. */
  readonly skipped?: (id: string) => void;
}

/** Receives interfaces and instances that may be unable to join or leave their pools. */
export interface StuckMembers {
  /** It was not written, or not with success, in whatever state it was. */
  found: (member: StuckMember) => void;
  written: (id: string) => void;
}

export interface StuckMember {
  readonly id: string;
  readonly kind: "network interface" | "instance";
  readonly vmId: string | undefined;
  readonly state: string | undefined;
  readonly change: "join" | "leave";
  /** Services that use the pools. */
  readonly services: readonly ServiceKey[];
}

/** Writes of instances of uniform scale sets. Returns the number of writes. */
export async function editInstance(
  id: string,
  edits: readonly PoolEdit[],
  {
    known,
    services,
  }: { readonly known: VirtualMachineScaleSetVM | undefined; readonly services: readonly ServiceKey[] },
  options: MemberOptions,
): Promise<number> {
  const { clients } = options;
  const path = parseArmPath(id);
  const [scaleSet = "", instance = ""] = path?.names ?? [];
  const group = path?.resourceGroup ?? "";
  return retryConflicts(options, async (fresh) => {
    const isKnown = !fresh && known !== undefined;
    const { current, waited } = isKnown ? { current: known, waited: false } : await readSettled(id, fresh, options);
    if (current === undefined) return 0;
    const wanted = isActive(current, options) ? edits : edits.filter(({ change }) => change === "leave");
    if (wanted.length < edits.length) options.skipped?.(id);
    const interfaces = current.networkProfileConfiguration?.networkInterfaceConfigurations ?? [];
    const edited = editInterfaces(interfaces, wanted, options);
    if (edited === undefined) return 0;
    // The nodes may have changed since: the edits are planned again.
    if (waited) throw new CodedError("Superseded", `${id}: another writer was changing the instance`);
    const body = {
      location: current.location,
      ...(current.hardwareProfile === undefined ? {} : { hardwareProfile: current.hardwareProfile }),
      networkProfileConfiguration: { networkInterfaceConfigurations: [...edited] },
    };
    const state = current.provisioningState;
    const member: StuckMember = { id, kind: "instance", vmId: id, state, change: changeOf(wanted), services };
    await writing(member, options, (request) => {
      describeWrite(request.abortSignal, { before: current, after: { ...current, ...body } });
      return clients.compute.virtualMachineScaleSetVMs.update(group, scaleSet, instance, body, {
        ...request,
        ...(current.etag === undefined ? {} : { ifMatch: current.etag }),
      });
    });
    return 1;
  });
}

/** Writes a member of pools, and reports one that cannot be written. */
async function writing(
  member: StuckMember,
  { signal, stuckMembers, abandoned }: MemberOptions,
  write: (request: { readonly abortSignal: AbortSignal; readonly onResponse: () => void }) => Promise<unknown>,
): Promise<void> {
  let isAccepted = false;
  const onResponse = (): void => void (isAccepted = true);
  try {
    await withOperationLimit(`update of ${member.id}`, signal, (abortSignal) => write({ abortSignal, onResponse }));
    stuckMembers?.written(member.id);
  } catch (error) {
    if (isAccepted && !hasOperationEnded(error)) abandoned?.(member.id);
    // Throttling, an outage or the end of the process do not show that one in Failed is stuck.
    if (!isUnprovisioned({ provisioningState: member.state ?? "" }) || isRejected(error)) stuckMembers?.found(member);
    throw error;
  }
}

const changeOf = (edits: readonly PoolEdit[]): "join" | "leave" =>
  edits.some(({ change }) => change === "join") ? "join" : "leave";

/** Undefined when the instance does not exist. */
function readInstance(
  id: string,
  { clients, withInstanceView }: MemberOptions,
): Promise<VirtualMachineScaleSetVM | undefined> {
  const path = parseArmPath(id);
  const [scaleSet = "", instance = ""] = path?.names ?? [];
  const options = withInstanceView ? ({ expand: "instanceView" } as const) : {};
  const { virtualMachineScaleSetVMs } = clients.compute;
  return unlessAbsent(virtualMachineScaleSetVMs.get(path?.resourceGroup ?? "", scaleSet, instance, options));
}

/** The instance as a list has it where ARM denies the read of it alone. */
async function readToEdit(id: string, options: MemberOptions): Promise<VirtualMachineScaleSetVM | undefined> {
  try {
    return await readInstance(id, options);
  } catch (error) {
    const isDenied = error instanceof ArmError && error.status === 403;
    const listed = isDenied ? (await readInstances(id, options)).get(id.toLowerCase()) : undefined;
    if (listed === undefined) throw error;
    return listed;
  }
}

/** Pauses between reads of an instance that another writer changes, and how long it is waited for. */
const firstPauseMs = 2_000;
const longestPauseMs = 30_000;
const othersLimitMs = 10 * 60_000;

/**
 * An instance to be edited and, with `waits`, once no operation of another writer changes it; `waited` if there was one. An
 * instance shows a write only once that has ended: writing it before cancels the other operation, and a writer that does
 * the same, such as another deployment, cancels this one in turn, without an end.
 */
async function readSettled(
  id: string,
  waits: boolean,
  options: MemberOptions,
): Promise<{ readonly current: VirtualMachineScaleSetVM | undefined; readonly waited: boolean }> {
  const { clock, signal } = options;
  const untilMs = clock.monotonic() + (waits ? othersLimitMs : 0);
  for (let [pauseMs, waited] = [firstPauseMs, false]; ; pauseMs = Math.min(longestPauseMs, pauseMs * 2)) {
    const current = await readToEdit(id, options);
    const isBusy = current?.provisioningState?.toLowerCase() === "updating";
    if (!isBusy || clock.monotonic() >= untilMs) return { current, waited };
    waited = true;
    await clock.sleep(pauseMs, signal);
    // Sleeping ends at once from then on.
    signal.throwIfAborted();
  }
}

/** Every instance of a scale set by lower-case id, from a fresh list. The id may be that of one of its instances. */
export async function readInstances(
  scaleSetId: string,
  { clients, withInstanceView }: MemberOptions,
): Promise<ReadonlyMap<string, VirtualMachineScaleSetVM>> {
  const path = parseArmPath(scaleSetId);
  const options = withInstanceView ? { expand: "instanceView" } : {};
  const instances = new Map<string, VirtualMachineScaleSetVM>();
  const list = clients.compute.virtualMachineScaleSetVMs.list(path?.resourceGroup ?? "", path?.names[0] ?? "", options);
  try {
    for await (const instance of list) instances.set((instance.id ?? "").toLowerCase(), instance);
  } catch (error) {
    if (!isAbsent(error)) throw error;
  }
  return instances;
}

const inactiveStates = new Set(["unknown", "stopped", "stopping", "deallocated", "deallocating"]);

/** ARM refuses changes of an instance that is stopped or on its way out. */
function isActive(instance: VirtualMachineScaleSetVM, { withInstanceView }: MemberOptions): boolean {
  const provisioning = instance.provisioningState?.toLowerCase();
  if (provisioning === "deleting" || provisioning === "unknown") return false;
  if (!withInstanceView) return true;
  const statuses = instance.instanceView?.statuses ?? [];
  const power = statuses.find(({ code }) => code?.toLowerCase().startsWith("powerstate/"))?.code ?? "unknown";
  return !inactiveStates.has(lastSegment(power).toLowerCase());
}

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
      await writing(member, options, (request) => {
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
