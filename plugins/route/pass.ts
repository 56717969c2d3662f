import {
  type Clock,
  CodedError,
  type ConditionState,
  type Counter,
  type ErrorCode,
  forEachConcurrently,
  keyOf,
  type KubeClient,
  messageOf,
  type Node,
  type NodeWriter,
  type Store,
  updateCondition,
} from "cloud-controller-host/sdk";

import { type Applied, type ApplyParts, applyPlan } from "./apply.ts";
import { planRoutes, type RoutePlan } from "./plan.ts";

export interface PassParts extends ApplyParts {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly nodes: Store<Node>;
  readonly passes: Counter;
  /** The condition last written for the node object in the cache: the watch may lag behind the write. */
  readonly written: WeakMap<Node, boolean>;
}

const concurrentConditions = 50;

/** Code of a pass in which only deletions failed: no node is affected. */
export const routesNotDeleted: ErrorCode = "RoutesNotDeleted";

/**
 * Reconciles the cloud's routes with the nodes' pod CIDRs, and updates each node's condition. Resolves to true when it
 * has deleted routes: another pass finds the nodes that need one in their place. Rejects when anything failed, after
 * everything was tried.
 */
export async function reconcileRoutes(parts: PassParts, signal: AbortSignal): Promise<boolean> {
  parts.passes.inc();
  const routes = await parts.routes.listRoutes(parts.clusterName, { signal }).catch((error: unknown) => {
    throw new CodedError("RoutesNotListed", `error listing routes: ${messageOf(error)}`, { cause: error });
  });
  const plan = planRoutes(parts.nodes.list(), routes, parts.clusterCIDRs);
  const applied = await applyPlan(parts, plan, signal);
  const problems = [...applied.problems, ...(await updateConditions(parts, plan, applied, signal))];
  const all = [...applied.undeleted, ...problems];
  if (all.length > 0) throw new CodedError(problems.length > 0 ? "RoutesIncomplete" : routesNotDeleted, summary(all));
  return plan.deletions.length > 0;
}

async function updateConditions(
  parts: PassParts,
  plan: RoutePlan,
  { missing }: Applied,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const problems: string[] = [];
  const unrouted = new Set([...missing].map(({ node }) => node));
  await forEachConcurrently({ workers: concurrentConditions, signal }, plan.nodes, async ({ node, cidrs }) => {
    // The pass may have taken a minute: compare with the current node, unless it was replaced.
    const current = parts.nodes.get(keyOf(node));
    if (current?.metadata?.uid !== node.metadata?.uid || current === undefined) return;
    const routed = cidrs.length > 0 && !unrouted.has(node);
    if (parts.written.get(current) === routed) return;
    try {
      await updateNetworkingCondition({ ...parts, signal }, current, routed);
      parts.written.set(current, routed);
    } catch (error) {
      problems.push(`failed to update networking condition of node ${keyOf(node)}: ${messageOf(error)}`);
    }
  });
  return problems;
}

const maxNamed = 3;

/** One line for any number of nodes: each has its event. */
function summary(problems: readonly string[]): string {
  const more = problems.length > maxNamed ? [`and ${problems.length - maxNamed} more`] : [];
  return [...problems.slice(0, maxNamed), ...more].join("; ");
}

const type = "NetworkUnavailable";

/** Upstream's words. */
const wanted: Readonly<Record<"routed" | "unrouted", ConditionState>> = {
  routed: { type, status: "False", reason: "RouteCreated", message: "RouteController created a route" },
  unrouted: { type, status: "True", reason: "NoRouteCreated", message: "RouteController failed to create a route" },
};

/** Reports whether the node has all its routes. A condition with another reason is overwritten, as by upstream. */
export async function updateNetworkingCondition(
  { client, clock, signal }: NodeWriter & { readonly signal: AbortSignal },
  node: Node,
  routed: boolean,
): Promise<void> {
  const state = wanted[routed ? "routed" : "unrouted"];
  const existing = node.status?.conditions?.find((condition) => condition.type === type);
  if (existing?.status === state.status && existing.reason === state.reason) return;
  await updateCondition({ client, clock }, node, state, signal);
}
