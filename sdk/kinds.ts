import type {
  CoreV1Event,
  V1ConfigMap,
  V1ControllerRevision,
  V1DaemonSet,
  V1Deployment,
  V1Endpoints,
  V1EndpointSlice,
  V1Lease,
  V1LimitRange,
  V1Namespace,
  V1Node,
  V1ObjectMeta,
  V1PersistentVolume,
  V1PersistentVolumeClaim,
  V1Pod,
  V1PodDisruptionBudget,
  V1PodTemplate,
  V1ReplicaSet,
  V1ReplicationController,
  V1ResourceQuota,
  V1Secret,
  V1Service,
  V1ServiceAccount,
  V1StatefulSet,
} from "@kubernetes/client-node";

/** A Kubernetes type in JSON: deeply read-only, with timestamps as RFC 3339 strings. */
export type Wire<T> = T extends Date
  ? string
  : T extends readonly (infer Item)[]
    ? readonly Wire<Item>[]
    : T extends object
      ? { readonly [Field in keyof T]: Wire<T[Field]> }
      : T;

/** `metav1.ObjectMeta`. */
export type ObjectMeta = Wire<V1ObjectMeta>;

/** Fields of every API object. Objects from the host always have `apiVersion` and `kind`, also in lists. */
export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: ObjectMeta;
}

/** `v1` Node. */
export type Node = Wire<V1Node>;
/** An address of a node, such as `InternalIP`, `ExternalIP` or `Hostname`. */
export type NodeAddress = { readonly type: string; readonly address: string };
/** A condition of a node, such as `Ready`. */
export type NodeCondition = NonNullable<NonNullable<Node["status"]>["conditions"]>[number];
/** A taint of a node. */
export type Taint = NonNullable<NonNullable<Node["spec"]>["taints"]>[number];
/** `v1` Service. */
export type Service = Wire<V1Service>;
/** A port of a Service. */
export type ServicePort = NonNullable<NonNullable<Service["spec"]>["ports"]>[number];
/** The addresses at which a Service is served. */
export type LoadBalancerStatus = NonNullable<NonNullable<Service["status"]>["loadBalancer"]>;
/** `discovery.k8s.io/v1` EndpointSlice. */
export type EndpointSlice = Wire<V1EndpointSlice>;
/** `coordination.k8s.io/v1` Lease. */
export type Lease = Wire<V1Lease>;
/** An event as `kubectl get events` shows it: `v1` Event. */
export type KubeEvent = Wire<CoreV1Event>;
/** `v1` ConfigMap. */
export type ConfigMap = Wire<V1ConfigMap>;
/** `v1` Secret. */
export type Secret = Wire<V1Secret>;
/** `v1` Namespace. */
export type Namespace = Wire<V1Namespace>;
/** `v1` ServiceAccount. */
export type ServiceAccount = Wire<V1ServiceAccount>;
/** `v1` Pod. */
export type Pod = Wire<V1Pod>;
/** `v1` PersistentVolume. */
export type PersistentVolume = Wire<V1PersistentVolume>;
/** `v1` PersistentVolumeClaim. */
export type PersistentVolumeClaim = Wire<V1PersistentVolumeClaim>;
/** `apps/v1` Deployment. */
export type Deployment = Wire<V1Deployment>;
/** `apps/v1` DaemonSet. */
export type DaemonSet = Wire<V1DaemonSet>;
/** `apps/v1` StatefulSet. */
export type StatefulSet = Wire<V1StatefulSet>;
/** `apps/v1` ReplicaSet. */
export type ReplicaSet = Wire<V1ReplicaSet>;
/** `policy/v1` PodDisruptionBudget. */
export type PodDisruptionBudget = Wire<V1PodDisruptionBudget>;

/** A kind: where it is served and, as type argument, the type of its objects. */
export interface KindRef<T extends KubeObject = KubeObject> {
  /** API group, `""` for core. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  /** Resource name in the URL, e.g. `nodes`. */
  readonly plural: string;
  readonly namespaced: boolean;
  /** For the type only; never set. */
  readonly object?: T;
}

/** Declares a kind that is not in `kinds`, such as a custom resource of a third-party plugin. */
export function defineKind<T extends KubeObject>(row: Omit<KindRef, "object">): KindRef<T> {
  return row;
}

const core = { group: "", version: "v1" } as const;

const apps = { group: "apps", version: "v1", namespaced: true } as const;
const inNamespace = { ...core, namespaced: true } as const;

/**
 * The kinds of core, apps, discovery, policy and coordination. The sandbox and the test harness serve those that the host uses,
 * Pods, and those that a plugin lists in its `kinds`.
 */
export const kinds = {
  Node: defineKind<Node>({ ...core, kind: "Node", plural: "nodes", namespaced: false }),
  Service: defineKind<Service>({ ...core, kind: "Service", plural: "services", namespaced: true }),
  Event: defineKind<KubeEvent>({ ...core, kind: "Event", plural: "events", namespaced: true }),
  ConfigMap: defineKind<ConfigMap>({ ...core, kind: "ConfigMap", plural: "configmaps", namespaced: true }),
  Secret: defineKind<Secret>({ ...core, kind: "Secret", plural: "secrets", namespaced: true }),
  Namespace: defineKind<Namespace>({ ...core, kind: "Namespace", plural: "namespaces", namespaced: false }),
  ServiceAccount: defineKind<ServiceAccount>({
    ...core,
    kind: "ServiceAccount",
    plural: "serviceaccounts",
    namespaced: true,
  }),
  Lease: defineKind<Lease>({
    group: "coordination.k8s.io",
    version: "v1",
    kind: "Lease",
    plural: "leases",
    namespaced: true,
  }),
  EndpointSlice: defineKind<EndpointSlice>({
    group: "discovery.k8s.io",
    version: "v1",
    kind: "EndpointSlice",
    plural: "endpointslices",
    namespaced: true,
  }),
  Pod: defineKind<Pod>({ ...inNamespace, kind: "Pod", plural: "pods" }),
  PodTemplate: defineKind<Wire<V1PodTemplate>>({ ...inNamespace, kind: "PodTemplate", plural: "podtemplates" }),
  Endpoints: defineKind<Wire<V1Endpoints>>({ ...inNamespace, kind: "Endpoints", plural: "endpoints" }),
  LimitRange: defineKind<Wire<V1LimitRange>>({ ...inNamespace, kind: "LimitRange", plural: "limitranges" }),
  ResourceQuota: defineKind<Wire<V1ResourceQuota>>({
    ...inNamespace,
    kind: "ResourceQuota",
    plural: "resourcequotas",
  }),
  ReplicationController: defineKind<Wire<V1ReplicationController>>({
    ...inNamespace,
    kind: "ReplicationController",
    plural: "replicationcontrollers",
  }),
  PersistentVolume: defineKind<PersistentVolume>({
    ...core,
    kind: "PersistentVolume",
    plural: "persistentvolumes",
    namespaced: false,
  }),
  PersistentVolumeClaim: defineKind<PersistentVolumeClaim>({
    ...inNamespace,
    kind: "PersistentVolumeClaim",
    plural: "persistentvolumeclaims",
  }),
  Deployment: defineKind<Deployment>({ ...apps, kind: "Deployment", plural: "deployments" }),
  DaemonSet: defineKind<DaemonSet>({ ...apps, kind: "DaemonSet", plural: "daemonsets" }),
  StatefulSet: defineKind<StatefulSet>({ ...apps, kind: "StatefulSet", plural: "statefulsets" }),
  ReplicaSet: defineKind<ReplicaSet>({ ...apps, kind: "ReplicaSet", plural: "replicasets" }),
  ControllerRevision: defineKind<Wire<V1ControllerRevision>>({
    ...apps,
    kind: "ControllerRevision",
    plural: "controllerrevisions",
  }),
  PodDisruptionBudget: defineKind<PodDisruptionBudget>({
    group: "policy",
    version: "v1",
    kind: "PodDisruptionBudget",
    plural: "poddisruptionbudgets",
    namespaced: true,
  }),
} as const;

/** `v1` or `group/version`. */
export function apiVersionOf(kind: KindRef): string {
  return kind.group === "" ? kind.version : `${kind.group}/${kind.version}`;
}

/** `namespace/name`, or `name` for a cluster-scoped object: the key of stores and queues. */
export function keyOf(object: KubeObject): string {
  const { namespace, name } = object.metadata ?? {};
  return namespace ? `${namespace}/${name ?? ""}` : (name ?? "");
}
