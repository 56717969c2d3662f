import type { LoadBalancerStatus, Node, NodeAddress, Service } from "./kinds.ts";
import type { Informer } from "./kube.ts";
import type { ResourceDocument } from "./planning.ts";
import type { OperatorWarning } from "./warning.ts";

/** Options of every call to a cloud. Aborting `signal` rejects the call. */
export interface CloudCall {
  readonly signal?: AbortSignal;
}

/** Options of a read of an instance. */
export interface InstanceRead extends CloudCall {
  /** `fresh` bypasses every cache: required before anything is deleted. */
  readonly read?: "cached" | "fresh";
}

/** upstream: `cloudprovider.InstanceMetadata`. An empty string means unknown. */
export interface InstanceMetadata {
  readonly providerID: string;
  readonly instanceType: string;
  readonly nodeAddresses: readonly NodeAddress[];
  readonly zone: string;
  readonly region: string;
  readonly additionalLabels?: Readonly<Record<string, string>>;
}

/** upstream: `cloudprovider.InstancesV2`. */
export interface Instances {
  /** False only if the cloud confirms that the instance does not exist; rejects if it cannot tell. */
  instanceExists(node: Node, options?: InstanceRead): Promise<boolean>;
  instanceShutdown(node: Node, options?: InstanceRead): Promise<boolean>;
  /** Undefined leaves the node unchanged. */
  instanceMetadata(node: Node, options?: InstanceRead): Promise<InstanceMetadata | undefined>;
}

/** A setting of a Service that is invalid and ignored, or that has no effect. */
export interface ServiceWarning {
  /** Reason of the event, such as `InvalidConfiguration`. */
  readonly reason: string;
  readonly message: string;
}

/** upstream: `cloudprovider.LoadBalancer`. Called for many Services concurrently, for one Service one call at a time. */
export interface LoadBalancers {
  /** The status of the Service's load balancer; undefined without one. */
  getLoadBalancer(clusterName: string, service: Service, call?: CloudCall): Promise<LoadBalancerStatus | undefined>;
  loadBalancerName(clusterName: string, service: Service): string;
  ensureLoadBalancer(
    clusterName: string,
    service: Service,
    nodes: readonly Node[],
    call?: CloudCall,
  ): Promise<LoadBalancerStatus>;
  updateLoadBalancer(clusterName: string, service: Service, nodes: readonly Node[], call?: CloudCall): Promise<void>;
  /**
   * Updates the nodes of several load balancers, for clouds that merge concurrent updates: a node sync then calls it once
   * per Service, for all Services at once, so that a slow one delays no other. Resolves with one result per Service, in
   * order; does not reject for a single Service.
   */
  updateLoadBalancers?(
    clusterName: string,
    services: readonly Service[],
    nodes: readonly Node[],
    call?: CloudCall,
  ): Promise<readonly PromiseSettledResult<void>[]>;
  /** Succeeds when the load balancer does not exist. */
  ensureLoadBalancerDeleted(clusterName: string, service: Service, call?: CloudCall): Promise<void>;
  /**
   * Receives the service controller's informer, for a cloud that has to know Services before they are ensured. Called once,
   * during init; may register handlers, makes no request.
   */
  watch?(services: Informer<Service>): void;
  /**
   * Another process serves the Service from now on, or it wants no load balancer any more and the cloud has none. Once
   * this resolves, the cloud's background work for it has stopped and does not start again before the next ensure.
   * Changes nothing in the cloud. Rejects when the process stops first.
   */
  leaveLoadBalancer?(clusterName: string, service: Service): Promise<void>;
  /**
   * Problems of a Service's settings that its owner should know about, even if the load balancer is ready. Called before
   * each ensure, for the Service's events and its condition `LoadBalancerReady`; makes no request.
   */
  warnings?(service: Service): readonly ServiceWarning[];
}

/** upstream: `cloudprovider.Route`. */
export interface Route {
  readonly name: string;
  readonly targetNode: string;
  readonly destinationCIDR: string;
  /** True for clouds whose routes target node addresses and must follow their changes. */
  readonly enableNodeAddresses?: boolean;
  readonly targetNodeAddresses?: readonly NodeAddress[];
  /** The route's target no longer exists; the route is removed if its destination is in the cluster CIDR. */
  readonly blackhole?: boolean;
}

/** upstream: `cloudprovider.Routes`. */
export interface Routes {
  listRoutes(clusterName: string, call?: CloudCall): Promise<readonly Route[]>;
  createRoute(clusterName: string, nameHint: string, route: Route, call?: CloudCall): Promise<void>;
  deleteRoute(clusterName: string, route: Route, call?: CloudCall): Promise<void>;
}

/** Prefix lengths of the pod CIDRs for a node's instance group. */
export interface NodeMasks {
  nodeMasks(node: Node, call?: CloudCall): Promise<{ readonly ipv4: number; readonly ipv6: number }>;
}

/** One property, for people. */
export interface Fact {
  readonly name: string;
  readonly value: string;
  /** Source of a setting: `annotation`, a key of the cloud config, a flag. */
  readonly source?: string;
}

/** Resources in the cloud, as a tree for people. Contains no secret. */
export interface Explanation {
  readonly title: string;
  readonly facts?: readonly Fact[];
  readonly children?: readonly Explanation[];
}

/** Answers the command `explain`. It only reads. */
export interface Explain {
  /** The resources of a Service; `nodes` and `services` are all of the cluster, to name those that share its resources. */
  service?(service: Service, nodes: readonly Node[], services: readonly Service[]): Promise<readonly Explanation[]>;
  node?(node: Node): Promise<readonly Explanation[]>;
}

/** Resources that a cloud would remove or leave behind without a cause in the cluster. */
export interface UnrequestedRemovals {
  /** Names exactly these removals, for a confirmation. */
  readonly hash: string;
  /** One phrase each, such as `frontend web of load balancer kubernetes`. */
  readonly removals: readonly string[];
}

/** upstream: `cloudprovider.Interface`. An absent property is a capability that the cloud lacks. */
export interface Cloud extends AsyncDisposable {
  readonly name: string;
  readonly hasClusterID: boolean;
  readonly instances?: Instances;
  readonly loadBalancers?: LoadBalancers;
  readonly routes?: Routes;
  readonly nodeMasks?: NodeMasks;
  readonly explain?: Explain;
  /**
   * Called during a reload whose config places resources elsewhere, before anything runs. Returns what the current Services
   * and nodes would lose with this config; undefined if nothing, or if the loss is confirmed, which the host checks as
   * well. Only reads.
   */
  unrequestedRemovals?(call: CloudCall): Promise<UnrequestedRemovals | undefined>;
  /** Background work such as a token refresh; resolves after the signal aborts, like `Controller.run`. */
  run?(signal: AbortSignal): Promise<void>;
  /** Conditions that need an operator, for `/statusz`, such as requests that the cloud does not answer. */
  warnings?(): readonly OperatorWarning[];
  /** Sections for the console, such as budgets and limits. Called often: must not read or wait. */
  status?(): readonly Explanation[];
}

/** The state of a simulated VM. */
export type PowerState = "running" | "stopped" | "deallocated";

/** Requests of a simulated cloud that fail. */
export interface CloudFault {
  readonly method: string;
  /** Part of the path, in any case. */
  readonly path: string;
  /** HTTP status, such as 403. */
  readonly status: number;
  readonly forMs: number;
}

/** A simulated cloud in this process, for the sandbox and for tests. Clients reach it over its real protocol. */
export interface CloudSimulator extends AsyncDisposable {
  /** A complete cloud config that points at it, as text of the config file. */
  readonly cloudConfig: string;
  /** Creates VMs; `nodeName` is the name under which the VM's kubelet registers. */
  addInstances(count: number): Promise<readonly { readonly nodeName: string; readonly internalIP: string }[]>;
  removeInstance(nodeName: string): Promise<void>;
  /** Without it the sandbox cannot stop and start VMs. */
  setPowerState?(nodeName: string, state: PowerState): Promise<void>;
  /** Fails every API request for `forMs`; 0 ends it. Without it the sandbox cannot disturb the cloud. */
  disturb?(how: "throttled" | "unavailable", forMs: number): void;
  /**
   * Lists its resources, one per line; with a Service only those that serve it, by UID or addresses. This and the next
   * members back commands of the sandbox, which lacks those that the simulator does not implement.
   */
  show?(service?: { readonly uid: string; readonly addresses: readonly string[] }): readonly string[];
  /** Fails requests with a method and a part of a path, for `forMs`. */
  fail?(fault: CloudFault): void;
  /** Delays every reply by `ms`, for `forMs`. */
  slow?(ms: number, forMs: number): void;
  /** Ends the effects of `disturb`, `fail` and `slow`. */
  recover?(): void;
  /** Every request so far, as `METHOD path`. */
  requests(): readonly string[];
  /** Name and addresses, one line each, for the sandbox's screen. */
  describe(): readonly string[];
}

/** The cloud of a bundle. */
export interface SimulatedContents {
  /** The cloud config of that cloud, without secrets. The simulator's has the same settings. */
  readonly cloudConfig: ResourceDocument;
  /** Resources as passed to `Planning.read`. */
  readonly resources: readonly ResourceDocument[];
  /** Names and addresses were replaced: values that the cloud derives from them, such as hashes, no longer match. */
  readonly anonymized: boolean;
}

/** The argument of `simulate`. */
export interface SimulateOptions {
  /** Delay of every reply, in milliseconds. */
  readonly latencyMs?: number;
  /** A folder for certificates and similar files. */
  readonly directory: string;
  /** The cloud config shortens caches, so that a change to a VM is seen within seconds. */
  readonly shortCaches?: boolean;
  /** Resources that a plan has read, to start with in place of the default ones. */
  readonly contents?: SimulatedContents;
}
