import type { VirtualMachineScaleSet, VirtualMachineScaleSetNetworkConfiguration } from "@azure/arm-compute";
import type { Clock } from "cloud-controller-host/sdk";

import type { ArmClients } from "../../arm/clients.ts";
import { isAbsent, unlessAbsent } from "../../arm/errors.ts";
import { SharedRead, SharedReads } from "../../arm/reads/shared-read.ts";
import { parseArmPath } from "../../arm/resource-id.ts";
import { withOperationLimit } from "../../arm/writes/operation-limit.ts";
import { retryConflicts } from "../../arm/writes/write-errors.ts";
import { editInterfaces, type EditOptions, type PoolEdit } from "./pool-edits.ts";

/** The backend pools that new instances of a scale set join. */
export interface ScaleSetModel {
  readonly id: string;
  /** The network interfaces of new instances; `undefined` where the model has none. */
  readonly interfaces: readonly VirtualMachineScaleSetNetworkConfiguration[] | undefined;
  /** Pools of IPv6 are not for this image. */
  readonly ipv4Only: boolean;
  readonly deleting: boolean;
}

export interface MemberOptions extends EditOptions {
  readonly clients: ArmClients;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly withInstanceView: boolean;
}

/** API version of the network resources that instances of a flexible scale set get. Source: upstream's flex code. */
const flexibleNetworkApiVersion = "2020-11-01";

/** Models of the scale sets of a resource group, from one list. */
export class ScaleSetModels {
  readonly #options: MemberOptions;
  readonly #groups: SharedReads<ReadonlyMap<string, ScaleSetModel>>;

  constructor(options: MemberOptions & { readonly ttlMs: number }) {
    this.#options = options;
    const { clients, clock, ttlMs } = options;
    this.#groups = new SharedReads((group) => new SharedRead({ clock, ttlMs, read: () => listModels(clients, group) }));
  }

  /** By lower-case id. */
  inGroup(resourceGroup: string): Promise<ReadonlyMap<string, ScaleSetModel>> {
    return this.#groups.of(resourceGroup.toLowerCase()).get("cached");
  }

  /** Reads the models of a resource group again when they are needed next. */
  forget(resourceGroup: string): void {
    this.#groups.of(resourceGroup.toLowerCase()).forget();
  }

  /** Reads the model, edits it and writes it where that changes it. Returns the number of writes. */
  edit(id: string, edits: readonly PoolEdit[]): Promise<number> {
    const path = parseArmPath(id);
    const group = path?.resourceGroup ?? "";
    const name = path?.names[0] ?? "";
    return retryConflicts(this.#options, () => this.#editOnce(group, name, edits));
  }

  async #editOnce(group: string, name: string, edits: readonly PoolEdit[]): Promise<number> {
    const { clients, signal } = this.#options;
    const scaleSets = clients.compute.virtualMachineScaleSets;
    const current = await unlessAbsent(scaleSets.get(group, name));
    if (current === undefined) return 0;
    const edited = editedInterfaces(modelOf(current), edits, this.#options);
    if (edited === undefined) return 0;
    const flexible = isFlexible(current);
    const networkProfile = {
      ...current.virtualMachineProfile?.networkProfile,
      networkInterfaceConfigurations: [...edited],
      ...(flexible ? { networkApiVersion: flexibleNetworkApiVersion } : {}),
    };
    try {
      const body = {
        location: current.location,
        ...(current.extendedLocation === undefined ? {} : { extendedLocation: current.extendedLocation }),
        virtualMachineProfile: { networkProfile },
      };
      await withOperationLimit(`update of scale set ${name}`, signal, (abortSignal) =>
        scaleSets.createOrUpdate(group, name, body, {
          abortSignal,
          ...(flexible || current.etag === undefined ? {} : { ifMatch: current.etag }),
        }),
      );
    } finally {
      this.forget(group);
    }
    return 1;
  }
}

const isFlexible = (scaleSet: VirtualMachineScaleSet): boolean =>
  scaleSet.orchestrationMode?.toLowerCase() === "flexible";

/** The interfaces after the edits; undefined when there is nothing to write. */
export function editedInterfaces(
  model: ScaleSetModel,
  edits: readonly PoolEdit[],
  options: EditOptions,
): readonly VirtualMachineScaleSetNetworkConfiguration[] | undefined {
  if (model.deleting || model.interfaces === undefined) return undefined;
  const possible = edits.filter(({ family, change }) => change === "leave" || family === "IPv4" || !model.ipv4Only);
  return editInterfaces(model.interfaces, possible, options);
}

/** A gallery image of Windows Server 2019 for containers, whose instances cannot be in pools of IPv6. */
const windows2019 = /windows-2019-containerd|17763/u;

function modelOf(scaleSet: VirtualMachineScaleSet): ScaleSetModel {
  const profile = scaleSet.virtualMachineProfile;
  const { imageReference, osDisk } = profile?.storageProfile ?? {};
  return {
    id: scaleSet.id ?? "",
    interfaces: profile?.networkProfile?.networkInterfaceConfigurations,
    ipv4Only: osDisk?.osType === "Windows" && windows2019.test(imageReference?.id ?? ""),
    deleting: scaleSet.provisioningState?.toLowerCase() === "deleting",
  };
}

/** A resource group that does not exist has no scale sets. */
async function listModels(clients: ArmClients, group: string): Promise<ReadonlyMap<string, ScaleSetModel>> {
  const models = new Map<string, ScaleSetModel>();
  try {
    for await (const scaleSet of clients.compute.virtualMachineScaleSets.list(group))
      models.set((scaleSet.id ?? "").toLowerCase(), modelOf(scaleSet));
  } catch (error) {
    if (!isAbsent(error)) throw error;
  }
  return models;
}
