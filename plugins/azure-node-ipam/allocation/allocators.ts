import {
  addressBits,
  type CIDR,
  type Clock,
  type Cloud,
  CodedError,
  type ConditionState,
  type ErrorCode,
  type IPFamily,
  keyOf,
  type KubeClient,
  type Logger,
  messageOf,
  type Node,
  type NodeMasks,
  updateCondition,
} from "cloud-controller-host/sdk";

import { widestSpread } from "../cidrset/cidr-set.ts";
import { isWrittenByUs } from "../nodes/pod-cidrs-writers.ts";
import type { IpamSettings } from "../settings.ts";

/** Error code: a CIDR of the size that the cloud requests cannot be cut from the cluster CIDR. */
export const invalidNodeMask: ErrorCode = "InvalidNodeMask";

/** The differences between the two kinds of allocation. */
export interface CidrAllocator {
  /** Initial prefix lengths of the blocks, one per cluster CIDR. */
  readonly masks: readonly number[];
  /** True when enough is known about the node to allocate CIDRs for it. */
  isReady(node: Node): boolean;
  /**
   * Prefix lengths of this node's CIDRs, one per cluster CIDR; undefined for a block of each. Rejects when they cannot
   * be read or cannot be met. `failures` is the number of failed attempts so far.
   */
  prefixesFor(node: Node, failures: number, signal: AbortSignal): Promise<readonly number[] | undefined>;
  /** CIDRs are about to be written to the node. */
  begin(name: string): void;
  /** The node already has its CIDRs. True when a predecessor may have been killed before it wrote the condition. */
  takeUp(node: Node): boolean;
  /** The node has its CIDRs: writes its condition if they are ours. */
  finish(node: Node, signal: AbortSignal): Promise<void>;
  /** The node is gone, or has the CIDRs of another writer. */
  forget(name: string): void;
}

interface AllocatorParts {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The allocator that the flags ask for. Throws when the cloud cannot be under it. */
export function chooseAllocator(parts: AllocatorParts, settings: IpamSettings, cloud: Cloud): CidrAllocator {
  if (settings.type === "RangeAllocator") return rangeAllocator(settings);
  if (cloud.nodeMasks === undefined)
    throw new CodedError(
      "NoNodeMasks",
      `cloudCIDRAllocator does not support ${cloud.name} provider; use --cidr-allocator-type=RangeAllocator`,
    );
  const routed = settings.configureCloudRoutes && cloud.routes !== undefined;
  return cloudAllocator(parts, settings, cloud.nodeMasks, routed ? undefined : networkAvailable);
}

/** Every node gets a block of the size that the flags set. */
const rangeAllocator = ({ masks }: IpamSettings): CidrAllocator => ({
  masks,
  isReady: () => true,
  prefixesFor: async () => undefined,
  begin: () => undefined,
  takeUp: () => false,
  finish: async () => undefined,
  forget: () => undefined,
});

/** Source: cloud-provider-azure `cloud_cidr_allocator.go`. */
const networkAvailable: ConditionState = {
  type: "NetworkUnavailable",
  status: "False",
  reason: "RouteCreated",
  message: "NodeController create implicit route",
};

/**
 * Every node gets CIDRs of the sizes that the cloud returns; the blocks are as small as the smallest of them. Without
 * cloud routes the node's network is available once it has its CIDRs, and `condition` reports that. With them it is
 * available when its routes exist, which the route controller reports: `condition` is undefined.
 */
function cloudAllocator(
  parts: AllocatorParts,
  { clusters }: IpamSettings,
  nodeMasks: NodeMasks,
  condition: ConditionState | undefined,
): CidrAllocator {
  /** Nodes whose condition is to be written once they have their CIDRs. */
  const owed = new Set<string>();
  return {
    masks: clusters.map(firstMask),
    isReady: ({ spec }) => Boolean(spec?.providerID),
    async prefixesFor(node, failures, signal) {
      const masks = await lookUpMasks({ nodeMasks, log: parts.log }, node, failures, signal);
      return clusters.map((cluster) => checked(cluster, masks[cluster.family], keyOf(node)));
    },
    begin(name) {
      if (condition !== undefined) owed.add(name);
    },
    takeUp(node) {
      if (condition === undefined || conditionOf(node) !== undefined || !isWrittenByUs(node)) return false;
      owed.add(keyOf(node));
      return true;
    },
    async finish(node, signal) {
      const name = keyOf(node);
      if (condition === undefined || !owed.has(name)) return;
      if (conditionOf(node)?.status !== "False") await updateCondition(parts, node, condition, signal);
      owed.delete(name);
    },
    forget: (name) => void owed.delete(name),
  };
}

const conditionOf = ({ status }: Node) => status?.conditions?.find(({ type }) => type === networkAvailable.type);

const firstMask = ({ family, prefix }: CIDR): number =>
  Math.min(Math.max(standardMasks[family], prefix), prefix + widestSpread[family]);

function checked({ family, prefix, text }: CIDR, mask: number, node: string): number {
  const refuse = (why: string): never => {
    throw new CodedError(
      invalidNodeMask,
      `updateNodeSubnetMaskSizes: invalid ${family} mask size ${mask} of node ${node} because ${why}`,
    );
  };
  if (mask < prefix) refuse(`it is out of the range of the cluster CIDR with the mask size ${prefix}`);
  if (mask > addressBits[family]) refuse(`an address has only ${addressBits[family]} bits`);
  if (mask - prefix > widestSpread[family])
    refuse(`it is more than ${widestSpread[family]} longer than the prefix of cluster cidr ${text}`);
  return mask;
}

/** Used when the cloud returns no size. */
const standardMasks: Readonly<Record<IPFamily, number>> = { ipv4: 24, ipv6: 64 };

/** Failed attempts before the standard sizes are used: a node keeps its CIDRs for life. */
const maxFailures = 8;

/**
 * Reads the prefix lengths of a node's CIDRs from the cloud. Standard sizes replace what it leaves out (0), and
 * everything after too many failures. Rejects while another attempt is due.
 */
async function lookUpMasks(
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
