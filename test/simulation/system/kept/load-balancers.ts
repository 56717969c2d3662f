import { foreignRoute } from "../actions/others.ts";
import type { History } from "../history.ts";
import { again, change, create, duringRead, history, weather } from "./history.ts";
import { failing } from "./nodes.ts";

/** Of the writes of Azure's resources, of pools, and of the removal guard. */
export const loadBalancerHistories: Readonly<Record<string, History>> = {
  "a write of the load balancer fails as an operation": history(
    {},
    [59, failing("/loadBalancers/", 1)],
    [60, create(2)],
  ),
  "a write fails, and its change is taken back": history(
    { services: 1 },
    [59, failing("/loadBalancers/", 1)],
    [60, { ...change(0, 1, "ClientIP"), kind: "revertService", forMs: 60_000 }],
  ),
  "a deletion fails as an operation": history(
    {},
    [59, failing("/loadBalancers/", 2)],
    [60, { kind: "deleteService", pick: 0 }],
  ),
  "others tag the security group before it is written": history(
    {},
    [60, { kind: "foreignTag", pick: 1 }],
    [61, change(0, 2, "192.0.2.0/24")],
  ),
  "others change the load balancer before it is deleted": history(
    { services: 1, cluster: "node IPs" },
    [60, { kind: "foreignFrontend", pick: 1 }],
    [61, { kind: "deleteService", pick: 0 }],
  ),
  "instances leave a pool while a Service comes": history(
    { services: 1, nodes: 6, operationPolls: 3 },
    [60, { kind: "deleteService", pick: 0 }],
    [62, create(1)],
  ),
  "a node returns during slow writes": history({ operationPolls: 25 }, [
    100,
    { kind: "returnNodeAtWrite", pick: 1, forMs: 2_000 },
  ]),
  "a node joins during slow writes that fail": history(
    { operationPolls: 25 },
    [99, failing("/virtualMachine", 2)],
    [100, { kind: "joinNodes", pick: 0 }],
  ),
  "a node leaves and returns within an ensure": history(
    { operationPolls: 10 },
    [80, create(2)],
    [80.5, { kind: "returnNodeAtWrite", pick: 1, forMs: 2_000 }],
  ),
  "a Service is deleted right after it was created, and reads are behind": history(
    {},
    [59, { kind: "lagReads", forMs: 90_000 }],
    [60, create(2)],
    [64, { kind: "killHost" }],
    [64.5, { kind: "deleteService", pick: 2 }],
  ),
  "a Service takes the name of one with a slow write": history(
    { operationPolls: 25 },
    [118, change(0, 2, "tcp-443")],
    [119, again("forceDelete", 0, 2)],
  ),
  "a node joins while a Service is deleted": history(
    { operationPolls: 10 },
    [60, { kind: "deleteService", pick: 0 }],
    [60.5, { kind: "returnNode", pick: 1, forMs: 5_000 }],
    [62, { kind: "joinNodes", pick: 0 }],
  ),
  "others add a route while the route table is read": history(
    {},
    [60, duringRead("/routeTables", foreignRoute)],
    [60.1, { kind: "joinNodes", pick: 0 }],
  ),
  "others add a route that the cache lacks": history(
    {},
    [60, { kind: "foreignRoute", pick: 1 }],
    [61, { kind: "joinNodes", pick: 0 }],
  ),
  "a new VM has the name of one whose node a user deletes": history(
    {},
    [60, { kind: "replaceVM", pick: 1, forMs: 60_000 }],
    [61, { kind: "returnNode", pick: 2, forMs: 5_000 }],
  ),
  "lists omit an instance when a process starts": history(
    { cluster: "node IPs" },
    [60, { kind: "hideInstance", pick: 1, forMs: 100_000 }],
    [61, { kind: "killHost" }],
    [80, change(0, 2, "tcp-443")],
  ),
  "reads of Azure fail when a process starts": history(
    {},
    [60, weather("azure", "failing", 60)],
    [60.1, { kind: "killHost" }],
    [70, change(0, 2, "tcp-443")],
  ),
};
