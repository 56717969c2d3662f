import { messageOf, type Node } from "cloud-controller-host/sdk";

import { type Cidr, overlap, parseCidr } from "../cidrset/cidr.ts";
import type { IpamSettings } from "../settings.ts";

export type PodCidrFault = "PodCIDRInvalid" | "PodCIDROutOfRange" | "PodCIDRConflict";

/** Something about a node's CIDRs that its owner should know. */
export interface PodCidrProblem {
  readonly fault: PodCidrFault;
  readonly message: string;
}

/** What a node says to have, and what can be made of it. */
export interface PodCidrs {
  /** Those that count: they can be read, and touch the cluster's range without swallowing it. */
  readonly cidrs: readonly Cidr[];
  readonly problems: readonly PodCidrProblem[];
}

/** As they stand in the node; none when it waits for some. */
export function podCidrTexts({ spec }: Node): readonly string[] {
  if (spec?.podCIDRs !== undefined && spec.podCIDRs.length > 0) return spec.podCIDRs;
  return spec?.podCIDR ? [spec.podCIDR] : [];
}

export const uidOf = (node: Node): string => node.metadata?.uid ?? "";

/** Reads a node's CIDRs. Nothing in them is an error: one odd node must not stand in the way of the others. Pure. */
export function readPodCidrs(node: Node, settings: Pick<IpamSettings, "clusters" | "masks" | "type">): PodCidrs {
  const cidrs: Cidr[] = [];
  const problems: PodCidrProblem[] = [];
  const families = new Set<string>();
  for (const text of podCidrTexts(node)) {
    const cidr = tryParse(text);
    if (typeof cidr === "string") {
      problems.push({ fault: "PodCIDRInvalid", message: `it is not counted: ${cidr}` });
      continue;
    }
    if (families.has(cidr.family))
      problems.push({ fault: "PodCIDRInvalid", message: `${text} is a second one of the same IP family` });
    families.add(cidr.family);
    const problem = placeProblem(cidr, settings);
    if (problem === undefined) cidrs.push(cidr);
    else problems.push(problem);
  }
  return { cidrs, problems };
}

function tryParse(text: string): Cidr | string {
  try {
    return parseCidr(text);
  } catch (error) {
    return messageOf(error);
  }
}

/** A CIDR as large as all of the range was never given out of it, and to count it would leave nothing for others. */
function placeProblem(
  cidr: Cidr,
  { clusters, masks, type }: Pick<IpamSettings, "clusters" | "masks" | "type">,
): PodCidrProblem | undefined {
  const touched = clusters.findIndex((cluster) => overlap(cidr, cluster));
  const cluster = clusters[touched];
  const ranges = clusters.map(({ text }) => text).join(",");
  if (cluster === undefined)
    return { fault: "PodCIDROutOfRange", message: `${cidr.text} is out the range of cluster cidr ${ranges}` };
  const isOneBlock = type === "CloudAllocator" || masks[touched] === cluster.prefix;
  return cidr.prefix > cluster.prefix || (cidr.prefix === cluster.prefix && isOneBlock)
    ? undefined
    : { fault: "PodCIDRInvalid", message: `${cidr.text} is not counted: it is all of cluster cidr ${cluster.text}` };
}
