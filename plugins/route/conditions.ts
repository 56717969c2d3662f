import { type Clock, isNotFound, kinds, type KubeClient, type Node, retryOnConflict } from "cloud-controller-host/sdk";

/** What the condition `NetworkUnavailable` says, by whether the node has all its routes. Upstream's words. */
const wanted = {
  routed: { status: "False", reason: "RouteCreated", message: "RouteController created a route" },
  unrouted: { status: "True", reason: "NoRouteCreated", message: "RouteController failed to create a route" },
} as const;

const type = "NetworkUnavailable";
const conflictRetry = { steps: 5, pauseMs: 100 };

/**
 * Tells the cluster whether the node has all its routes. The reason counts as well as the status: a condition that
 * another writer set is overwritten. A deleted node needs none.
 */
export async function updateNetworkingCondition(
  { client, clock, signal }: { readonly client: KubeClient; readonly clock: Clock; readonly signal: AbortSignal },
  node: Node,
  routed: boolean,
): Promise<void> {
  const now = wanted[routed ? "routed" : "unrouted"];
  const existing = node.status?.conditions?.find((condition) => condition.type === type);
  if (existing?.status === now.status && existing.reason === now.reason) return;
  const name = { name: node.metadata?.name ?? "" };
  try {
    await retryOnConflict({ clock, signal, ...conflictRetry }, async () => {
      const at = new Date(clock.now()).toISOString().replace(/\.\d+Z$/, "Z");
      const conditions = [{ type, lastHeartbeatTime: at, lastTransitionTime: at, ...now }];
      await client.patch(kinds.Node, name, "strategic", { status: { conditions } }, { subresource: "status" });
    });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}
