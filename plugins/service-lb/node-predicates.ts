import { labelOf, labels, type Node, taints, taintsOf } from "cloud-controller-host/sdk";

/** What Go's `strconv.ParseBool` takes for false. Any other value of the label, the empty one too, excludes. */
const falseWords = new Set(["0", "f", "F", "false", "FALSE", "False"]);

const included = (node: Node): boolean => {
  const value = labelOf(node, labels.excludeFromLoadBalancers);
  return value === undefined || falseWords.has(value);
};

/**
 * A node takes traffic when all of these hold, whatever the traffic policy. Readiness is no part of it: the load
 * balancer's own probes see sooner than the API whether a node answers.
 */
const predicates: readonly ((node: Node) => boolean)[] = [
  (node) => node.metadata?.deletionTimestamp === undefined,
  included,
  (node) => !taintsOf(node).some((taint) => taint.key === taints.toBeDeletedByAutoscaler),
];

export const takesTraffic = (node: Node): boolean => predicates.every((holds) => holds(node));

/**
 * Whether a change of a node is reason to look at the load balancers' nodes again. Taints and deletion are not: such a
 * node leaves at the next look, at the latest when it is gone.
 */
export const changesNodeSets = (before: Node, after: Node): boolean =>
  included(before) !== included(after) || (before.spec?.providerID ?? "") !== (after.spec?.providerID ?? "");
