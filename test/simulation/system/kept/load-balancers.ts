import { denials, operations, quotas, refusals } from "../actions/network.ts";
import type { History } from "../history.ts";
import { change, create, forceDelete, history, pickOf, rowWith, weather } from "./history.ts";
import { failing } from "./nodes.ts";

const ranged = "192.0.2.0/24";

/** Of the writes of Azure's resources, of pools, and of the removal guard. */
export const loadBalancerHistories: Readonly<Record<string, History>> = {
  "a write of the load balancer fails as an operation": history(
    {},
    [129, failing("/loadBalancers/", 1)],
    [130, create(2)],
  ),
  "two writes of the load balancer fail as operations": history(
    {},
    [59, failing("/loadBalancers/", 2)],
    [60, change(0, 2, "tcp-443")],
  ),
  "a write fails, and its change is taken back": history(
    { services: 1, convergeMinutes: 6 },
    // Later than the look at the load balancer that follows the nodes' joining.
    [129, failing("/loadBalancers/", 1)],
    [130, { ...change(0, 1, "ClientIP"), kind: "revertService", forMs: 60_000 }],
  ),
  "others change the load balancer before it is deleted": history(
    { services: 1, cluster: "node IPs" },
    [60, { kind: "foreignFrontend", pick: 1 }],
    [61, { kind: "deleteService", pick: 0 }],
  ),
  "a node joins during slow writes that fail": history(
    { operationPolls: 21 },
    [99, failing("/virtualMachine", 2)],
    [100, { kind: "joinNodes", pick: 0 }],
  ),
  "an instance does not leave its pools at first": history(
    {},
    // Later than the look at the load balancer that follows the nodes' joining.
    [129, failing("/virtualMachine", 2)],
    [130, { kind: "retireNode", pick: 1 }],
  ),
  "an internal Service is the first one while a VM is stopped": history(
    {},
    [60, { kind: "stopNode", pick: 1, forMs: 120_000 }],
    [90, create(2, "azure-load-balancer-internal")],
  ),
  "an instance is refused after a slow write of its scale set": history(
    { nodes: 1, operationPolls: 21, eventfulMinutes: 11, convergeMinutes: 20 },
    [120, { kind: "refuseWrites", pick: pickOf(rowWith(refusals, "OperationNotAllowed"), [1, 12, 11]) }],
  ),
  "a Service moves to the internal load balancer during a slow write of the scale set": history(
    { operationPolls: 25, convergeMinutes: 12 },
    [150, change(0, 2, "azure-load-balancer-internal")],
  ),
  "a Service takes the name of one with a slow write": history(
    { operationPolls: 25, convergeMinutes: 12 },
    [118, change(0, 2, "tcp-443")],
    [119, forceDelete(0, 2)],
  ),
  // It goes before it is synced, and has no finalizer yet: only its predecessor is cleaned up.
  "a Service takes the name of one with a slow write, and goes": history(
    { operationPolls: 25, convergeMinutes: 12 },
    [130, change(0, 2, "azure-pip-tags")],
    [131, forceDelete(0, 2)],
    [240, { kind: "deleteService", pick: 0 }],
  ),
  // Its security rules are planned when the public IP is written.
  "a change is taken back during a slow write of a public IP": history(
    { services: 1, eventfulMinutes: 10, convergeMinutes: 8 },
    [50, change(0, 1, ranged)],
    [130, { kind: "prolongOperation", pick: pickOf(rowWith(operations, "/publicIPAddresses/")), forMs: 3_300_000 }],
    [131, change(0, 1, "azure-pip-tags")],
    [135, change(0, 1, ranged)],
  ),
  "a quota refuses a new load balancer": history(
    { cluster: "several load balancers", nodes: 2, services: 1, eventfulMinutes: 9 },
    [60, { kind: "reachQuota", pick: pickOf(rowWith(quotas, "rulesPerLoadBalancer")), forMs: 95_000 }],
    [70, create(1, "tcp-443")],
  ),
  "two writes in a row lose to others": history(
    { convergeMinutes: 3 },
    [130, weather("azure", "overtaken", 0.6)],
    [130.05, change(0, 2, "tcp-443")],
  ),
  "writes of the load balancer are denied": history(
    {},
    [60, { kind: "denyWrites", pick: pickOf(rowWith(denials, "/loadBalancers/")), forMs: 20_000 }],
    [61, change(0, 2, "tcp-443")],
  ),
  // It fails once more shortly before it is due, and would be tried again five minutes after that.
  "a Service that has failed often changes shortly before its next attempt": history(
    { services: 1, convergeMinutes: 3 },
    [129, { kind: "denyWrites", pick: pickOf(rowWith(denials, "/loadBalancers/")), forMs: 79_250 }],
    [130, change(0, 1, "tcp-443")],
    [445, change(0, 1, "ClientIP")],
  ),
  "others add a route that the cache lacks": history(
    {},
    [60, { kind: "foreignRoute", pick: 1 }],
    [61, { kind: "joinNodes", pick: 0 }],
  ),
};
