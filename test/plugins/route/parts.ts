import { kinds, type Node, type Route, type Routes } from "cloud-controller-host/sdk";
import { type ManualClock, manualClock, type MemoryCloud, memoryCloud } from "cloud-controller-host/sdk/testing";

import { ObjectStore } from "../../../host/kube/informers/store.ts";
import { readClusterCIDRs } from "../../../plugins/route/cluster-cidrs.ts";
import { routeEvents } from "../../../plugins/route/events.ts";
import type { PassParts } from "../../../plugins/route/pass.ts";
import plugin from "../../../plugins/route/plugin.ts";
import { TestCluster } from "../../kit/harness.ts";

/** The parts of one pass on a cluster of its own, with the nodes that the test says were seen. */
export interface Parts extends PassParts, AsyncDisposable {
  readonly cluster: TestCluster;
  readonly memory: MemoryCloud;
  readonly clock: ManualClock;
  readonly nodes: ObjectStore<Node>;
  /** Creates the node, status and all, and lets the controller see it. */
  seen(node: Node): Node;
  /** The conditions that were written, by node, oldest first. */
  conditions(): readonly (readonly [node: string, status: unknown, reason: unknown])[];
  /** The reasons of all events so far, oldest first. */
  reasons(): readonly string[];
}

export async function makeParts(clusterCIDR = "10.120.0.0/16,ace:cab:deca::/8"): Promise<Parts> {
  const cluster = await TestCluster.start();
  const memory = memoryCloud();
  const clock = manualClock();
  const { context } = cluster.generation(plugin, { clock });
  const nodes = new ObjectStore<Node>();
  const reasons: string[] = [];
  return {
    cluster,
    memory,
    clock,
    nodes,
    routes: routesOf(memory),
    clusterName: "my-k8s",
    clusterCIDRs: readClusterCIDRs(clusterCIDR),
    events: routeEvents({
      events: {
        event(subject, type, reason, message) {
          reasons.push(reason);
          context.events.event(subject, type, reason, message);
        },
      },
    }),
    client: context.client,
    log: context.log,
    written: new WeakMap(),
    passes: context.metrics.counter({ name: "route_controller_route_sync_total", help: "passes" }),
    seen(node) {
      const created = cluster.api.create(kinds.Node, node);
      nodes.set(created);
      return created;
    },
    conditions: () => cluster.sent({ method: "PATCH" }).map(({ path, body }) => conditionIn(path, body)),
    reasons: () => reasons,
    [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
  };
}

/** Makes the cloud hold these routes. */
export function hold(memory: MemoryCloud, routes: readonly Route[]): void {
  for (const route of routes) memory.routes.set(route.name, route);
}

/** What a route is for and where it leads, in one line. */
export const lineOf = ({ targetNode, destinationCIDR, targetNodeAddresses = [] }: Route): string =>
  [targetNode, destinationCIDR, ...targetNodeAddresses.map(({ address }) => address)].join(" ");

export const linesOf = (memory: MemoryCloud): readonly string[] => [...memory.routes.values()].map(lineOf).toSorted();

function routesOf({ cloud }: MemoryCloud): Routes {
  if (cloud.routes === undefined) throw new Error("the cloud in memory has routes");
  return cloud.routes;
}

function conditionIn(path: string, body: unknown): readonly [string, unknown, unknown] {
  const [, name = ""] = /^\/api\/v1\/nodes\/([^/]+)\/status$/.exec(path) ?? [];
  const { status, reason } = JSON.parse(JSON.stringify(body)).status.conditions[0];
  return [name, status, reason];
}

export const conditionOf = (cluster: TestCluster, name: string) =>
  cluster.api.get(kinds.Node, { name })?.status?.conditions?.find(({ type }) => type === "NetworkUnavailable");
