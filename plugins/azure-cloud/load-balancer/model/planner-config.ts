import type { CloudContext } from "cloud-controller-host/sdk";

import { sameName } from "../../arm/resource-id.ts";
import { isStackName } from "../../config/environments.ts";
import type { ConfigKeys } from "../../config/schema.ts";
import { vmTypes } from "../../instances/vm-types.ts";
import { drainRecordOf } from "./drain.ts";
import { withoutInternal } from "./names.ts";
import { parseTags } from "./tags.ts";

type MultipleConfiguration = NonNullable<ConfigKeys["multipleStandardLoadBalancerConfigurations"]>[number];

/** Cloud config of the planner: defaults applied, resource groups lower case, words in their canonical case. */
export interface PlannerConfig {
  readonly clusterName: string;
  readonly location: string;
  readonly extendedLocation: { readonly name: string; readonly type: string } | undefined;
  readonly computeSubscription: string;
  readonly networkSubscription: string;
  readonly resourceGroup: string;
  readonly loadBalancerResourceGroup: string;
  readonly securityGroupResourceGroup: string;
  readonly privateLinkResourceGroup: string;
  readonly virtualNetwork: { readonly resourceGroup: string; readonly name: string };
  readonly subnet: string;
  readonly securityGroup: string;
  readonly sku: "standard" | "basic";
  /** False for the API version of Azure Stack, whose replies lack the property. */
  readonly hasProbeThreshold: boolean;
  /** Service gateway mode, which is not supported. */
  readonly serviceGateway: boolean;
  /** Replaces the cluster's name in load balancer names; empty: not set. Of a shard, its own. */
  readonly loadBalancerName: string;
  /** Ends the names of a shard's load balancers: `-` and the shard, or empty. Undefined where no other shard is. */
  readonly shardSuffix: string | undefined;
  /** Key of the node annotation with the state of a drain. */
  readonly drainRecord: string;
  /** Scale set or availability set whose nodes belong to the cluster's load balancer. */
  readonly primaryVMSet: string;
  readonly pools: "interfaces" | "addresses";
  readonly preConfiguredPools: { readonly internal: boolean; readonly external: boolean };
  /** Load balancers stay when their last Service is deleted. */
  readonly keepsEmpty: boolean;
  readonly excludeControlPlane: boolean;
  readonly disableOutboundSnat: boolean;
  readonly maximumRules: number;
  readonly mutateIPTags: boolean;
  readonly disableAdditionalPublicIPs: boolean;
  /** Drain time of Services without the annotation; 0: nodes leave in one step. */
  readonly drainSeconds: number;
  /** Set in shared probe mode. */
  readonly sharedProbe: { readonly port: number; readonly path: string } | undefined;
  readonly tags: ReadonlyMap<string, string>;
  /** Prefixes of tags to keep; empty: no tag is ever removed. */
  readonly systemTags: readonly string[];
  readonly loadBalancers: readonly MultipleConfiguration[];
}

/** Source: upstream `InitializeCloudFromConfig` and `setLBDefaults`. `keys` have passed `decodeConfig`. */
export function plannerConfig(
  keys: ConfigKeys,
  { clusterName, shard, shards }: Pick<CloudContext, "clusterName" | "shard" | "shards">,
): PlannerConfig {
  const shardSuffix = shard && `-${shard}`;
  const ending = shardSuffix ?? "";
  const resourceGroup = keys.resourceGroup.toLowerCase();
  const group = (name: string): string => name.toLowerCase() || resourceGroup;
  const standard = keys.loadBalancerSku !== "basic";
  const preConfigured = keys.preConfiguredBackendPoolLoadBalancerTypes;
  const extendedType = keys.extendedLocationType || "EdgeZone";
  return {
    clusterName,
    location: keys.location,
    extendedLocation: keys.extendedLocationName ? { name: keys.extendedLocationName, type: extendedType } : undefined,
    computeSubscription: keys.subscriptionId,
    networkSubscription: keys.networkResourceSubscriptionID || keys.subscriptionId,
    resourceGroup,
    loadBalancerResourceGroup: group(keys.loadBalancerResourceGroup),
    securityGroupResourceGroup: group(keys.securityGroupResourceGroup),
    privateLinkResourceGroup: group(keys.privateLinkServiceResourceGroup),
    virtualNetwork: { resourceGroup: group(keys.vnetResourceGroup), name: keys.vnetName },
    subnet: keys.subnetName,
    securityGroup: keys.securityGroupName,
    sku: standard ? "standard" : "basic",
    hasProbeThreshold: !isStackName(keys.cloud) || keys.disableAzureStackCloud,
    serviceGateway: keys.serviceGatewayEnabled,
    loadBalancerName: ending === "" ? keys.loadBalancerName : (keys.loadBalancerName || clusterName) + ending,
    shardSuffix,
    drainRecord: drainRecordOf(shardSuffix, shards),
    primaryVMSet: keys[vmTypes[keys.vmType].primarySetKey],
    pools: keys.loadBalancerBackendPoolConfigurationType === "nodeIPConfiguration" ? "interfaces" : "addresses",
    preConfiguredPools: {
      internal: preConfigured === "internal" || preConfigured === "all",
      external: preConfigured === "external" || preConfigured === "all",
    },
    keepsEmpty: keys.keepEmptyLoadBalancer,
    excludeControlPlane: standard && keys.excludeMasterFromStandardLB,
    disableOutboundSnat: standard && keys.disableOutboundSNAT,
    maximumRules: keys.maximumLoadBalancerRuleCount || 250,
    disableAdditionalPublicIPs: keys.disableAdditionalPublicIPs,
    mutateIPTags: keys.enableIPTagMutationForExistingPublicIP,
    drainSeconds: keys.loadBalancerDrainTimeInSeconds,
    sharedProbe:
      keys.clusterServiceLoadBalancerHealthProbeMode === "shared"
        ? {
            port: keys.clusterServiceSharedLoadBalancerHealthProbePort,
            path: keys.clusterServiceSharedLoadBalancerHealthProbePath,
          }
        : undefined,
    tags: parseTags(keys.tags, keys.tagsMap ?? {}),
    systemTags: keys.systemTags.split(",").flatMap((tag) => (tag.trim() === "" ? [] : [tag.trim()])),
    loadBalancers: standard
      ? (keys.multipleStandardLoadBalancerConfigurations ?? []).map((one) => ({ ...one, name: one.name + ending }))
      : [],
  };
}

/** True for a shard: it has load balancers of its own. */
export const isShard = ({ shardSuffix = "" }: Pick<PlannerConfig, "shardSuffix">): boolean => shardSuffix !== "";

/** True for a load balancer that another shard's Services, or those of no shard, may be on. */
export function isOfAnotherShard(name: string, config: PlannerConfig): boolean {
  return config.shardSuffix !== undefined && !isOwnName(name, config);
}

/**
 * True for a load balancer with the name that another deployment's would have beside this one's: that of no shard, or
 * of another one. One with the ending of this shard may be its own, from before a change of the config.
 */
export function hasNameOfNeighbor(name: string, config: PlannerConfig): boolean {
  const balancer = withoutInternal(name).toLowerCase();
  const ending = (config.shardSuffix ?? "").toLowerCase();
  if (isOwnName(name, config) || (ending !== "" && balancer.endsWith(ending))) return false;
  return ownNames(config).some((one) => {
    const base = one.slice(0, one.length - ending.length).toLowerCase();
    return balancer.startsWith(`${base}-`) || (ending !== "" && balancer === base);
  });
}

const ownNames = (config: PlannerConfig): readonly string[] =>
  config.loadBalancers.length > 0 ? config.loadBalancers.map(({ name }) => name) : [balancerName(config)];

const isOwnName = (name: string, config: PlannerConfig): boolean =>
  ownNames(config).some((one) => sameName(one, withoutInternal(name)));

/** Name of the one load balancer, without several; internal Services have one with a suffix. */
export const balancerName = ({ loadBalancerName, clusterName }: PlannerConfig): string =>
  loadBalancerName || clusterName;
