import type { Draft, Resource } from "./store.ts";
import type { SubscriptionState } from "./subscription-state.ts";

/** A write of one resource, while it is decided what will be stored. */
export interface WriteContext {
  readonly id: string;
  readonly previous: Resource | undefined;
  readonly state: SubscriptionState;
  /** A test or a seed stores what it likes: references are not checked and addresses are taken as they are. */
  readonly seeding: boolean;
  /** The property of sub-resources that the request is for; undefined when it is for the resource itself. */
  readonly child: string | undefined;
}

/** What ARM does of its own accord for one type; refusals are thrown as `ArmFault`. */
interface ResourceRules {
  /** Checks a resource and fills in what the service decides (addresses, names) before it is stored. */
  prepare?(draft: Draft, context: WriteContext): Draft;
  /** Follows a write up in other resources, such as back-references. */
  stored?(resource: Resource, previous: Resource | undefined, state: SubscriptionState): void;
  /** Refuses to remove what is in use. */
  checkRemoval?(resource: Resource, state: SubscriptionState): void;
  /** Follows a removal up in other resources. */
  removed?(resource: Resource, state: SubscriptionState): void;
  /** The resource as it is read: with references that others hold to it. */
  view?(resource: Resource, state: SubscriptionState): Resource;
}

export interface ResourceType extends ResourceRules {
  /** `Microsoft.Network/loadBalancers` */
  readonly type: string;
  /** Array properties whose items are sub-resources with an id, an etag and a path of their own. */
  readonly children?: readonly string[];
  /** Properties that are shown only where `$expand` asks for them. */
  readonly expandable?: readonly string[];
  /** A write lays its body over what is there instead of replacing it. */
  readonly merges?: boolean;
}
