import {
  ApiError,
  type Clock,
  isNotFound,
  kinds,
  type KubeClient,
  type Node,
  retryOnConflict,
} from "cloud-controller-host/sdk";

/** What became of a write. */
export type WriteOutcome =
  /** `node` is the answer: it shows what the node has now. */
  | { readonly result: "written"; readonly node: Node }
  /** There is no such node any more. */
  | { readonly result: "gone" }
  /** The API server has said no; nothing was written. */
  | { readonly result: "refused"; readonly error: unknown }
  /** Whether it was written can only be told by reading the node. */
  | { readonly result: "unknown"; readonly error: unknown };

const tries = 3;

/**
 * Gives a node its CIDRs, in up to three tries back to back: the same write repeated changes nothing. A try that has
 * begun is not cut off, but none is begun once the signal has aborted. Never rejects.
 */
export async function writePodCidrs(
  client: KubeClient,
  name: string,
  cidrs: readonly string[],
  signal: AbortSignal,
): Promise<WriteOutcome> {
  const body = { spec: { podCIDR: cidrs[0] ?? "", podCIDRs: cidrs } };
  let result: "refused" | "unknown" = "refused";
  let error: unknown;
  for (let count = 0; count < tries; count++) {
    if (count > 0 && signal.aborted) break;
    try {
      return { result: "written", node: await client.patch(kinds.Node, { name }, "strategic", body) };
    } catch (thrown) {
      if (isNotFound(thrown)) return { result: "gone" };
      error = thrown;
      if (!isRefusal(thrown)) result = "unknown";
    }
  }
  return { result, error };
}

/** An answer of the 400s is the API server's own no. Any other failure may have come after the write. */
const isRefusal = (error: unknown): boolean =>
  error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 408;

const conflictRetry = { steps: 5, pauseMs: 100 };

export const networkUnavailable = "NetworkUnavailable";

/** Says that the node's network is there: that is so once it has its CIDRs and no routes are made for them. */
export async function writeNetworkAvailable(
  { client, clock }: { readonly client: KubeClient; readonly clock: Clock },
  name: string,
  signal: AbortSignal,
): Promise<void> {
  try {
    await retryOnConflict({ clock, signal, ...conflictRetry }, async () => {
      const at = new Date(clock.now()).toISOString().replace(/\.\d+Z$/, "Z");
      const condition = {
        type: networkUnavailable,
        status: "False",
        lastHeartbeatTime: at,
        lastTransitionTime: at,
        reason: "RouteCreated",
        message: "NodeController create implicit route",
      };
      const body = { status: { conditions: [condition] } };
      await client.patch(kinds.Node, { name }, "strategic", body, { subresource: "status" });
    });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}
