import { controllerNames } from "cloud-controller-host/sdk";

import type { Options } from "../flags/options.ts";
import { cidrListProblem, nodeMaskSizes, prefixOf, splitCIDRs } from "./cidrs.ts";

/** Requirements of the route controller. In the Go binaries an empty `--cluster-cidr` ends the process at startup. */
export function routeProblems(options: Options): readonly string[] {
  const problem = cidrListProblem(options.clusterCidr);
  return problem === undefined
    ? []
    : [
        `--cluster-cidr ${problem}; ${controllerNames.nodeRoute} requires the Pod CIDR of the cluster: set it, or disable routes with --configure-cloud-routes=false`,
      ];
}

const allocators = { range: "RangeAllocator", cloud: "CloudAllocator" } as const;
const knownAllocators: readonly string[] = Object.values(allocators);

/** Requirements of the node CIDR allocation. */
export function ipamProblems(options: Options): readonly string[] {
  const cidrs = cidrListProblem(options.clusterCidr);
  const type = options.cidrAllocatorType;
  return [
    ...(knownAllocators.includes(type)
      ? []
      : [`--cidr-allocator-type must be ${knownAllocators.join(" or ")}, got "${type}"`]),
    ...(cidrs === undefined
      ? []
      : [
          `--cluster-cidr ${cidrs}; ${controllerNames.nodeIPAM} requires the Pod CIDR of the cluster: set it, or remove --allocate-node-cidrs`,
        ]),
    ...(cidrs === undefined && type === allocators.range ? maskProblems(options) : []),
    ...serviceFamilyProblems(options),
  ];
}

/** Maximum of IPv6 bits between the cluster's and a node's prefix; beyond it the bitmap of blocks grows too large. */
const largestIPv6Spread = 16;

function maskProblems(options: Options): readonly string[] {
  const masks = nodeMaskSizes(options);
  return splitCIDRs(options.clusterCidr).flatMap((cidr) => {
    const prefix = prefixOf(cidr);
    if (prefix === undefined) return [];
    const mask = masks[prefix.family];
    const flag = `--node-cidr-mask-size-${prefix.family}`;
    if (prefix.length > mask)
      return [
        `${flag} is ${mask}, but --cluster-cidr ${cidr} is smaller than one such block; use ${prefix.length} or more`,
      ];
    return prefix.family === "ipv6" && mask - prefix.length > largestIPv6Spread
      ? [
          `${flag} is ${mask}, which is more than ${largestIPv6Spread} bits longer than --cluster-cidr ${cidr}; use ${prefix.length + largestIPv6Spread} or less`,
        ]
      : [];
  });
}

/** Invalid entries only cause a warning when the allocator starts, as upstream. */
function serviceFamilyProblems(options: Options): readonly string[] {
  const families = splitCIDRs(options.serviceClusterIpRange).flatMap((cidr) => prefixOf(cidr)?.family ?? []);
  return families.length === 2 && families[0] === families[1]
    ? [
        `--service-cluster-ip-range "${options.serviceClusterIpRange}" has two CIDRs of the same family; two are allowed only for dual-stack, one IPv4 and one IPv6`,
      ]
    : [];
}

/** Upstream refuses a third entry even if the range is unused. */
export function serviceCidrProblems(options: Options): readonly string[] {
  const count = options.serviceClusterIpRange.split(",").length;
  return count > 2 ? [`--service-cluster-ip-range can not contain more than two entries, got ${count}`] : [];
}
