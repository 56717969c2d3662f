import type { KubeObject, Node, Taint } from "./kinds.ts";

/** Label keys that controllers read and write. Source: k8s.io/api `well_known_labels.go`. */
export const labels = {
  instanceType: "node.kubernetes.io/instance-type",
  instanceTypeBeta: "beta.kubernetes.io/instance-type",
  zone: "topology.kubernetes.io/zone",
  zoneBeta: "failure-domain.beta.kubernetes.io/zone",
  region: "topology.kubernetes.io/region",
  regionBeta: "failure-domain.beta.kubernetes.io/region",
  hostname: "kubernetes.io/hostname",
  excludeFromLoadBalancers: "node.kubernetes.io/exclude-from-external-load-balancers",
} as const;

/** Taint keys of the cloud-provider contract. Source: kubernetes/cloud-provider `api/well_known_taints.go`. */
export const taints = {
  uninitialized: "node.cloudprovider.kubernetes.io/uninitialized",
  shutdown: "node.cloudprovider.kubernetes.io/shutdown",
  outOfService: "node.kubernetes.io/out-of-service",
  toBeDeletedByAutoscaler: "ToBeDeletedByClusterAutoscaler",
} as const;

/** Well-known annotations. */
export const annotations = {
  providedNodeIP: "alpha.kubernetes.io/provided-node-ip",
  /** Names the Lease of the deployment that serves a Service, where several could. */
  servedBy: "cloud-controller-host/served-by",
} as const;

/** Well-known finalizers. */
export const finalizers = {
  /**
   * On a Service from before its load balancer is created until it is deleted. Controllers of other providers set it as well,
   * also for a class of their own. Source: kubernetes/cloud-provider `service/helpers/helper.go`.
   */
  loadBalancerCleanup: "service.kubernetes.io/load-balancer-cleanup",
} as const;

/** The taints of a node; empty without any. */
export const taintsOf = (node: Node): readonly Taint[] => node.spec?.taints ?? [];

/** Any effect and value: a node with the key waits for the cloud. */
export const isUninitialized = (node: Node): boolean =>
  taintsOf(node).some((taint) => taint.key === taints.uninitialized);

/** `True`, `False`, `Unknown`, or undefined before the kubelet has posted a status. */
export const readyStatus = (node: Node): string | undefined =>
  node.status?.conditions?.find((condition) => condition.type === "Ready")?.status;

/** The value of a label; undefined without it. */
export const labelOf = (object: KubeObject, key: string): string | undefined => object.metadata?.labels?.[key];
/** The value of an annotation; undefined without it. */
export const annotationOf = (object: KubeObject, key: string): string | undefined =>
  object.metadata?.annotations?.[key];
