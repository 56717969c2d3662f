import type {
  LoadBalancer,
  NetworkSecurityGroup,
  PrivateLinkService,
  PublicIPAddress,
  Subnet,
} from "@azure/arm-network";
import type { LoadBalancerStatus } from "cloud-controller-host/sdk";

import type { Family, PlanEvent, PlanProblem, ServiceKey } from "./model.ts";

/** Fields of every write. */
interface Target {
  /** Full resource id: the key of the resource's single writer. */
  readonly id: string;
  readonly resourceGroup: string;
  readonly name: string;
  /** The Services whose edits the write carries. One that ARM rejects is planned again without them, one by one. */
  readonly services: readonly ServiceKey[];
}

/** Creates or replaces one resource. `body.etag` is the observed etag, `undefined` for a resource that is new. */
interface Put<Kind extends string, Body> extends Target {
  readonly kind: Kind;
  readonly body: Readonly<Body>;
  /** The last operation failed, and nothing else is to change: if ARM rejects it, no Service of the write is at fault. */
  readonly repeats?: true;
}

interface Delete<Kind extends string> extends Target {
  readonly kind: Kind;
}

/** A subnet gets `privateLinkServiceNetworkPolicies: Disabled` before a private link service uses it. */
export interface PutSubnet extends Put<"put-subnet", Subnet> {
  readonly virtualNetwork: string;
}

/** Endpoint connections are deleted before their service. */
export interface DeletePrivateLinkService extends Delete<"delete-private-link-service"> {
  readonly endpointConnections: readonly string[];
}

/** Membership of network interfaces in one backend pool; written to interfaces, instances and scale-set models. */
export interface UpdateMembers extends Target {
  readonly kind: "update-members";
  /** `id` of the pool; `name` is the pool's, `loadBalancer` its load balancer's name. */
  readonly loadBalancer: string;
  readonly family: Family;
  /** Names of nodes to add: their instances, and the models of their scale sets. */
  readonly join: readonly string[];
  /** IP configuration ids to remove. */
  readonly leave: readonly string[];
}

/** Removes every member and every scale-set model from the pools of a load balancer that is about to be deleted. */
export interface ReleasePools extends Target {
  readonly kind: "release-pools";
  readonly poolIds: readonly string[];
}

/** `closing`: Services whose ports are closed before their frontends go: their load balancers are written after it. */
export interface PutSecurityGroup extends Put<"put-security-group", NetworkSecurityGroup> {
  readonly closing?: readonly ServiceKey[];
}

export type Write =
  | DeletePrivateLinkService
  | Put<"put-public-ip", PublicIPAddress>
  | Put<"put-load-balancer", LoadBalancer>
  | UpdateMembers
  | ReleasePools
  | PutSecurityGroup
  | PutSubnet
  | Put<"put-private-link-service", PrivateLinkService>
  | Delete<"delete-load-balancer">
  | Delete<"delete-public-ip">;

/**
 * Order of writes, given dependencies in ARM: a private link service holds its frontend, a frontend its public IP, a
 * scale-set model its load balancer.
 */
export const stages = [
  "private-link-deletions",
  "public-ips",
  "load-balancers",
  "members",
  "security-group",
  "subnets",
  "private-link-services",
  "load-balancer-deletions",
  "public-ip-deletions",
] as const;

/** All writes of a stage are independent of each other and may run in parallel. */
export interface Stage {
  readonly name: (typeof stages)[number];
  readonly writes: readonly Write[];
}

export interface ServiceResult {
  /** Set when the planner wrote nothing for the Service; the Service appears in no write. */
  readonly problem?: PlanProblem;
  /**
   * False while the Service waits for a value that exists only after a write: apply the plan, observe, plan again. True
   * together with no write that names the Service means that it is done.
   */
  readonly settled: boolean;
  /** Known once every frontend has its address. `undefined` for deleted Services and before that. */
  readonly status?: LoadBalancerStatus;
  readonly events: readonly PlanEvent[];
  /** Annotations that have no effect, and source ranges that deny everything; for the log. */
  readonly warnings: readonly string[];
}

/**
 * The difference between the desired and the observed state of some Services: the result of
 * `plan(intents: readonly ServiceIntent[], observed: Observed, config: PlannerConfig)`. Stages without writes are left out, so that
 * `stages` is empty when nothing is to be written.
 */
export interface Plan {
  readonly stages: readonly Stage[];
  readonly results: ReadonlyMap<ServiceKey, ServiceResult>;
  /** Events about nodes, by node name. */
  readonly nodeEvents: ReadonlyMap<string, readonly PlanEvent[]>;
}
