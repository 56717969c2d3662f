import type { Node, Service } from "cloud-controller-host/sdk";

import { familyOf, RangeSet } from "../model/addresses.ts";
import type { Observed } from "../model/model.ts";
import { oncePer } from "../model/once-per.ts";
import { fullKey } from "../service/annotation-rows.ts";
import { annotations } from "../service/annotations.ts";
import { some } from "../service/readers.ts";
import type { Subject } from "../service/subject.ts";

/**
 * Additional addresses that are the cluster's own. A Service with the address of a node, a Pod or another Service in its
 * status would draw the cluster's traffic to it (CVE-2020-8554).
 */
export function ownAddressProblems({ additionalAddresses }: Subject, observed: Observed): readonly string[] {
  if (additionalAddresses.length === 0) return [];
  const ranges = rangesOf(observed);
  const own = additionalAddresses.filter((address) => ranges.has(address));
  return own.length === 0
    ? []
    : [`annotation ${fullKey(annotations.additionalPublicIPs)}: ${some(own)}: addresses of the cluster are refused`];
}

/** Addresses and ranges of the cluster. */
const rangesOf = oncePer(({ nodes, services }: Observed): RangeSet => {
  const ranges = new RangeSet();
  for (const node of nodes) for (const range of ofNode(node)) ranges.add(range);
  for (const service of services) for (const range of ofService(service)) ranges.add(range);
  return ranges;
});

const ofNode = ({ spec, status }: Node): readonly string[] => [
  ...(spec?.podCIDRs ?? (spec?.podCIDR === undefined ? [] : [spec.podCIDR])),
  ...(status?.addresses ?? []).map(({ address }) => single(address)),
];

const ofService = ({ spec }: Service): readonly string[] => (spec?.clusterIPs ?? []).map(single);

/** An address as a range; text that is not an address is not a range either. */
const single = (address: string): string => `${address}/${familyOf(address) === "IPv4" ? 32 : 128}`;
