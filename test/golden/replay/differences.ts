import { isObject } from "cloud-controller-host/sdk";

import { type JsonObject, objectAt, objectsAt, stringAt } from "../../../plugins/azure-cloud/json.ts";
import type { GoldenCase, RecordedStep } from "./cases.ts";
import { withoutChangeOfFamily, withoutPendingUpdates, withoutRefusedAddresses } from "./failing-services.ts";
import {
  withIgnoredModes,
  withIPTags,
  withoutDepartedNodes,
  withoutOtherKind,
  withoutUnusedProbe,
  withReturnedNode,
} from "./left-behind.ts";
import { withPlacedNodes } from "./placement.ts";
import { invalidServices, refused, refusedServices, withoutResourcesOf } from "./refused.ts";
import { isRouteTable, withAvailableNetwork, withCurrentRoutes } from "./routes.ts";
import { withDeniedShared, withInvalidRanges, withoutStaleRules } from "./security-rules.ts";
import { withKeptAddresses, withKeptBalancers } from "./shared-frontends.ts";
import type { Snapshot } from "./snapshot.ts";

/** One way in which ours rightly differs from what the Go provider did. */
export interface Difference {
  readonly what: string;
  readonly reason: string;
  /** The snapshot of a step as ours should be. */
  readonly ours: (recorded: Snapshot, golden: GoldenCase, step: RecordedStep) => Snapshot;
}

const isSecurityGroup = (id: string): boolean => id.includes("/networksecuritygroups/");

const mapValues = (
  values: Readonly<Record<string, unknown>>,
  change: (key: string, value: unknown) => unknown,
): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(values).map(([key, value]) => [key, change(key, value)]));

export const differences: readonly Difference[] = [
  {
    what: "a shared frontend keeps its address as long as other Services use it",
    reason:
      "the Go provider gives it the new address of the Service that created it, silently moves the other Services to it, and never removes it",
    ours: withKeptAddresses,
  },
  {
    what: "nothing of a Service that is refused, or that is gone",
    reason:
      "nothing is written for a Service whose annotations are invalid, and it can be deleted; the Go provider writes the public IP, or even the load balancer, before it refuses, and cannot delete a Service whose access settings contradict each other",
    ours: (recorded, golden) => refusedServices(recorded, golden).reduce(withoutResourcesOf, recorded),
  },
  {
    what: "no public IP of a family that a Service does not have any more",
    reason: "the Go provider looks at the public IPs of the families that the Service has now",
    ours: (recorded) => ({
      ...recorded,
      arm: Object.fromEntries(Object.entries(recorded.arm).filter(([id]) => !isLeftIPv6(id, recorded))),
    }),
  },
  {
    what: "a Service with an invalid annotation, or without the node port that is to be probed, is refused",
    reason: "the Go provider does not look at some values in some modes, and sends others to Azure, which rejects them",
    ours: (recorded, golden) => refused(recorded, invalidServices(golden)),
  },
  {
    what: "the public IP has the IP tags of the annotation",
    reason:
      "IP tags of a public IP are fixed when it is created, so that ours creates it again; the Go provider removes its frontend first and leaves the rest of the load balancer in a state that Azure rejects",
    ours: withIPTags,
  },
  {
    what: "nothing on the load balancer of the other kind",
    reason:
      "the Go provider starts again after it has deleted the private link service of a frontend, and then looks at the load balancer of the wanted kind alone",
    ours: (recorded, _golden, step) => withoutOtherKind(recorded, step),
  },
  {
    what: "no shared probe without a rule",
    reason: "the Go provider removes it only if a Service that becomes local was the last one, and with a single port",
    ours: withoutUnusedProbe,
  },
  {
    what: "the address of a node that came back",
    reason: "the Go provider does not write a pool again when a new node gets its address",
    ours: withReturnedNode,
  },
  {
    what: "a Service whose mode names an unknown set keeps what it had",
    reason: "the Go provider deletes its load balancer first, and refuses the change then",
    ours: withKeptBalancers,
  },
  {
    what: "no node of an availability set in a pool after it was excluded or deleted",
    reason: "the Go provider mistakes `loadBalancerName` for the name of an availability set, and finds no nodes in it",
    ours: withoutDepartedNodes,
  },
  {
    what: "every node on the load balancer of its set, and no load balancer without nodes",
    reason:
      "of several load balancers, the Go provider takes a node that was excluded for placed when it returns, and empties the pools of a load balancer whose nodes go to one that is created later, although it fills those of one that never had nodes",
    ours: withPlacedNodes,
  },
  {
    what: "a warning about a mode that has no effect",
    reason: "the Go provider writes it to its log only, which the owner of the Service does not see",
    ours: withIgnoredModes,
  },
  {
    what: "a warning about a source range that is not a CIDR",
    reason: "the Go provider denies all traffic and writes it to its log; its event comes with the deletion, if at all",
    ours: (recorded, _golden, step) => withInvalidRanges(recorded, step),
  },
  {
    what: "no security rule for an address or a port that no Service has, or for a node without traffic",
    reason:
      "the Go provider keeps the address of a node that is excluded, and the destination of a Service that has just moved or has floating IP again, because it uses the current status and annotations, and removes them in a later reconcile, if at all",
    ours: (recorded, golden, step) => ({
      ...recorded,
      arm: mapValues(recorded.arm, (id, value) =>
        isSecurityGroup(id) ? withoutStaleRules(value, { recorded, golden, step }) : value,
      ),
    }),
  },
  {
    what: "a Service that denies everything else does so for a shared address, too",
    reason: "the Go provider opens the address again for all when it handles another Service that shares it",
    ours: (recorded, golden, step) => ({
      ...recorded,
      arm: mapValues(recorded.arm, (id, value) =>
        isSecurityGroup(id) ? withDeniedShared(value, { recorded, golden, step }) : value,
      ),
    }),
  },
  {
    what: "the route of a node that is gone is removed, and that of a new one is there, in the first pass",
    reason: "the Go provider collects changes of routes for 30 s",
    ours: (recorded, golden, step) => ({
      ...recorded,
      arm: mapValues(recorded.arm, (id, value) =>
        isRouteTable(id, golden) ? withCurrentRoutes(value, golden, step) : value,
      ),
    }),
  },
  {
    what: "the network of a node is available as soon as its route is there",
    reason: "the Go provider sets the condition in a later pass",
    ours: (recorded) => ({
      ...recorded,
      nodes: mapValues(recorded.nodes, (_name, node) => withAvailableNetwork(node)),
    }),
  },
  {
    what: "the warning about a node without a load balancer is recorded on the node",
    reason:
      "the Go provider records it on the Service that it handles at the time, also for nodes that get a place once their load balancer is created",
    ours: (recorded) => ({
      ...recorded,
      events: recorded.events.filter((event) => !event.endsWith("Warning FailedToFindLoadBalancerForNode")),
    }),
  },
  {
    what: "no public IP for a change that is refused",
    reason:
      "the Go provider creates the new public IP of a Service before it reads its other annotations and compares its ports with those of other Services",
    ours: withoutRefusedAddresses,
  },
  {
    what: "no attempt to change the family of a public IP",
    reason: "the family of a public IP cannot be changed, so that the Service is refused without a request",
    ours: withoutChangeOfFamily,
  },
  {
    what: "the nodes of a Service that fails are left to its next attempt",
    reason:
      "the Go provider updates it as well when nodes change, which fails as its sync did, or reports an update of a load balancer that does not exist",
    ours: withoutPendingUpdates,
  },
  {
    what: "no write of a backend pool without members",
    reason:
      "the Go provider adds nodes without an address of the pool's family, removes them again and writes the pool's virtual network alone",
    ours: withoutEmptyPools,
  },
];

/** The IPv6 address of a dual-stack Service that has no frontend for it, beside that of IPv4. */
function isLeftIPv6(id: string, { arm }: Snapshot): boolean {
  if (!/\/publicipaddresses\/.+-ipv6$/u.test(id) || JSON.stringify(arm).includes(`"publicIPAddress":"${id}"`))
    return false;
  const tags = isObject(arm[id]) ? objectAt(arm[id], "tags") : undefined;
  return stringAt(tags, "k8s-azure-service") !== undefined;
}

/** A snapshot without the virtual networks of pools that have no members. */
export function withoutEmptyPools(recorded: Snapshot): Snapshot {
  const arm = mapValues(recorded.arm, (id, value) =>
    id.includes("/loadbalancers/") && isObject(value) ? withoutEmptyPoolsOf(value) : value,
  );
  return { ...recorded, arm };
}

function withoutEmptyPoolsOf(balancer: JsonObject): JsonObject {
  const properties = objectAt(balancer, "properties") ?? {};
  const pools = objectsAt(properties, "backendAddressPools");
  const written = ({ properties: inner, ...pool }: JsonObject): JsonObject =>
    isObject(inner) && inner["loadBalancerBackendAddresses"] !== undefined ? { ...pool, properties: inner } : pool;
  return pools.length === 0
    ? balancer
    : { ...balancer, properties: { ...properties, backendAddressPools: pools.map(written) } };
}
