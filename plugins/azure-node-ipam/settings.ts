import { CodedError, type ComponentConfig, type Logger, messageOf } from "cloud-controller-host/sdk";

import { widestSpread } from "./cidrset/cidr-set.ts";
import { bitsOfFamily, type Cidr, overlap, parseCidr, parseCidrStrictly } from "./cidrset/cidr.ts";

export type AllocatorType = "RangeAllocator" | "CloudAllocator";

/** What the flags say, read and checked. */
export interface IpamSettings {
  readonly type: AllocatorType;
  /** One CIDR, or one of each family. */
  readonly clusters: readonly Cidr[];
  /** Prefix lengths of the nodes' CIDRs, one for each cluster CIDR. */
  readonly masks: readonly number[];
  readonly services: readonly Cidr[];
}

const mostClusters = 2;

/**
 * Reads the flags. Throws what would keep the Go binary from starting too, in its words; a service range that cannot be
 * read is only warned of, as there.
 */
export function readSettings(config: ComponentConfig, log: Logger): IpamSettings {
  const { clusterCIDR, cidrAllocatorType } = config.kubeCloudShared;
  const type = allocatorType(cidrAllocatorType);
  const clusters = parseClusters(clusterCIDR);
  const { nodeCIDRMaskSizeIPv4: ipv4, nodeCIDRMaskSizeIPv6: ipv6 } = config.nodeIPAMController;
  const masks = clusters.map(({ family }) => ({ ipv4, ipv6 })[family]);
  if (type === "RangeAllocator")
    for (const [index, cluster] of clusters.entries()) checkMask(cluster, masks[index] ?? 0);
  const services = parseServices(config.nodeIPAMController.serviceClusterIPRange, log);
  warnOfSwallowed(clusters, services, log);
  return { type, clusters, masks, services };
}

function warnOfSwallowed(clusters: readonly Cidr[], services: readonly Cidr[], log: Logger): void {
  for (const cluster of clusters)
    for (const service of services)
      if (service.prefix <= cluster.prefix && overlap(service, cluster))
        log.warn("a service range leaves nothing of a cluster CIDR for nodes", {
          "--service-cluster-ip-range": service.text,
          "--cluster-cidr": cluster.text,
        });
}

function allocatorType(word: string): AllocatorType {
  if (word === "RangeAllocator" || word === "CloudAllocator") return word;
  throw new CodedError(
    "BadAllocatorType",
    `invalid CIDR allocator type: ${word} (--cidr-allocator-type is RangeAllocator or CloudAllocator)`,
  );
}

function parseClusters(flag: string): readonly Cidr[] {
  const clusters = flag
    .trim()
    .split(",")
    .map((text, index) => {
      try {
        return parseCidr(text);
      } catch (error) {
        throw bad(
          `invalid CIDR[${index}]: ${messageOf(error)} (--cluster-cidr is where nodes get their CIDRs from)`,
          error,
        );
      }
    });
  if (clusters.length > 1 && new Set(clusters.map(({ family }) => family)).size < 2)
    throw bad(
      `len of ClusterCIDRs==${clusters.length} and they are not configured as dual stack (at least one from each IPFamily)`,
    );
  if (clusters.length > mostClusters)
    throw bad(`len of clusters is:${clusters.length} > more than max allowed of ${mostClusters} (--cluster-cidr)`);
  return clusters;
}

const bad = (message: string, cause?: unknown): CodedError =>
  new CodedError("BadClusterCIDR", message, cause === undefined ? {} : { cause });

function checkMask({ family, prefix, text }: Cidr, mask: number): void {
  const flag = `--node-cidr-mask-size-${family}`;
  const refuse = (why: string): never => {
    throw new CodedError("BadNodeMask", `new CIDR set failed; ${why}`);
  };
  if (mask < prefix) refuse(`${flag} is ${mask}, but --cluster-cidr ${text} is smaller than one such block`);
  if (mask > bitsOfFamily[family]) refuse(`${flag} is ${mask}, but an address has only ${bitsOfFamily[family]} bits`);
  if (mask - prefix > widestSpread[family])
    refuse(
      `the node CIDR size is too big: ${flag} is ${mask}, and with --cluster-cidr ${text} it may be at most ${prefix + widestSpread[family]}`,
    );
}

function parseServices(flag: string, log: Logger): readonly Cidr[] {
  const services = flag
    .split(",")
    .map((text) => text.trim())
    .filter((text) => text !== "")
    .flatMap((text) => {
      try {
        return [parseCidrStrictly(text)];
      } catch (error) {
        log.warn("a service range cannot be read, and so is not kept free of nodes", {
          flag: "--service-cluster-ip-range",
          error,
        });
        return [];
      }
    });
  const [primary, secondary] = services;
  if (primary !== undefined && secondary !== undefined && primary.family === secondary.family)
    throw new CodedError(
      "BadServiceCIDR",
      "serviceCIDR and secondaryServiceCIDR are not dualstack (from different IPfamiles)",
    );
  return services;
}
