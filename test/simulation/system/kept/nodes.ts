import { endings, stopHost } from "../actions/hosts.ts";
import { operations } from "../actions/network.ts";
import type { History } from "../history.ts";
import { change, history, pickOf, rowWith, weather } from "./history.ts";

/** How a write of instances, or of a route table, fails. */
export const failing = (path: string, times = 1) =>
  ({ kind: "failOperations", pick: pickOf(rowWith(operations, path), [1, 2, times - 1]) }) as const;

/** Of nodes and their VMs. */
export const nodeHistories: Readonly<Record<string, History>> = {
  "nodes come, of node IPs": history({ cluster: "node IPs" }, [60, { kind: "joinNodes", pick: 1 }]),
  "nodes come after the process was killed": history(
    {},
    [60, { kind: "killHost" }],
    [70, { kind: "joinNodes", pick: 1 }],
  ),
  // Those of two would each have the other one noticed.
  "a node comes, of node IPs": history({ cluster: "node IPs" }, [60, { kind: "joinNodes", pick: 0 }]),
  "a node comes while its Service is synced, of node IPs": history(
    { cluster: "node IPs", services: 1, operationPolls: 10 },
    [100, change(0, 1, "tcp-443")],
    [101, { kind: "joinNodes", pick: 0 }],
  ),
  // Addresses are compared every five minutes.
  "the reply to the initialization of a node is lost, of node IPs": history(
    { cluster: "node IPs", convergeMinutes: 3 },
    [60, { kind: "joinNodes", pick: 0, forMs: 0 }],
    [60.05, weather("kube", "replies reset", 0.15)],
  ),
  // Two of three get the last CIDRs, and neither a reply nor an event tells of it.
  "the replies to the writes of the last CIDRs are lost": history(
    { cluster: "few Pod CIDRs", nodes: 2, services: 1, convergeMinutes: 12 },
    [60, { kind: "joinNodes", pick: 2, forMs: 0 }],
    [60.0005, weather("kube", "replies reset", 1)],
    [60.0015, { kind: "holdWatches", forMs: 3_000 }],
  ),
  // Services would have it read.
  "a VM is replaced, and a user deletes its node": history(
    { services: 0, convergeMinutes: 8 },
    [320, { kind: "replaceVM", pick: 1, forMs: 1_000 }],
    [321, { kind: "returnNode", pick: 2, forMs: 1_000 }],
  ),
  // What it has of the first one has its route; that of the second one is refused until the cache expires.
  "the route table fails as a node comes, and another one follows": history(
    { convergeMinutes: 3 },
    [121, failing("/routeTables/")],
    [121.1, { kind: "joinNodes", pick: 0, forMs: 0 }],
    [132, { kind: "joinNodes", pick: 0, forMs: 0 }],
  ),
  // It is deleted by a user while the request of the product to delete it is on its way.
  "a node is created again while it is deleted": history(
    { convergeMinutes: 8 },
    // Younger nodes are not deleted.
    [320, { kind: "replaceVM", pick: 1, forMs: 120_000 }],
    [380, weather("kube", "late requests", 4)],
    [384, { kind: "returnNode", pick: 2, forMs: 1_000 }],
  ),
  "a VM goes": history({ convergeMinutes: 8 }, [300, { kind: "loseNode", pick: 0 }]),
  "a node is retired": history({}, [60, { kind: "retireNode", pick: 1 }]),
  "a node is retired, of node IPs": history({ cluster: "node IPs" }, [60, { kind: "retireNode", pick: 1 }]),
  "a VM goes, of node IPs": history({ cluster: "node IPs", convergeMinutes: 8 }, [300, { kind: "loseNode", pick: 0 }]),
  // The operation ends when the node has been back for three minutes.
  "a node returns while a former process takes its instance out of its pools": history(
    { eventfulMinutes: 20 },
    [60, { kind: "prolongOperation", pick: pickOf(rowWith(operations, "/virtualMachine")), forMs: 3_240_000 }],
    [70, { kind: "returnNode", pick: 1, forMs: 200_000 }],
    [80, { kind: "killHost" }],
  ),
  // Its request arrives when the next process has seen the instance in its pools, to which the node is back.
  "a process is stopped as it takes an instance out of its pools": history(
    { lateWrites: { share: 1, minMs: 5_000, maxMs: 5_000 } },
    [60, { kind: "endAtWrite", pick: pickOf([1, 5, 0], [5, endings.length, endings.indexOf(stopHost)]) }],
    [60.1, { kind: "returnNode", pick: 1, forMs: 1_000 }],
  ),
  "a node returns": history({}, [60, { kind: "returnNode", pick: 1, forMs: 50_000 }]),
  "a VM is stopped": history(
    { cluster: "node IPs", nodes: 4 },
    // Younger nodes are not deleted.
    [320, { kind: "stopNode", pick: 1, forMs: 120_000 }],
    [390, { kind: "joinNodes", pick: 0 }],
    [470, { kind: "reload", pick: 0 }],
  ),
  "a stopped VM goes": history(
    { convergeMinutes: 8 },
    [320, { kind: "stopNode", pick: 1, forMs: 200_000 }],
    [400, { kind: "loseNode", pick: 1 }],
  ),
  "lists lack a stopped VM": history(
    { convergeMinutes: 8 },
    [320, { kind: "hideInstance", pick: 1, forMs: 300_000 }],
    [321, { kind: "stopNode", pick: 1, forMs: 250_000 }],
  ),
  "routes of others": history(
    {},
    [60, { kind: "foreignRoute", pick: 1 }],
    [80, { kind: "joinNodes", pick: 0 }],
    [150, { kind: "joinNodes", pick: 0 }],
  ),
  "CIDRs run out": history(
    { cluster: "few Pod CIDRs", nodes: 4, services: 1, convergeMinutes: 8 },
    [120, { kind: "loseNode", pick: 1 }],
    [420, { kind: "joinNodes", pick: 0 }],
  ),
};
