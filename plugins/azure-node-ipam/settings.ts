import {
  addressBits,
  type CIDR,
  cidrsOverlap,
  CodedError,
  type ComponentConfig,
  type Logger,
  parseCIDR,
  parseClusterCIDRs,
} from "cloud-controller-host/sdk";

import { widestSpread } from "./cidrset/cidr-set.ts";

export type AllocatorType = "RangeAllocator" | "CloudAllocator";

/** The flags, parsed and checked. */
export interface IpamSettings {
  readonly type: AllocatorType;
  /** One CIDR, or one per family. */
  readonly clusters: readonly CIDR[];
  /** Prefix lengths of the nodes' CIDRs, one per cluster CIDR. */
  readonly masks: readonly number[];
  readonly services: readonly CIDR[];
  readonly configureCloudRoutes: boolean;
}

/**
 * Parses the flags. Throws where the Go binary would not start either, in its words; an invalid service range is only a
 * warning, as there.
 */
export function readSettings(config: ComponentConfig, log: Logger): IpamSettings {
  const { clusterCIDR, cidrAllocatorType, configureCloudRoutes } = config.kubeCloudShared;
  const type = allocatorType(cidrAllocatorType);
  const clusters = parseClusterCIDRs(clusterCIDR, {
    hint: "--cluster-cidr",
    tooMany: (count, max) => `len of clusters is:${count} > more than max allowed of ${max} (--cluster-cidr)`,
  });
  const { nodeCIDRMaskSizeIPv4: ipv4, nodeCIDRMaskSizeIPv6: ipv6 } = config.nodeIPAMController;
  const masks = clusters.map(({ family }) => ({ ipv4, ipv6 })[family]);
  if (type === "RangeAllocator")
    for (const [index, cluster] of clusters.entries()) checkMask(cluster, masks[index] ?? 0);
  const services = parseServices(config.nodeIPAMController.serviceClusterIPRange, log);
  warnOfCovered(clusters, services, log);
  return { type, clusters, masks, services, configureCloudRoutes };
}

function warnOfCovered(clusters: readonly CIDR[], services: readonly CIDR[], log: Logger): void {
  for (const cluster of clusters)
    for (const service of services)
      if (service.prefix <= cluster.prefix && cidrsOverlap(service, cluster))
        log.warn("The service range leaves nothing of the cluster CIDR for nodes", {
          "--service-cluster-ip-range": service.text,
          "--cluster-cidr": cluster.text,
        });
}

function allocatorType(word: string): AllocatorType {
  if (word === "RangeAllocator" || word === "CloudAllocator") return word;
  throw new CodedError(
    "InvalidAllocatorType",
    `invalid CIDR allocator type: ${word} (--cidr-allocator-type is RangeAllocator or CloudAllocator)`,
  );
}

function checkMask({ family, prefix, text }: CIDR, mask: number): void {
  const flag = `--node-cidr-mask-size-${family}`;
  const refuse = (why: string): never => {
    throw new CodedError("InvalidNodeMask", `new CIDR set failed; ${why}`);
  };
  if (mask < prefix) refuse(`${flag} is ${mask}, but --cluster-cidr ${text} is smaller than one such block`);
  if (mask > addressBits[family]) refuse(`${flag} is ${mask}, but an address has only ${addressBits[family]} bits`);
  if (mask - prefix > widestSpread[family])
    refuse(
      `the node CIDR size is too big: ${flag} is ${mask}, and with --cluster-cidr ${text} it may be at most ${prefix + widestSpread[family]}`,
    );
}

function parseServices(flag: string, log: Logger): readonly CIDR[] {
  const services = flag
    .split(",")
    .map((text) => text.trim())
    .filter((text) => text !== "")
    .flatMap((text) => {
      try {
        return [parseCIDR(text, { strict: true })];
      } catch (error) {
        log.warn("Invalid service range; it is not excluded from allocation", {
          flag: "--service-cluster-ip-range",
          error,
        });
        return [];
      }
    });
  const [primary, secondary] = services;
  if (primary !== undefined && secondary !== undefined && primary.family === secondary.family)
    throw new CodedError(
      "InvalidServiceCIDR",
      "serviceCIDR and secondaryServiceCIDR are not dualstack (from different IPfamiles)",
    );
  return services;
}
