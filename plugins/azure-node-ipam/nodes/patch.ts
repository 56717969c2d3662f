import { ApiError, isNotFound, keyOf, kinds, type KubeClient, type Node } from "cloud-controller-host/sdk";

export type WriteOutcome =
  /** `node` is the reply. */
  | { readonly result: "written"; readonly node: Node }
  /** The node no longer exists. */
  | { readonly result: "gone" }
  /** The API server rejected it; nothing was written. */
  | { readonly result: "refused"; readonly error: unknown }
  /** Only a read of the node can show if it was written. */
  | { readonly result: "unknown"; readonly error: unknown };

const maxAttempts = 3;

/**
 * Writes a node's CIDRs, in up to three attempts back to back: repeating the write changes nothing. An attempt in flight
 * is not canceled by the signal, and none starts after it. One that arrives late is refused by another node of that name,
 * as its CIDRs may have been released with this one. Never rejects.
 */
export async function writePodCidrs(
  client: KubeClient,
  node: Node,
  cidrs: readonly string[],
  signal: AbortSignal,
): Promise<WriteOutcome> {
  const name = keyOf(node);
  const body = { metadata: { uid: node.metadata?.uid }, spec: { podCIDR: cidrs[0] ?? "", podCIDRs: cidrs } };
  let result: "refused" | "unknown" = "refused";
  let error: unknown;
  for (let count = 0; count < maxAttempts; count++) {
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

/** A 4xx reply is the API server's rejection. Any other failure, 408 included, may have come after the write. */
const isRefusal = (error: unknown): boolean =>
  error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 408;
