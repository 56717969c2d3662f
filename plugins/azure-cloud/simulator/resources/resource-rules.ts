import type { Draft, Resource } from "../state/store.ts";
import type { SubscriptionState } from "../state/subscription-state.ts";

/** A write of one resource while it is validated and completed. */
export interface WriteContext {
  readonly id: string;
  readonly previous: Resource | undefined;
  readonly state: SubscriptionState;
  /** Set for tests and seeds: references are not checked, and addresses are stored as given. */
  readonly seeding: boolean;
  /** The property of sub-resources that the request is for; undefined when it is for the resource itself. */
  readonly child: string | undefined;
}

/** ARM's own behavior for one type; refusals are thrown as `ArmFault`. */
interface ResourceRules {
  /** Checks a resource and fills in what the service decides (addresses, names) before it is stored. */
  prepare?(draft: Draft, context: WriteContext): Draft;
  /** The resource at the end of an operation, with what writes of other resources have changed in it meanwhile. */
  merge?(draft: Draft, current: Resource | undefined): Draft;
  /** Updates other resources after a write, such as back-references. */
  stored?(resource: Resource, previous: Resource | undefined, state: SubscriptionState): void;
  /** Refuses to delete a resource in use. */
  checkRemoval?(resource: Resource, state: SubscriptionState): void;
  /** Updates other resources after a deletion. */
  removed?(resource: Resource, state: SubscriptionState): void;
  /** The resource as it is read: with back-references. */
  view?(resource: Resource, state: SubscriptionState): Resource;
}

export interface ResourceType extends ResourceRules {
  /** `Microsoft.Network/loadBalancers` */
  readonly type: string;
  /** Array properties whose items are sub-resources with an id, an etag and a path of their own. */
  readonly children?: readonly string[];
  /** Properties that are shown only with `$expand`. */
  readonly expandable?: readonly string[];
  /** Has neither an etag nor a provisioning state, and a PUT that creates one returns 200. */
  readonly isBare?: boolean;
  /** A PUT merges its body into the resource instead of replacing it. */
  readonly merges?: boolean;
}
