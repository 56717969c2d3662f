import { nextEtag } from "./store.ts";

type PowerState = "starting" | "running" | "stopping" | "stopped" | "deallocating" | "deallocated" | "unknown";

/** One instance of a uniform scale set. */
export interface Machine {
  readonly instanceId: string;
  readonly computerName: string;
  readonly privateIP: string;
  readonly publicIP: string | undefined;
  readonly zone: string | undefined;
  readonly faultDomain: number;
  readonly powerState: PowerState;
  readonly provisioningState: string;
  /** Set by a write to the instance; until then it follows the scale set's model. */
  readonly networkInterfaceConfigurations: readonly unknown[] | undefined;
  readonly etag: string;
  /** Left out of lists. */
  readonly hidden: boolean;
}

export type MachineChange = Partial<Omit<Machine, "instanceId" | "etag">>;

/** The instances of one scale set, in order of their instance ids; an id is never given twice. */
export class ScaleSetMachines {
  readonly #machines = new Map<string, Machine>();
  #nextId = 0;

  get size(): number {
    return this.#machines.size;
  }

  add(make: (instanceId: number) => Omit<Machine, "instanceId" | "etag">): Machine {
    const id = this.#nextId++;
    const machine: Machine = { ...make(id), instanceId: String(id), etag: nextEtag() };
    this.#machines.set(machine.instanceId, machine);
    return machine;
  }

  get(instanceId: string): Machine | undefined {
    return this.#machines.get(instanceId);
  }

  named(computerName: string): Machine | undefined {
    const wanted = computerName.toLowerCase();
    for (const machine of this.#machines.values()) if (machine.computerName.toLowerCase() === wanted) return machine;
    return undefined;
  }

  change(instanceId: string, change: MachineChange): Machine | undefined {
    const before = this.#machines.get(instanceId);
    if (before === undefined) return undefined;
    const after: Machine = { ...before, ...change, etag: nextEtag() };
    this.#machines.set(instanceId, after);
    return after;
  }

  remove(instanceId: string): boolean {
    return this.#machines.delete(instanceId);
  }

  clear(): void {
    this.#machines.clear();
  }

  /** A page of instances after the one that `after` names, and whether there are more. */
  page(after: string | undefined, size: number): { readonly machines: readonly Machine[]; readonly more: boolean } {
    const from = after === undefined ? -1 : Number(after);
    const machines: Machine[] = [];
    for (const machine of this.#machines.values()) {
      if (machine.hidden || Number(machine.instanceId) <= from) continue;
      if (machines.length === size) return { machines, more: true };
      machines.push(machine);
    }
    return { machines, more: false };
  }

  [Symbol.iterator](): IterableIterator<Machine> {
    return this.#machines.values();
  }
}
