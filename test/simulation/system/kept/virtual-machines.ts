import type { History } from "../history.ts";
import { history } from "./history.ts";

const cluster = "virtual machines";

/** Of nodes on VMs of three kinds: an instance of a uniform scale set, a standalone VM, one of a flexible scale set. */
export const virtualMachineHistories: Readonly<Record<string, History>> = {
  "VMs of three kinds": history({ cluster }),
  "a standalone VM is retired": history({ cluster }, [60, { kind: "retireNode", pick: 1 }]),
};
