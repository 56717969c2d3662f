import type { VirtualMachineScaleSet } from "@azure/arm-compute";

import { unlessAbsent } from "../../arm/errors.ts";
import { parseArmPath } from "../../arm/resource-id.ts";
import { withOperationLimit } from "../../arm/writes/operation-limit.ts";
import { OutdatedError, retryConflicts } from "../../arm/writes/write-errors.ts";
import { type ScaleSetRecord, scaleSetRecord } from "../../instances/records.ts";
import type { MemberOptions } from "./member-write.ts";
import {
  editInterfaces,
  type EditOptions,
  type InterfaceConfiguration,
  type IPConfiguration,
  type PoolEdit,
} from "./pool-edits.ts";

/** API version of the network resources that instances of a flexible scale set get. Source: upstream's flex code. */
const flexibleNetworkApiVersion = "2020-11-01";

/** The whole scale set; undefined when it does not exist. */
export function readScaleSet(id: string, { clients }: MemberOptions): Promise<VirtualMachineScaleSet | undefined> {
  const { resourceGroup: group = "", names: [name = ""] = [] } = parseArmPath(id) ?? {};
  return unlessAbsent(clients.compute.virtualMachineScaleSets.get(group, name));
}

/**
 * Writes models of scale sets, which decide on the pools of new instances. A read that shows the version from before an own
 * write is out of date, the one at the end of that write included: what it lacks or has says nothing.
 */
export class ScaleSetModels {
  readonly #options: MemberOptions;
  /** Etags that own writes have replaced, by lower-case id. */
  readonly #replaced = new Map<string, string>();

  constructor(options: MemberOptions) {
    this.#options = options;
  }

  /** Returns the number of writes. `ahead`: a read that has begun before; its etag tells ARM whether it is outdated. */
  edit(id: string, edits: readonly PoolEdit[], ahead: Promise<VirtualMachineScaleSet | undefined>): Promise<number> {
    return retryConflicts(this.#options, async (fresh) =>
      this.#editOnce(id, edits, await (fresh ? readScaleSet(id, this.#options) : ahead)),
    );
  }

  async #editOnce(
    id: string,
    edits: readonly PoolEdit[],
    current: VirtualMachineScaleSet | undefined,
  ): Promise<number> {
    const { clients, signal, scaleSets: catalog } = this.#options;
    const { resourceGroup: group = "", names: [name = ""] = [] } = parseArmPath(id) ?? {};
    const scaleSets = clients.compute.virtualMachineScaleSets;
    if (current === undefined) return 0;
    if (this.#isOutdated(id, current))
      throw new OutdatedError(`${id}: Azure shows the scale set as it was before a write`);
    const record = scaleSetRecord(current);
    const interfaces = current.virtualMachineProfile?.networkProfile?.networkInterfaceConfigurations ?? [];
    const edited = editedModel({ ...record, interfaces }, edits, this.#options);
    if (edited === undefined) return 0;
    const networkProfile = {
      ...current.virtualMachineProfile?.networkProfile,
      networkInterfaceConfigurations: [...edited],
      ...(record.uniform ? {} : { networkApiVersion: flexibleNetworkApiVersion }),
    };
    const body = {
      location: current.location,
      ...(current.extendedLocation === undefined ? {} : { extendedLocation: current.extendedLocation }),
      virtualMachineProfile: { networkProfile },
    };
    try {
      const written = await withOperationLimit(`update of scale set ${name}`, signal, (abortSignal) =>
        scaleSets.createOrUpdate(group, name, body, {
          abortSignal,
          ...(record.uniform && current.etag !== undefined ? { ifMatch: current.etag } : {}),
        }),
      );
      if (current.etag !== undefined) this.#replaced.set(id.toLowerCase(), current.etag);
      const profile = { ...current.virtualMachineProfile, networkProfile };
      catalog.store(this.#isOutdated(id, written) ? { ...current, virtualMachineProfile: profile } : written);
    } catch (error) {
      catalog.inGroup(group).forget();
      throw error;
    }
    return 1;
  }

  #isOutdated(id: string, { etag }: VirtualMachineScaleSet): boolean {
    return etag !== undefined && this.#replaced.get(id.toLowerCase()) === etag;
  }
}

/** The network interfaces of a model after the edits; undefined when there is nothing to write. */
export function editedModel<
  Configuration extends IPConfiguration,
  Interface extends InterfaceConfiguration<Configuration>,
>(
  model: Pick<ScaleSetRecord, "deleting" | "ipv4Only"> & { readonly interfaces: readonly Interface[] },
  edits: readonly PoolEdit[],
  options: EditOptions,
): readonly Interface[] | undefined {
  if (model.deleting) return undefined;
  const possible = edits.filter(({ family, change }) => change === "leave" || family === "IPv4" || !model.ipv4Only);
  return editInterfaces<Configuration, Interface>(model.interfaces, possible, options);
}
