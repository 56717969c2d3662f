import { keyOf, type Logger, messageOf, type Node, type NodeMasks } from "cloud-controller-host/sdk";

import type { Family } from "../cidrset/cidr.ts";

/** What counts when the cloud says nothing. */
export const standardMasks: Readonly<Record<Family, number>> = { ipv4: 24, ipv6: 64 };

/** A node keeps its CIDRs for life, so that a cloud which has failed is asked again a few times before it is done without. */
const patience = 8;

/**
 * Asks the cloud how long the prefixes of a node's CIDRs are to be. What it leaves out (0), and all of it when it has
 * failed too often, is as is usual. Rejects while it is to be asked again.
 */
export async function lookUpMasks(
  { nodeMasks, log }: { readonly nodeMasks: NodeMasks; readonly log: Logger },
  node: Node,
  failures: number,
  signal: AbortSignal,
): Promise<Readonly<Record<Family, number>>> {
  try {
    const { ipv4, ipv6 } = await nodeMasks.nodeMasks(node, { signal });
    return { ipv4: ipv4 || standardMasks.ipv4, ipv6: ipv6 || standardMasks.ipv6 };
  } catch (error) {
    if (signal.aborted || failures < patience) throw error;
    log.warn("the cloud does not say how large the pod CIDRs of a node are to be; it gets those of the usual size", {
      node: keyOf(node),
      ...standardMasks,
      error: messageOf(error),
    });
    return standardMasks;
  }
}
