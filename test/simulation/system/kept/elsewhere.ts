import { ways } from "../actions/elsewhere.ts";
import { refusals } from "../actions/network.ts";
import type { Action, History } from "../history.ts";
import { change, history, pickOf, rowWith } from "./history.ts";

/** Something with the first Service of a kind. */
const elsewhere = (way: keyof typeof ways, more: Partial<Action> = {}) => ({
  kind: "serveElsewhere" as const,
  pick: pickOf([1, Object.keys(ways).length, Object.keys(ways).indexOf(way)]),
  ...more,
});

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
  "a VM behind a Service without floating IP goes": history(
    {},
    [60, elsewhere("createMarked")],
    [61, change(0, 3, "disable-load-balancer-floating-ip")],
    [100, { kind: "loseNode", pick: 1 }],
  ),
};
