import type { History } from "../history.ts";
import { history } from "./history.ts";
import { failing } from "./nodes.ts";

const cluster = "virtual machines";

/** Of nodes on VMs of three kinds: an instance of a uniform scale set, a standalone VM, one of a flexible scale set. */
export const virtualMachineHistories: Readonly<Record<string, History>> = {
  "VMs of three kinds": history({ cluster }),
  // The member has left, and reads still show it as the node is planned again.
  "a node returns as its member leaves while reads are behind": history(
    { cluster, services: 3, lease: "relaxed", convergeMinutes: 8 },
    [60, { kind: "lagReads", forMs: 10_400 }],
    [69.9, { kind: "returnNodeAtWrite", pick: 416, forMs: 2_500 }],
  ),
  "a standalone VM is retired": history({ cluster }, [60, { kind: "retireNode", pick: 1 }]),
  "a standalone VM serves again whose network interface has failed to leave its pool": history(
    { cluster },
    [60, failing("/virtualMachine")],
    [65, { kind: "excludeNode", pick: 1, forMs: 30_000 }],
  ),
};
