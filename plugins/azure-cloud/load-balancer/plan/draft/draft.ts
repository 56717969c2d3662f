import type { PrivateLinkService, PublicIPAddress } from "@azure/arm-network";
import { type ErrorCode, messageOf, type Node } from "cloud-controller-host/sdk";

import type { Family, Observed, PlanEvent, PlanProblem, ServiceKey } from "../../model/model.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import type { Subject } from "../../service/subject.ts";
import type { Balancer } from "./edits.ts";
import type { Frontend } from "./frontends.ts";

/** One resource while it is planned: the edits of several Services add up in `current`. */
export interface ResourceDraft<T> {
  readonly id: string;
  readonly resourceGroup: string;
  readonly name: string;
  readonly observed: T | undefined;
  /** `undefined`: absent, or to be deleted. */
  current: T | undefined;
  /** Services whose edits changed it. */
  readonly services: Set<ServiceKey>;
  /** Nothing changes, but the last operation failed. */
  repeats?: boolean;
}

/** A frontend that a Service uses. */
export interface UsedFrontend {
  readonly family: Family;
  readonly balancer: string;
  readonly frontend: Frontend;
}

/** A Service and what is to be done with it. */
export interface PlannedService {
  readonly subject: Subject;
  readonly action: "ensure" | "delete";
  readonly nodes: readonly Node[];
  readonly failed: ReadonlySet<string> | undefined;
}

/** A backend pool that Services use. */
export interface UsedPool {
  readonly balancer: ResourceDraft<Balancer>;
  readonly name: string;
  readonly family: Family;
  /** Pool of one Service with `externalTrafficPolicy: Local`. */
  readonly local: boolean;
  /** The nodes of each Service that uses the pool: most Services have the same list. */
  readonly nodeLists: Set<readonly Node[]>;
  readonly services: Set<ServiceKey>;
}

/** Working state of one round of planning. It never leaves `plan`. */
export interface Draft {
  readonly observed: Observed;
  readonly config: PlannerConfig;
  readonly services: readonly PlannedService[];
  /** By lower-case name. */
  readonly balancers: Map<string, ResourceDraft<Balancer>>;
  /** By lower-case id. */
  readonly publicIPs: Map<string, ResourceDraft<Readonly<PublicIPAddress>>>;
  /** Private link services to delete, with the Services that cause it. */
  readonly linkDeletions: Map<Readonly<PrivateLinkService>, Set<ServiceKey>>;
  /** Basic load balancers that are deleted because the cluster has the standard SKU. */
  readonly retired: Set<ResourceDraft<Balancer>>;
  /** The load balancer chosen for each Service. */
  readonly targets: Map<ServiceKey, ResourceDraft<Balancer>>;
  /** Events about nodes that no load balancer takes, by node name. */
  readonly nodeEvents: Map<string, readonly PlanEvent[]>;
  /** By lower-case pool id. */
  readonly pools: Map<string, UsedPool>;
  readonly frontends: Map<ServiceKey, readonly UsedFrontend[]>;
  /** Addresses of these, in the order of the load balancer, of Services whose frontends all have one. */
  readonly addresses: Map<ServiceKey, readonly string[]>;
  readonly events: Map<ServiceKey, PlanEvent[]>;
  readonly problems: Map<ServiceKey, PlanProblem>;
  /** Services that wait for a value which a write of this plan yields. */
  readonly pending: Set<ServiceKey>;
}

/** Applies one Service's edit. */
export function edit<T>(draft: ResourceDraft<T>, key: ServiceKey, change: (current: T) => T): void {
  if (draft.current === undefined) return;
  const next = change(draft.current);
  if (next === draft.current) return;
  draft.current = next;
  draft.services.add(key);
}

export function reject(draft: Draft, key: ServiceKey, code: ErrorCode, ...messages: readonly string[]): void {
  const earlier = draft.problems.get(key);
  draft.problems.set(
    key,
    earlier === undefined ? { code, messages } : { ...earlier, messages: [...earlier.messages, ...messages] },
  );
}

/** Zones of a resource that a Service creates. It is rejected where they could not be read. */
export function zonesFor(draft: Draft, key: ServiceKey): readonly string[] {
  const { config, observed } = draft;
  if (config.sku !== "standard" || config.extendedLocation !== undefined) return [];
  const { zones, zonesError } = observed;
  if (zonesError !== undefined) reject(draft, key, "ZonesNotRead", `failed to get zones: ${messageOf(zonesError)}`);
  return zones;
}

export function addEvent(draft: Draft, key: ServiceKey, event: PlanEvent): void {
  const events = draft.events.get(key);
  if (events === undefined) draft.events.set(key, [event]);
  else events.push(event);
}
