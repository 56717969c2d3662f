import { ways } from "../actions/elsewhere.ts";
import { denials, refusals } from "../actions/network.ts";
import type { Action, History } from "../history.ts";
import { change, create, history, pickOf, rowWith } from "./history.ts";

/** Something with the first Service of a kind. */
const elsewhere = (way: keyof typeof ways, more: Partial<Action> = {}) => ({
  kind: "serveElsewhere" as const,
  pick: pickOf([1, Object.keys(ways).length, Object.keys(ways).indexOf(way)]),
  ...more,
});

/** The security group has rules for an internal Service that allows some ranges. */
const ranged = ['"azure-load-balancer-internal":"true"}}', "azure-allowed-ip-ranges"] as const;
const denied = (path: string) => ({ kind: "denyWrites", pick: pickOf(rowWith(denials, path)), forMs: 15_000 }) as const;

/** Of Services that another controller serves. */
export const elsewhereHistories: Readonly<Record<string, History>> = {
  "Services of another controller come": history(
    { nodes: 1, operationPolls: 21, eventfulMinutes: 11, convergeMinutes: 20 },
    [50, elsewhere("createOfClass")],
    [51, elsewhere("createMarked")],
    [120, { kind: "refuseWrites", pick: pickOf(rowWith(refusals, "OperationNotAllowed"), [1, 12, 11]) }],
  ),
  "a Service goes to another controller while no process runs": history(
    {},
    [60, elsewhere("createMarked")],
    [100, { kind: "killHost" }],
    [100.5, elsewhere("giveAway")],
  ),
  "a Service of a shared security group that gave up floating IP is deleted": history(
    {},
    [60, elsewhere("createMarked")],
    [61, change(0, 3, "disable-load-balancer-floating-ip")],
    [100, { kind: "deleteService", pick: 0 }],
  ),
  // Nothing but the frontend and the rules has its address once the API server has cleared its status.
  "a Service of a shared security group changes its type while that cannot be written": history(
    {},
    [45, change(0, 2, ...ranged)],
    [46, change(1, 2, ranged[0])],
    [60, elsewhere("createMarked")],
    [129, denied("/networkSecurityGroups/")],
    [130, { kind: "flipService", pick: 0 }],
    [150, { kind: "killHost" }],
  ),
  // Another one keeps the internal load balancer.
  "a Service of a shared security group moves before it shows its address": history(
    { operationPolls: 8 },
    [45, change(0, 2, ranged[0])],
    [60, elsewhere("createMarked")],
    [130, create(3, ...ranged)],
    [150, change(3, 4)],
  ),
  "a Service of a shared security group gives up an address that it has not got": history(
    {},
    [60, elsewhere("createMarked")],
    [129, denied("/loadBalancers/")],
    [130, create(3, '"azure-load-balancer-ipv4"', ranged[1])],
    [150, { kind: "killHost" }],
    [151, change(3, 4)],
  ),
  "a VM behind a Service without floating IP goes": history(
    {},
    [60, elsewhere("createMarked")],
    [61, change(0, 3, "disable-load-balancer-floating-ip")],
    [100, { kind: "loseNode", pick: 1 }],
  ),
};
