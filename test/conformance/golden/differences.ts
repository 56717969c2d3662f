import ipaddr from "ipaddr.js";

import { isObject, objectAt, objectsAt, stringAt } from "../../../plugins/azure-cloud/json.ts";
import type { Snapshot } from "./snapshot.ts";

/** One way in which ours rightly differs from what the Go provider did. */
export interface Difference {
  readonly what: string;
  readonly reason: string;
  /** Recorded cases that it concerns; undefined: all in which it makes a difference. */
  readonly cases?: readonly string[];
  /** The snapshot of a step as ours should be. */
  readonly ours: (recorded: Snapshot, step: string) => Snapshot;
}

const without = (values: Readonly<Record<string, unknown>>, isLeft: (key: string, value: unknown) => boolean) =>
  Object.fromEntries(Object.entries(values).filter(([key, value]) => !isLeft(key, value)));

/** Names of Services whose load balancer could not be made. */
const failedServices = ({ events }: Snapshot): readonly string[] =>
  events.filter((event) => event.endsWith("Warning SyncLoadBalancerFailed")).map((event) => event.split(" ")[0] ?? "");

export const differences: readonly Difference[] = [
  {
    what: "no public IP of a Service that is refused",
    reason:
      "nothing is written for a Service whose annotations are invalid; the Go provider creates the public IP first",
    ours(recorded) {
      const failed = failedServices(recorded);
      const isTheirs = (value: unknown): boolean =>
        failed.some((name) => JSON.stringify(value).includes(`"k8s-azure-service":"default/${name}"`));
      return {
        ...recorded,
        arm: without(recorded.arm, (id, value) => id.includes("/publicipaddresses/") && isTheirs(value)),
      };
    },
  },
  {
    what: "no security rule for an address that no Service has",
    reason:
      "the Go provider keeps the destination of a Service that has just moved, because its status is still the old one, and removes it in the next reconcile",
    ours: (recorded) => ({
      ...recorded,
      arm: Object.fromEntries(
        Object.entries(recorded.arm).map(([id, value]) => [
          id,
          id.includes("/networksecuritygroups/") ? withoutStale(value, JSON.stringify(recorded.services)) : value,
        ]),
      ),
    }),
  },
];

/** An address that something of the snapshot has is named after it; a private one may be that of a node. */
const isStale = (destination: unknown, held: string): boolean =>
  typeof destination === "string" && isPublic(destination) && !held.includes(JSON.stringify(destination));

const isPublic = (text: string): boolean => ipaddr.isValid(text) && ipaddr.parse(text).range() === "unicast";

/** A security group without the managed rules of which every destination is stale. */
function withoutStale(group: unknown, held: string): unknown {
  if (!isObject(group)) return group;
  const properties = objectAt(group, "properties") ?? {};
  const securityRules = objectsAt(properties, "securityRules").flatMap((rule) => {
    const inner = objectAt(rule, "properties") ?? {};
    if (!(stringAt(rule, "name") ?? "").startsWith("k8s-azure-lb_")) return [rule];
    const many = inner["destinationAddressPrefixes"];
    const all: readonly unknown[] = Array.isArray(many) ? many : [inner["destinationAddressPrefix"]];
    const kept = all.filter((destination) => !isStale(destination, held));
    if (kept.length === all.length) return [rule];
    if (kept.length === 0) return [];
    const { destinationAddressPrefix: _one, destinationAddressPrefixes: _many, ...others } = inner;
    const destinations =
      kept.length === 1 ? { destinationAddressPrefix: kept[0] } : { destinationAddressPrefixes: kept };
    return [{ ...rule, properties: { ...others, ...destinations } }];
  });
  return { ...group, properties: { ...properties, securityRules } };
}
