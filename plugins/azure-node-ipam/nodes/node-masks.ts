import { type IPFamily, keyOf, type Logger, messageOf, type Node, type NodeMasks } from "cloud-controller-host/sdk";

/** Used when the cloud returns no size. */
export const standardMasks: Readonly<Record<IPFamily, number>> = { ipv4: 24, ipv6: 64 };

/** Failed attempts before the standard sizes are used: a node keeps its CIDRs for life. */
const maxFailures = 8;

/**
 * Reads the prefix lengths of a node's CIDRs from the cloud. Standard sizes replace what it leaves out (0), and
 * everything after too many failures. Rejects while another attempt is due.
 */
export async function lookUpMasks(
  { nodeMasks, log }: { readonly nodeMasks: NodeMasks; readonly log: Logger },
  node: Node,
  failures: number,
  signal: AbortSignal,
): Promise<Readonly<Record<IPFamily, number>>> {
  try {
    const { ipv4, ipv6 } = await nodeMasks.nodeMasks(node, { signal });
    return { ipv4: ipv4 || standardMasks.ipv4, ipv6: ipv6 || standardMasks.ipv6 };
  } catch (error) {
    if (signal.aborted || failures < maxFailures) throw error;
    log.warn("Failed to read the node's subnet mask sizes from the cloud; using the standard sizes", {
      node: keyOf(node),
      ...standardMasks,
      error: messageOf(error),
    });
    return standardMasks;
  }
}
