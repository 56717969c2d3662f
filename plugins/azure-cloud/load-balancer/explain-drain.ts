import type { LoadBalancer } from "@azure/arm-network";
import { type Explanation, type Fact, type Node, type Service, timestamp } from "cloud-controller-host/sdk";

import { noDrain, readDrain } from "./model/drain.ts";
import type { PlannerConfig } from "./model/planner-config.ts";
import { drainingIn } from "./plan/balancer/drain-places.ts";
import { nodeName } from "./plan/draft/nodes.ts";

/** The cluster beside Azure. */
export interface ClusterView {
  readonly nodes: readonly Node[];
  readonly services: readonly Service[];
  readonly nowMs: number;
}

/** Why a node leaves its backend pools, and until when it is drained; nothing for a node that does not. */
export function explainDrain(
  node: Node,
  loadBalancers: readonly LoadBalancer[],
  { config, nodes, services, nowMs }: ClusterView & { readonly config: PlannerConfig },
): readonly Explanation[] {
  const drain = readDrain(node, nowMs, config.drainRecord);
  if (drain?.cause === undefined) return [];
  const title = `drain of ${nodeName(node)}`;
  const cause: Fact = { name: "cause", value: drain.cause };
  if (config.pools === "interfaces") return [{ title, facts: [cause, { name: "advice", value: noDrain }] }];
  const drains = new Map([[nodeName(node), drain]]);
  const { addresses } = drainingIn({ drains, loadBalancers, nodes, services }, config);
  const places = [...addresses.values()].map(({ place }) => place);
  const drainMs = Math.max(0, ...places.map((place) => place.drainMs));
  const state = (): string => {
    if (places.length === 0) return "it is in no backend pool of the cluster";
    if (drainMs === 0) return "no drain time is configured: it leaves in one step";
    if (places.every(({ hasOthers }) => !hasOthers))
      return "it keeps getting connections: all other members leave as well";
    if (drain.record !== "down") return "waiting until Azure shows all of its addresses as down";
    return `no new connections since ${timestamp(nowMs - drain.elapsedMs)}; it is removed at ${timestamp(nowMs - drain.elapsedMs + drainMs)}`;
  };
  return [{ title, facts: [cause, { name: "state", value: state() }] }];
}
