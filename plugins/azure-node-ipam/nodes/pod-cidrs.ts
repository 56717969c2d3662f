import { type CIDR, cidrsOverlap, messageOf, type Node, parseCIDR } from "cloud-controller-host/sdk";

import type { IpamSettings } from "../settings.ts";

export type PodCidrFault = "PodCIDRInvalid" | "PodCIDROutOfRange" | "PodCIDRConflict";

/** A problem with a node's CIDRs, reported as an event. */
export interface PodCidrProblem {
  readonly fault: PodCidrFault;
  readonly message: string;
}

/** A node's CIDRs, parsed. */
export interface PodCidrs {
  /** Valid ones that touch the cluster's range without covering it. */
  readonly cidrs: readonly CIDR[];
  readonly problems: readonly PodCidrProblem[];
}

/** As written in the node; empty while it waits for some. */
export function podCidrTexts({ spec }: Node): readonly string[] {
  if (spec?.podCIDRs !== undefined && spec.podCIDRs.length > 0) return spec.podCIDRs;
  return spec?.podCIDR ? [spec.podCIDR] : [];
}

export const uidOf = (node: Node): string => node.metadata?.uid ?? "";

/** Parses a node's CIDRs. Invalid ones are not an error: one node must not block the others. Pure. */
export function readPodCidrs(node: Node, settings: Pick<IpamSettings, "clusters" | "masks" | "type">): PodCidrs {
  const cidrs: CIDR[] = [];
  const problems: PodCidrProblem[] = [];
  const families = new Set<string>();
  for (const text of podCidrTexts(node)) {
    const cidr = tryParse(text);
    if (typeof cidr === "string") {
      problems.push({ fault: "PodCIDRInvalid", message: `it is ignored: ${cidr}` });
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

function tryParse(text: string): CIDR | string {
  try {
    return parseCIDR(text);
  } catch (error) {
    return messageOf(error);
  }
}

/** A CIDR as large as the whole range was not allocated from it, and counting it would leave nothing for others. */
function placeProblem(
  cidr: CIDR,
  { clusters, masks, type }: Pick<IpamSettings, "clusters" | "masks" | "type">,
): PodCidrProblem | undefined {
  const touched = clusters.findIndex((cluster) => cidrsOverlap(cidr, cluster));
  const cluster = clusters[touched];
  const ranges = clusters.map(({ text }) => text).join(",");
  if (cluster === undefined)
    return { fault: "PodCIDROutOfRange", message: `${cidr.text} is out the range of cluster cidr ${ranges}` };
  const isOneBlock = type === "CloudAllocator" || masks[touched] === cluster.prefix;
  return cidr.prefix > cluster.prefix || (cidr.prefix === cluster.prefix && isOneBlock)
    ? undefined
    : { fault: "PodCIDRInvalid", message: `${cidr.text} is ignored: it covers all of cluster cidr ${cluster.text}` };
}
