import {
  type Clock,
  type Cloud,
  CodedError,
  keyOf,
  type KubeClient,
  type Logger,
  type Node,
  type NodeMasks,
} from "cloud-controller-host/sdk";

import { widestSpread } from "../cidrset/cidr-set.ts";
import { bitsOfFamily, type Cidr } from "../cidrset/cidr.ts";
import { lookUpMasks, standardMasks } from "../nodes/node-masks.ts";
import { networkUnavailable, writeNetworkAvailable } from "../nodes/patch.ts";
import { writersOfPodCidrs } from "../nodes/pod-cidrs-writers.ts";
import type { IpamSettings } from "../settings.ts";

/** The code of an error that says: a CIDR of the size that the cloud wants cannot be cut from the cluster CIDR. */
export const badNodeMask = "BadNodeMask";

/** What the API server calls the writer of CIDRs that are ours: the first word of the user agent. */
const program = "cloud-controller-manager";

/** Where the two kinds of allocation differ. */
export interface CidrAllocator {
  /** Prefix lengths of the blocks at first, one for each cluster CIDR. */
  readonly masks: readonly number[];
  /** Whether enough is known of the node to give it anything. */
  isReady(node: Node): boolean;
  /**
   * How long the prefixes of this node's CIDRs are to be, one for each cluster CIDR; undefined when it gets a block of
   * each. Rejects when that cannot be told or cannot be met. `failures` is how often it has been tried in vain.
   */
  prefixesFor(node: Node, failures: number, signal: AbortSignal): Promise<readonly number[] | undefined>;
  /** CIDRs are about to be written to the node. */
  begin(name: string): void;
  /** The node was found with its CIDRs. True when it may be owed something that a process was killed before it did. */
  takeUp(node: Node): boolean;
  /** The node has its CIDRs: does what is still owed to it, if they are ours. */
  finish(node: Node, signal: AbortSignal): Promise<void>;
  /** The node is gone, or has CIDRs of somebody else. */
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
  return cloudAllocator(parts, settings, cloud.nodeMasks);
}

/** Every node gets a block, as large as the flags say. */
const rangeAllocator = ({ masks }: IpamSettings): CidrAllocator => ({
  masks,
  isReady: () => true,
  prefixesFor: async () => undefined,
  begin: () => undefined,
  takeUp: () => false,
  finish: async () => undefined,
  forget: () => undefined,
});

/** Every node gets CIDRs of the sizes that the cloud says; the blocks are as small as the smallest of them. */
function cloudAllocator(parts: AllocatorParts, { clusters }: IpamSettings, nodeMasks: NodeMasks): CidrAllocator {
  /** Nodes that are to be told, once they have their CIDRs, that their network is there. */
  const owed = new Set<string>();
  return {
    masks: clusters.map(firstMask),
    isReady: ({ spec }) => Boolean(spec?.providerID),
    async prefixesFor(node, failures, signal) {
      const masks = await lookUpMasks({ nodeMasks, log: parts.log }, node, failures, signal);
      return clusters.map((cluster) => checked(cluster, masks[cluster.family], keyOf(node)));
    },
    begin: (name) => void owed.add(name),
    takeUp(node) {
      if (conditionOf(node) !== undefined || !writersOfPodCidrs(node).has(program)) return false;
      owed.add(keyOf(node));
      return true;
    },
    async finish(node, signal) {
      const name = keyOf(node);
      if (!owed.has(name)) return;
      if (conditionOf(node)?.status !== "False") await writeNetworkAvailable(parts, name, signal);
      owed.delete(name);
    },
    forget: (name) => void owed.delete(name),
  };
}

const conditionOf = ({ status }: Node) => status?.conditions?.find(({ type }) => type === networkUnavailable);

const firstMask = ({ family, prefix }: Cidr): number =>
  Math.min(Math.max(standardMasks[family], prefix), prefix + widestSpread[family]);

function checked({ family, prefix, text }: Cidr, mask: number, node: string): number {
  const refuse = (why: string): never => {
    throw new CodedError(
      badNodeMask,
      `updateNodeSubnetMaskSizes: invalid ${family} mask size ${mask} of node ${node} because ${why}`,
    );
  };
  if (mask < prefix) refuse(`it is out of the range of the cluster CIDR with the mask size ${prefix}`);
  if (mask > bitsOfFamily[family]) refuse(`an address has only ${bitsOfFamily[family]} bits`);
  if (mask - prefix > widestSpread[family])
    refuse(`it is more than ${widestSpread[family]} longer than the prefix of cluster cidr ${text}`);
  return mask;
}
