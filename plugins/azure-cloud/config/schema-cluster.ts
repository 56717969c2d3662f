import { Type } from "cloud-controller-host/sdk";

import { choice, exactChoice, flag, orDefault, seconds, text, whole, word } from "./schema-types.ts";

const labelSelector = (description: string) =>
  Type.Optional(
    Type.Object(
      {
        matchLabels: Type.Optional(
          Type.Record(Type.String(), Type.String(), { description: "Labels and their values." }),
        ),
        matchExpressions: Type.Optional(
          Type.Array(
            Type.Object({
              key: text("Label."),
              operator: text("In, NotIn, Exists or DoesNotExist."),
              values: Type.Optional(Type.Array(Type.String(), { description: "Values for In and NotIn." })),
            }),
            { description: "Conditions on labels." },
          ),
        ),
      },
      { description },
    ),
  );

/** A node that is drained for longer has been deleted long since. */
export const maxDrainSeconds = 3600;

/** The location and the names of the cluster's resources. */
export const resourceKeys = {
  cloudConfigType: choice(
    "merge",
    [word("merge"), word("file"), word("secret")],
    "Accepted without effect: the config is read from --cloud-config or, without that flag, from the Secret.",
  ),
  disableCloudProvider: flag(false, "Stop all controllers until a config without it is loaded."),
  resourceGroup: text("Resource group of the cluster."),
  location: text("Region of the cluster."),
  extendedLocationName: text("Edge zone of the cluster, which has no availability zones."),
  extendedLocationType: text("Kind of the extended location: EdgeZone."),
  vnetName: text("Virtual network of the cluster."),
  vnetResourceGroup: text("Resource group of the virtual network; default: resourceGroup."),
  subnetName: text("Subnet of internal load balancers and private link services."),
  securityGroupName: text("Network security group of the nodes."),
  securityGroupResourceGroup: text("Resource group of the security group; default: resourceGroup."),
  routeTableName: text("Route table of the nodes."),
  routeTableResourceGroup: text("Resource group of the route table; default: resourceGroup."),
  loadBalancerResourceGroup: text("Resource group of load balancers; default: resourceGroup."),
  privateLinkServiceResourceGroup: text("Resource group of private link services; default: resourceGroup."),
  tags: text("Tags of created resources, as a=b,c=d. Deprecated: use tagsMap."),
  tagsMap: Type.Optional(
    Type.Record(Type.String(), Type.String(), { description: "Tags of created resources; overrides tags." }),
  ),
  systemTags: text(
    "Comma-separated prefixes of tags to keep. When set, all other tags that are not configured are removed.",
  ),
};

/** The VMs of the nodes. */
export const vmKeys = {
  vmType: choice(
    "vmss",
    [word("vmss"), word("standard"), word("vmssflex")],
    "Kind of the nodes: scale set instances, standalone VMs, or VMs of flexible scale sets.",
  ),
  primaryAvailabilitySetName: text("Availability set whose VMs join the load balancer, for vmType standard."),
  primaryScaleSetName: text("Scale set whose VMs join the load balancer, for vmType vmss and vmssflex."),
  disableAvailabilitySetNodes: flag(false, "All nodes are instances of uniform scale sets. Requires vmType vmss."),
  enableVmssFlexNodes: flag(false, "Some nodes are VMs of flexible scale sets."),
  useInstanceMetadata: flag(
    false,
    "Accepted without effect: the VM of this process is read from Resource Manager like all others.",
  ),
  putVMSSVMBatchSize: whole(0, "Concurrent updates of instances, where the scale set allows batches."),
  nodeInstanceNotFoundGracePeriodInSeconds: seconds(0, "Age below which a node exists although its VM is not found."),
};

/** Load balancers, routes and private links. */
export const featureKeys = {
  loadBalancerSku: choice(
    "standard",
    [word("standard"), word("basic"), word("service")],
    "SKU of load balancers and public IP addresses.",
  ),
  loadBalancerName: text("Name of the load balancer; default: the cluster name."),
  keepEmptyLoadBalancer: flag(
    false,
    "A load balancer stays when its last Service is deleted, with its pools and one frontend without rules: Karpenter creates network interfaces in these pools.",
  ),
  preConfiguredBackendPoolLoadBalancerTypes: exactChoice(
    "",
    [word(""), word("internal"), word("external"), word("all")],
    "Load balancers whose backend pools are managed by another component. Case-sensitive.",
  ),
  excludeMasterFromStandardLB: flag(true, "Control-plane nodes do not join standard load balancers."),
  disableOutboundSNAT: flag(false, "Disable outbound SNAT on load balancing rules. Requires the standard SKU."),
  maximumLoadBalancerRuleCount: whole(250, "Maximum number of rules of a basic load balancer.", orDefault),
  loadBalancerBackendPoolConfigurationType: choice(
    "nodeIPConfiguration",
    [word("nodeIPConfiguration"), word("nodeIP"), word("podIP")],
    "Members of backend pools: network interfaces of nodes, addresses of nodes, or addresses of pods.",
  ),
  enableMigrateToIPBasedBackendPoolAPI: flag(
    false,
    "Accepted without effect: a pool is migrated from interfaces to addresses by detaching the interfaces first.",
  ),
  enableIPTagMutationForExistingPublicIP: flag(false, "Change the IP tags of public IP addresses that exist already."),
  disableAdditionalPublicIPs: flag(
    false,
    "Ignore the annotation azure-additional-public-ips: it lets every author of a Service draw the cluster's traffic to any address.",
  ),
  routeUpdateIntervalInSeconds: seconds(
    30,
    "Accepted without effect: routes are written within a second, many in one request.",
  ),
  loadBalancerBackendPoolUpdateIntervalInSeconds: seconds(
    30,
    "Interval of updates of the backend pools of local Services.",
    orDefault,
  ),
  loadBalancerDrainTimeInSeconds: seconds(
    0,
    `Time from the moment that a node which is about to leave gets no new connections until it is removed from backend pools, at most ${maxDrainSeconds}; 0: removed at once. Requires pool type nodeIP.`,
  ),
  clusterServiceLoadBalancerHealthProbeMode: choice(
    "servicenodeport",
    [word("servicenodeport"), word("shared")],
    "Health probes of Services with externalTrafficPolicy Cluster: one per Service or one shared.",
  ),
  clusterServiceSharedLoadBalancerHealthProbePort: whole(10256, "Port of the shared probe.", orDefault),
  clusterServiceSharedLoadBalancerHealthProbePath: Type.String({
    default: "/healthz",
    description: "Path of the shared probe.",
    ...orDefault,
  }),
  removalGuardMaxRemovals: whole(
    10,
    "So many frontends, rules, pool members, public IP addresses or routes of a resource may go without a cause; see removalGuardMaxPercent.",
  ),
  removalGuardMaxPercent: whole(
    20,
    "Removals without a cause are held when they are more than this share of a resource and more than removalGuardMaxRemovals. 100 turns the guard off.",
  ),
  removalGuardWindowInSeconds: seconds(600, "Time within which removals without a cause are counted together."),
  serviceGatewayEnabled: flag(false, "Service gateway mode. Requires pool type podIP and SKU service."),
  multipleStandardLoadBalancerConfigurations: Type.Optional(
    Type.Array(
      Type.Object({
        name: text("Name of the load balancer; unique."),
        primaryVMSet: text("VM set whose nodes always belong to this load balancer; unique."),
        allowServicePlacement: flag(true, "Allow new Services on this load balancer."),
        serviceLabelSelector: labelSelector("Selects the Services that may be placed here, by label."),
        serviceNamespaceSelector: labelSelector(
          "Selects the Services that may be placed here, by the labels of their namespace.",
        ),
        nodeSelector: labelSelector("Selects the nodes that are placed here first."),
        activeServices: Type.Optional(Type.Unknown({ description: "Status field. Ignored." })),
        activeNodes: Type.Optional(Type.Unknown({ description: "Status field. Ignored." })),
      }),
      { description: "Several standard load balancers for one cluster." },
    ),
  ),
};
