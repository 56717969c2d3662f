import type {
  LoadBalancer,
  NetworkSecurityGroup,
  PrivateLinkService,
  PublicIPAddress,
  Subnet,
} from "@azure/arm-network";
import type { ErrorCode, Node, Service } from "cloud-controller-host/sdk";

import type { NodeDrain } from "./drain.ts";

export type Family = "IPv4" | "IPv6";

/** `namespace/name` of a Service: its key in results, and its name in the tags of public IPs. */
export type ServiceKey = string;

/** One Service that is to be brought to its desired state, or removed from Azure. */
export interface ServiceIntent {
  readonly service: Service;
  readonly action: "ensure" | "delete";
  /** Nodes that may receive the Service's traffic, as the service controller selected them. Ignored by `delete`. */
  readonly nodes: readonly Node[];
  /** Lower-case ids of resources of which a write for it has failed since it was last carried out. */
  readonly failed?: ReadonlySet<string>;
}

/** A network interface's IP configuration in a backend pool. */
export interface PoolMember {
  readonly ipConfigurationId: string;
  /**
   * The node behind it; `undefined` when its instance has no node or could not be resolved. Such a member stays unless
   * `gone`.
   */
  readonly node: string | undefined;
  /** True only after a fresh read confirmed that the instance does not exist. */
  readonly gone: boolean;
  /** False while the instance is in the pool but the model of its scale set is not. */
  readonly complete: boolean;
}

/**
 * Everything that planning reads. Shapes are those of `@azure/arm-network`; the planner never changes them. `neededReads`
 * lists what must be present to plan some Services; anything else may be empty.
 */
export interface Observed {
  /** Every load balancer of the load balancer resource group. */
  readonly loadBalancers: readonly Readonly<LoadBalancer>[];
  /** Every public IP of the resource groups in `NeededReads.publicIPResourceGroups`. */
  readonly publicIPs: readonly Readonly<PublicIPAddress>[];
  /** The cluster's network security group, or `undefined` when it does not exist. */
  readonly securityGroup: Readonly<NetworkSecurityGroup> | undefined;
  /** Every private link service of the resource groups in `NeededReads.privateLinkResourceGroups`. */
  readonly privateLinkServices: readonly Readonly<PrivateLinkService>[];
  /** Subnets of the cluster's virtual network by lower-case name; a name that was read and not found is absent. */
  readonly subnets: ReadonlyMap<string, Readonly<Subnet>>;
  /** Availability zones of the region; empty where it has none. */
  readonly zones: readonly string[];
  /** Set when the zones could not be read: a Service that needs them fails. */
  readonly zonesError?: unknown;
  /** Every Service of type LoadBalancer in the cluster, those that are planned included. */
  readonly services: readonly Service[];
  /** Every node of the cluster, excluded and unmanaged ones included. */
  readonly nodes: readonly Node[];
  /** Names of nodes whose objects were deleted since the process started: their instances leave the pools. */
  readonly deletedNodes: ReadonlySet<string>;
  /** Lower-case ids of pools that were created a moment ago, for these Services: they are ours to fill. */
  readonly createdPools?: ReadonlySet<string>;
  /**
   * The wishes of Services that security rules were written for, by key, of those that chose an address: their load
   * balancer may have been refused, so that nothing else shows what they have opened there.
   */
  readonly opened?: ReadonlyMap<ServiceKey, readonly Service[]>;
  /** Addresses that Services showed as their type changed, by key, which may be open still. */
  readonly cleared?: ReadonlyMap<ServiceKey, readonly string[]>;
  /** Members of network-interface pools by lower-case pool id. Not read for pools by node IP. */
  readonly poolMembers: ReadonlyMap<string, readonly PoolMember[]>;
  /** Scale set or availability set of each node by node name, for multiple and basic load balancers only. */
  readonly vmSets: ReadonlyMap<string, string>;
  /** Names of nodes with an endpoint, by Service key; only for local Services with multiple load balancers. */
  readonly endpointNodes: ReadonlyMap<ServiceKey, readonly string[]>;
  /** Labels of namespaces by name, for namespace selectors of multiple load balancers. */
  readonly namespaceLabels: ReadonlyMap<string, Readonly<Record<string, string>>>;
  /** Nodes that are about to leave, or were, by name. */
  readonly drains?: ReadonlyMap<string, NodeDrain>;
}

/** Reads that `plan` needs besides the load balancers and the security group, which it always needs. */
export interface NeededReads {
  /** Lower-case names of resource groups. */
  readonly publicIPResourceGroups: readonly string[];
  /** Lower-case names of resource groups. */
  readonly privateLinkResourceGroups: readonly string[];
  /** Names of subnets of the cluster's virtual network. */
  readonly subnets: readonly string[];
  readonly namespaces: readonly string[];
}

/** Source: `ServiceEventf` calls of upstream's provider; reasons are upstream's. */
export interface PlanEvent {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}

/** The reason why nothing is written for a Service. */
export interface PlanProblem {
  /** Machine-readable: `InvalidService`, `PublicIPNotFound`, `SubnetNotFound`, `PortConflict`, … */
  readonly code: ErrorCode;
  /** Every problem found; each names the annotation or field, its value, and what is valid. */
  readonly messages: readonly string[];
}

/** Input of a plan. */
export interface PlanInput {
  readonly intents: readonly ServiceIntent[];
  readonly observed: Observed;
}
