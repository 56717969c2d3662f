import { Operations } from "./operations.ts";
import { type MachineChange, ScaleSetMachines } from "./scale-set-machines.ts";
import { ResourceStore } from "./store.ts";

/** Everything that the simulated subscription holds. */
export class World {
  readonly store = new ResourceStore();
  readonly operations: Operations;
  readonly subscription: string;
  readonly location: string;
  readonly #machines = new Map<string, ScaleSetMachines>();
  #publicAddresses = 0;
  #positions = 0;

  constructor(options: { readonly subscription: string; readonly location: string; readonly operationPolls: number }) {
    this.subscription = options.subscription;
    this.location = options.location;
    this.operations = new Operations(options.operationPolls);
  }

  /** The machines of a scale set, by its resource id. */
  machines(scaleSetId: string): ScaleSetMachines {
    const key = scaleSetId.toLowerCase();
    const machines = this.#machines.get(key) ?? new ScaleSetMachines();
    this.#machines.set(key, machines);
    return machines;
  }

  changeMachine(nodeName: string, change: MachineChange): void {
    for (const machines of this.#machines.values()) {
      const machine = machines.named(nodeName);
      if (machine !== undefined) machines.change(machine.instanceId, change);
    }
  }

  allMachines(): IterableIterator<ScaleSetMachines> {
    return this.#machines.values();
  }

  /** Machines of all scale sets share one count, so that no two have one address. */
  nextMachine(): number {
    return this.#positions++;
  }

  /** Addresses are handed out in order and never twice. */
  nextPublicAddress(version: "IPv4" | "IPv6"): string {
    const count = ++this.#publicAddresses;
    if (version === "IPv6") return `2603:1030::${count.toString(16)}`;
    return `20.0.${count >> 8}.${count & 255}`;
  }
}
