import { Type } from "cloud-controller-host/sdk";

import { choice, flag, seconds, text, whole, word } from "./schema-types.ts";

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

/** Where the cluster's resources are. */
export const placeKeys = {
  cloudConfigType: choice(
    "merge",
    [word("merge"), word("file"), word("secret")],
    "Accepted and not used: the config is read from --cloud-config or, without one, from the Secret.",
  ),
  disableCloudProvider: flag(false, "Stop every controller until a config without it arrives; the host acts on it."),
  resourceGroup: text("Resource group of the cluster."),
  location: text("Region of the cluster."),
  extendedLocationName: text("Edge zone of the cluster; it has no availability zones."),
  extendedLocationType: text("Kind of the extended location: EdgeZone."),
  vnetName: text("Virtual network of the cluster."),
  vnetResourceGroup: text("Resource group of the virtual network; default resourceGroup."),
  subnetName: text("Subnet of internal load balancers and private link services."),
  securityGroupName: text("Network security group of the nodes."),
  securityGroupResourceGroup: text("Resource group of the security group; default resourceGroup."),
  routeTableName: text("Route table of the nodes."),
  routeTableResourceGroup: text("Resource group of the route table; default resourceGroup."),
  loadBalancerResourceGroup: text("Resource group of load balancers; default resourceGroup."),
  privateLinkServiceResourceGroup: text("Resource group of private link services; default resourceGroup."),
  tags: text("Tags of the resources made here, as a=b,c=d. Better: tagsMap."),
  tagsMap: Type.Optional(
    Type.Record(Type.String(), Type.String(), { description: "Tags of the resources made here; laid over tags." }),
  ),
  systemTags: text("Names of tags to keep, separated by commas; when set, tags that are not wanted are removed."),
};

/** The machines behind the nodes. */
export const machineKeys = {
  vmType: choice(
    "vmss",
    [word("vmss"), word("standard"), word("vmssflex")],
    "What nodes are: scale-set instances, single machines, or machines of flexible scale sets.",
  ),
  primaryAvailabilitySetName: text("Availability set whose machines the load balancer takes, for vmType standard."),
  primaryScaleSetName: text("Scale set whose machines the load balancer takes, for vmType vmss and vmssflex."),
  disableAvailabilitySetNodes: flag(false, "Every node is an instance of a uniform scale set; only with vmType vmss."),
  enableVmssFlexNodes: flag(false, "Some nodes are machines of flexible scale sets."),
  useInstanceMetadata: flag(
    false,
    "Accepted and not used: Resource Manager is asked about every machine, this process's own included.",
  ),
  putVMSSVMBatchSize: whole(0, "How many instances of a scale set are updated at once, where the scale set allows it."),
  nodeInstanceNotFoundGracePeriodInSeconds: seconds(
    0,
    "How long after its making a node is taken to exist although its machine cannot be found.",
  ),
};

/** Load balancers, routes and private links. */
export const featureKeys = {
  loadBalancerSku: choice(
    "standard",
    [word("standard"), word("basic"), word("service")],
    "SKU of load balancers and public IP addresses.",
  ),
  loadBalancerName: text("Name of the load balancer; default the cluster's name."),
  preConfiguredBackendPoolLoadBalancerTypes: choice(
    "",
    [word(""), word("internal"), word("external"), word("all")],
    "Load balancers whose backend pools somebody else fills.",
  ),
  excludeMasterFromStandardLB: flag(true, "Control-plane nodes do not join standard load balancers."),
  disableOutboundSNAT: flag(false, "Load-balancing rules carry no outbound traffic; only with the standard SKU."),
  maximumLoadBalancerRuleCount: whole(250, "Rules that one basic load balancer may hold."),
  loadBalancerBackendPoolConfigurationType: choice(
    "nodeIPConfiguration",
    [word("nodeIPConfiguration"), word("nodeIP"), word("podIP")],
    "What backend pools hold: the network interfaces of nodes, their addresses, or pods.",
  ),
  enableMigrateToIPBasedBackendPoolAPI: flag(false, "Move pools from interfaces to addresses by Azure's own call."),
  enableIPTagMutationForExistingPublicIP: flag(false, "Change the IP tags of public IP addresses that exist already."),
  routeUpdateIntervalInSeconds: seconds(30, "How often wanted routes are written."),
  loadBalancerBackendPoolUpdateIntervalInSeconds: seconds(30, "How often pools of local Services are written."),
  clusterServiceLoadBalancerHealthProbeMode: choice(
    "servicenodeport",
    [word("servicenodeport"), word("shared")],
    "Whether Services with externalTrafficPolicy Cluster have probes of their own or share one.",
  ),
  clusterServiceSharedLoadBalancerHealthProbePort: whole(10256, "Port of the shared probe."),
  clusterServiceSharedLoadBalancerHealthProbePath: Type.String({
    default: "/healthz",
    description: "Path of the shared probe.",
  }),
  serviceGatewayEnabled: flag(false, "Service gateway mode; needs pool type podIP and SKU service as well."),
  multipleStandardLoadBalancerConfigurations: Type.Optional(
    Type.Array(
      Type.Object({
        name: text("Name of the load balancer; unique."),
        primaryVMSet: text("Machines of this set always go to this load balancer; unique."),
        allowServicePlacement: flag(true, "New Services may be placed here."),
        serviceLabelSelector: labelSelector("Services that may be placed here, by label."),
        serviceNamespaceSelector: labelSelector("Services that may be placed here, by their namespace's labels."),
        nodeSelector: labelSelector("Nodes that are placed here first."),
        activeServices: Type.Optional(Type.Unknown({ description: "Kept in memory; ignored here." })),
        activeNodes: Type.Optional(Type.Unknown({ description: "Kept in memory; ignored here." })),
      }),
      { description: "Several standard load balancers for one cluster." },
    ),
  ),
};
