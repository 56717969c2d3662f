import { ways } from "../actions/second.ts";
import type { Action, History } from "../history.ts";
import { change, create, history, pickOf } from "./history.ts";
import { failing } from "./nodes.ts";

/** Something with a Service of a kind, by number. */
function second(way: keyof typeof ways, index = 0, of = 1, more: Partial<Action> = {}) {
  const names = Object.keys(ways);
  const pick = pickOf([1, names.length, names.indexOf(way)], [names.length, of, index]);
  return { kind: "serveSecond" as const, pick, ...more };
}

/** Of two deployments; the second has host 1. */
export const secondHistories: Readonly<Record<string, History>> = {
  "a Service loses the mark of a paused deployment, and another one starts": history(
    { second: { pair: "class", hosts: 1 }, services: 1 },
    [99, { kind: "pauseHost", host: 1, forMs: 60_000 }],
    [100, { kind: "killHost" }],
    [101, second("stripMark")],
  ),
  // Paused for longer than its lease lasts, it would renew that before its watches tell what has happened.
  "a Service goes to the other deployment while its own one is paused": history(
    { seed: 3, cluster: "node IPs", second: { pair: "shard of a label", hosts: 1 }, services: 4 },
    [60, { kind: "pauseAtWrite", pick: 1, forMs: 60_000 }],
    [60.1, change(2, 4, "tcp-443")],
    [62, second("move", 0, 4)],
  ),
  "a Service loses its mark": history({ second: { pair: "label", hosts: 1 }, services: 1 }, [60, second("stripMark")]),
  "a Service goes to the other deployment during a slow write": history(
    { second: { pair: "label", hosts: 1 }, services: 1, operationPolls: 20, convergeMinutes: 8 },
    [100, { kind: "changeService", pick: 9 * 7 }],
    [101, second("move")],
  ),
  // The first one has read before that there is none, and Azure lets a creation replace what is there.
  "two deployments create one load balancer": history(
    { second: { pair: "label", hosts: 1 }, services: 0, ignoresIfNoneMatch: true },
    [20, create(2)],
    [30, change(0, 3, '"azure-load-balancer-internal":"true"}}')],
    [60, create(3, '"azure-load-balancer-internal":"true"}}')],
  ),
  // What fails is known to the process alone that is killed. The other deployment would find it with its next look.
  "a Service leaves the load balancer of another deployment, and the write fails": history(
    { second: { pair: "class", hosts: 1 }, services: 1, convergeMinutes: 3 },
    // A public IP of its own could not be deleted before that is written again.
    [50, change(0, 3, "azure-pip-name")],
    [179, failing("/loadBalancers/", 2)],
    [180, change(0, 3, '"azure-load-balancer-internal":"true"}}')],
    [183, { kind: "killHost" }],
  ),
  // The write of the load balancer is in progress, and the change of its type clears the status.
  "a Service becomes internal and changes its type, and its process is killed": history(
    { second: { pair: "label", hosts: 1 }, services: 1, operationPolls: 10, convergeMinutes: 6 },
    [62.1, change(2, 3, '"azure-load-balancer-internal":"true"}}')],
    [62.3, { kind: "flipService", pick: 2 }],
    // What the status showed is known to its process alone.
    [62.4, { kind: "killHost", host: 1 }],
  ),
  // Before its status shows that address.
  "a Service names an additional address, and takes that back after its process was killed": history(
    { second: { pair: "label", hosts: 1 }, services: 1, convergeMinutes: 6 },
    [62, change(2, 3, "azure-additional-public-ips")],
    [62.25, { kind: "killHost", host: 1 }],
    [62.3, change(2, 3)],
  ),
  // The first one begins to lead, and reads the load balancer, while the second one drains a node.
  "two deployments drain a node from one load balancer": history(
    { cluster: "node IPs", second: { pair: "class", hosts: 1 }, services: 3 },
    [70, change(0, 4, "drain-seconds")],
    [82, { kind: "killHost" }],
    [101, { kind: "excludeNode", forMs: 20_000 }],
  ),
  "two deployments add the same instances to a pool": history({
    second: { pair: "class", hosts: 1 },
    services: 1,
    operationPolls: 25,
    convergeMinutes: 8,
  }),
};
