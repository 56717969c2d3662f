import type { VirtualMachineScaleSetVM } from "@azure/arm-compute";
import { CodedError } from "cloud-controller-host/sdk";

import { ArmError, isAbsent, unlessAbsent } from "../../arm/errors.ts";
import { describeWrite } from "../../arm/pipeline/record.ts";
import { lastSegment, parseArmPath } from "../../arm/resource-id.ts";
import { retryConflicts } from "../../arm/writes/write-errors.ts";
import type { ServiceKey } from "../model/model.ts";
import { changeOf, type MemberOptions, type StuckMember, writeMember } from "./member-write.ts";
import { editInterfaces, type PoolEdit } from "./pool-edits.ts";

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
    await writeMember(member, options, (request) => {
      describeWrite(request.abortSignal, { before: current, after: { ...current, ...body } });
      return clients.compute.virtualMachineScaleSetVMs.update(group, scaleSet, instance, body, {
        ...request,
        ...(current.etag === undefined ? {} : { ifMatch: current.etag }),
      });
    });
    return 1;
  });
}

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
