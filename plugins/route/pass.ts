import {
  type Clock,
  CodedError,
  type Counter,
  forEachConcurrently,
  keyOf,
  type KubeClient,
  messageOf,
  type Node,
  type Store,
} from "cloud-controller-host/sdk";

import { type Applied, type ApplyParts, applyPlan } from "./apply.ts";
import type { AddressRange } from "./cidr.ts";
import { updateNetworkingCondition } from "./conditions.ts";
import { planRoutes, type RoutePlan } from "./plan.ts";

export interface PassParts extends ApplyParts {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly nodes: Store<Node>;
  readonly clusterCIDRs: readonly AddressRange[];
  readonly passes: Counter;
  /** Whether the node, as it is seen, has been told that it is routed: the watch may be slow to show that. */
  readonly written: WeakMap<Node, boolean>;
}

const concurrentConditions = 50;

/**
 * Brings the cloud's routes in line with the nodes' pod CIDRs, and tells each node how it stands. Rejects when
 * anything failed, after everything was tried.
 */
export async function reconcileRoutes(parts: PassParts, signal: AbortSignal): Promise<void> {
  parts.passes.inc();
  const routes = await parts.routes.listRoutes(parts.clusterName, { signal }).catch((error: unknown) => {
    throw new CodedError("RoutesNotListed", `error listing routes: ${messageOf(error)}`, { cause: error });
  });
  const plan = planRoutes(parts.nodes.list(), routes, parts.clusterCIDRs);
  const applied = await applyPlan(parts, plan, signal);
  const problems = [...applied.problems, ...(await tellNodes(parts, plan, applied, signal))];
  if (problems.length > 0) throw new CodedError("RoutesIncomplete", summary(problems));
}

async function tellNodes(
  parts: PassParts,
  plan: RoutePlan,
  { missing }: Applied,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const problems: string[] = [];
  const unrouted = new Set([...missing].map(({ node }) => node));
  await forEachConcurrently({ workers: concurrentConditions, signal }, plan.nodes, async ({ node, cidrs }) => {
    // The pass may have taken a minute: the condition is compared with the node of now, if it still is that node.
    const current = parts.nodes.get(keyOf(node));
    if (current?.metadata?.uid !== node.metadata?.uid || current === undefined) return;
    const routed = cidrs.length > 0 && !unrouted.has(node);
    if (parts.written.get(current) === routed) return;
    try {
      await updateNetworkingCondition({ ...parts, signal }, current, routed);
      parts.written.set(current, routed);
    } catch (error) {
      problems.push(`could not update the condition of node ${keyOf(node)}: ${messageOf(error)}`);
    }
  });
  return problems;
}

const mostNamed = 3;

/** One line, however many nodes are concerned: each has its event. */
function summary(problems: readonly string[]): string {
  const more = problems.length > mostNamed ? [`and ${problems.length - mostNamed} more`] : [];
  return [...problems.slice(0, mostNamed), ...more].join("; ");
}
