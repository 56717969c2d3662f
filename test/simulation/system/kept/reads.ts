import { foreignFrontend } from "../actions/others.ts";
import type { History } from "../history.ts";
import { change, create, duringRead, forceDelete, history, weather } from "./history.ts";

/** Of watches, lists, queues, and reads of Azure. */
export const readHistories: Readonly<Record<string, History>> = {
  "the API server forgets its history": history(
    {},
    [60, change(0, 2, "tcp-443")],
    [80, { kind: "compact" }],
    [80.1, { kind: "breakWatches", pick: 1 }],
    [85, change(1, 2, "tcp-443")],
  ),
  "Services vanish between two lists": history(
    {},
    [119, { kind: "holdWatches", forMs: 15_000 }],
    [120, forceDelete(0, 2)],
    [125, { kind: "deleteService", pick: 0 }],
    [126, { kind: "compact" }],
    [126.1, { kind: "breakWatches", pick: 0 }],
  ),
  "the API server is down": history({}, [60, weather("kube", "refused", 8)], [60.1, { kind: "breakWatches", pick: 0 }]),
  "a Service is deleted while it is processed": history(
    { operationPolls: 10 },
    [60, create(2)],
    [63, { kind: "deleteService", pick: 2 }],
  ),
  "a change is taken back while reads are behind": history(
    {},
    // Later than the look at the load balancer that follows the nodes' joining.
    [130, { kind: "lagReads", forMs: 20_000 }],
    [131, change(0, 2, "tcp-443")],
    [134, change(0, 2)],
  ),
  // The reply to the creation of its load balancer is lost.
  "a Service that has moved is deleted while reads are behind": history(
    { seed: 11 },
    [150, { kind: "lagReads", forMs: 24_000 }],
    [150.1, change(1, 2, '"azure-load-balancer-internal":"true"}}')],
    [150.11, weather("azure", "reset after", 0.4)],
    [152, { kind: "deleteService", pick: 1 }],
  ),
  "a public IP gets another name and the former one again while reads are behind": history(
    {},
    [60, { kind: "lagReads", forMs: 6_000 }],
    [60.1, create(2, "azure-pip-prefix-id")],
    [62, change(2, 3)],
    [64, change(2, 3, "azure-pip-prefix-id")],
  ),
  "all watches are lost without a word": history({}, [60, { kind: "loseWatches" }], [65, change(0, 2, "tcp-443")]),
  // Five events of a node that comes: without its addresses, and with them.
  "a watch delivers events again, one after the other": history(
    { cluster: "node IPs" },
    [60, { kind: "joinNodes", pick: 0 }],
    [75, { kind: "replayWatches", pick: 5, forMs: 2_000 }],
  ),
  // With the look at it that follows the node's leaving.
  "a node serves again while its load balancer is read": history(
    { services: 1 },
    [45, { kind: "excludeNode", pick: 1, forMs: 62_000 }],
    [100, { kind: "holdRead", forMs: 10_000 }],
  ),
  "tokens are revoked": history({}, [60, { kind: "revokeTokens" }], [61, change(0, 2, "tcp-443")]),
  "Azure does not reply": history({}, [60, weather("azure", "cut", 5)], [60.1, change(0, 2, "tcp-443")]),
  "Azure refuses connections for a quarter of an hour": history(
    { eventfulMinutes: 15, convergeMinutes: 20 },
    [100, weather("azure", "refused", 900)],
    [110, { kind: "loseNode", pick: 1 }],
    [120, { kind: "joinNodes", pick: 0 }],
    [130, create(2)],
  ),
  "others add a frontend while the load balancer is read": history(
    {},
    [60, duringRead("/loadBalancers", foreignFrontend)],
    [60.1, create(2)],
    [100, { kind: "foreignFrontend", pick: 1 }],
    [101, { kind: "deleteService", pick: 0 }],
    [102, { kind: "deleteService", pick: 0 }],
    [103, { kind: "deleteService", pick: 0 }],
  ),
};
