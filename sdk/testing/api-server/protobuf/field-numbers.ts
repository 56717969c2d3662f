import type { RecordSchema, Schema } from "../schema/schema.ts";

/**
 * The fields of each message in the order of their protobuf numbers, from 1; `-` for a number that is not read.
 * Source: the `protobuf` tags of k8s.io/api and k8s.io/apimachinery.
 */
const order: Readonly<Record<string, string>> = {
  ObjectMeta:
    "name generateName namespace selfLink uid resourceVersion generation creationTimestamp deletionTimestamp deletionGracePeriodSeconds labels annotations ownerReferences finalizers - - managedFields",
  OwnerReference: "kind - name uid apiVersion controller blockOwnerDeletion",
  ManagedFieldsEntry: "manager operation apiVersion time - fieldsType fieldsV1 subresource",
  Condition: "type status observedGeneration lastTransitionTime reason message",
  DeleteOptions: "gracePeriodSeconds preconditions orphanDependents propagationPolicy dryRun",
  Preconditions: "uid resourceVersion",
  Node: "metadata spec status",
  NodeSpec: "podCIDR externalID providerID unschedulable taints configSource podCIDRs",
  Taint: "key value effect timeAdded",
  NodeConfigSource: "- configMap",
  ConfigMapNodeConfigSource: "namespace name uid resourceVersion kubeletConfigKey",
  NodeStatus:
    "capacity allocatable phase conditions addresses daemonEndpoints nodeInfo images volumesInUse volumesAttached config runtimeHandlers features declaredFeatures",
  NodeCondition: "type status lastHeartbeatTime lastTransitionTime reason message",
  NodeAddress: "type address",
  NodeDaemonEndpoints: "kubeletEndpoint",
  DaemonEndpoint: "Port",
  NodeSystemInfo:
    "machineID systemUUID bootID kernelVersion osImage containerRuntimeVersion kubeletVersion kubeProxyVersion operatingSystem architecture swap",
  NodeSwapStatus: "capacity",
  ContainerImage: "names sizeBytes",
  AttachedVolume: "name devicePath",
  NodeConfigStatus: "assigned active lastKnownGood error",
  NodeRuntimeHandler: "name features",
  NodeRuntimeHandlerFeatures: "recursiveReadOnlyMounts userNamespaces",
  NodeFeatures: "supplementalGroupsPolicy",
  Lease: "metadata spec",
  LeaseSpec: "holderIdentity leaseDurationSeconds acquireTime renewTime leaseTransitions strategy preferredHolder",
  ConfigMap: "metadata data binaryData immutable",
  Secret: "metadata data type stringData immutable",
  ServiceAccount: "metadata secrets imagePullSecrets automountServiceAccountToken",
  ObjectReference: "kind namespace name uid apiVersion resourceVersion fieldPath",
  LocalObjectReference: "name",
  Service: "metadata spec status",
  ServiceSpec:
    "ports selector clusterIP type externalIPs - sessionAffinity loadBalancerIP loadBalancerSourceRanges externalName externalTrafficPolicy healthCheckNodePort publishNotReadyAddresses sessionAffinityConfig - - ipFamilyPolicy clusterIPs ipFamilies allocateLoadBalancerNodePorts loadBalancerClass internalTrafficPolicy trafficDistribution",
  ServicePort: "name protocol port targetPort nodePort appProtocol",
  SessionAffinityConfig: "clientIP",
  ClientIPConfig: "timeoutSeconds",
  ServiceStatus: "loadBalancer conditions",
  LoadBalancerStatus: "ingress",
  LoadBalancerIngress: "ip hostname ipMode ports",
  PortStatus: "port protocol error",
  EndpointSlice: "metadata endpoints ports addressType",
  Endpoint: "addresses conditions hostname targetRef deprecatedTopology nodeName zone hints",
  EndpointConditions: "ready serving terminating",
  EndpointHints: "forZones forNodes",
  ForZone: "name",
  ForNode: "name",
  EndpointPort: "name protocol port appProtocol",
  Namespace: "metadata spec status",
  NamespaceSpec: "finalizers",
  NamespaceStatus: "phase conditions",
  NamespaceCondition: "type status - lastTransitionTime reason message",
  Event:
    "metadata involvedObject reason message source firstTimestamp lastTimestamp count type eventTime series action related reportingComponent reportingInstance",
  EventSource: "component host",
  EventSeries: "count lastObservedTime",
  TokenReview: "metadata spec",
  TokenReviewSpec: "token audiences",
  TokenRequest: "metadata spec",
  TokenRequestSpec: "audiences - - expirationSeconds",
  SelfSubjectReview: "metadata",
  SubjectAccessReview: "metadata spec",
  LocalSubjectAccessReview: "metadata spec",
  SelfSubjectAccessReview: "metadata spec",
  SubjectAccessReviewSpec: "resourceAttributes nonResourceAttributes user groups - uid",
  SelfSubjectRulesReview: "metadata spec",
  SelfSubjectRulesReviewSpec: "namespace",
  SelfSubjectAccessReviewSpec: "resourceAttributes nonResourceAttributes",
  ResourceAttributes: "namespace verb group version resource subresource name",
  NonResourceAttributes: "path verb",
};

interface Field {
  readonly key: string;
  readonly schema: Schema;
}

const known = new WeakMap<RecordSchema, ReadonlyMap<number, Field>>();

/** The fields of a record by their protobuf numbers; undefined for a record that has none. */
export function fieldsByNumber(record: RecordSchema): ReadonlyMap<number, Field> | undefined {
  const cached = known.get(record);
  if (cached !== undefined) return cached;
  const keys = order[record.name.split(".").at(-1) ?? ""]?.split(" ");
  if (keys === undefined) return undefined;
  const fields = keys.flatMap((key, index) => {
    const schema = record.fields[key];
    return schema === undefined ? [] : [[index + 1, { key, schema }] as const];
  });
  const byNumber = new Map(fields);
  known.set(record, byNumber);
  return byNumber;
}
