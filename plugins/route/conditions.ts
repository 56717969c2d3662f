import { type ConditionState, type Node, type NodeWriter, updateCondition } from "cloud-controller-host/sdk";

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
  await updateCondition({ client, clock }, node.metadata?.name ?? "", state, signal);
}
