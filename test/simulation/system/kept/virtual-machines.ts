import { operations } from "../actions/network.ts";
import type { History } from "../history.ts";
import { history, pickOf, rowWith } from "./history.ts";
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
  // The operation ends when the node has been back for minutes. The number is that of network interfaces.
  "a node returns while a former process takes its network interface out of its pools": history(
    { cluster, showsMembersLate: true, eventfulMinutes: 20 },
    [
      60,
      { kind: "prolongOperation", pick: pickOf(rowWith(operations, "/virtualMachine"), [64, 2, 0]), forMs: 3_240_000 },
    ],
    [70, { kind: "returnNode", pick: 1, forMs: 200_000 }],
    [80, { kind: "killHost" }],
  ),
  "a standalone VM is retired": history({ cluster }, [60, { kind: "retireNode", pick: 1 }]),
  "a standalone VM serves again whose network interface has failed to leave its pool": history(
    { cluster },
    [60, failing("/virtualMachine")],
    [65, { kind: "excludeNode", pick: 1, forMs: 30_000 }],
  ),
};
