import {
  finalizers,
  hasFinalizer,
  isBeingDeleted,
  isUninitialized,
  labelOf,
  labels,
  loadBalancerReady,
  type Node,
  readyStatus,
  type Service,
  taints,
  taintsOf,
} from "cloud-controller-host/sdk";

import type { WriteRecord } from "../process/writes/record.ts";
import type { NodeRow, ServiceRow, WriteRow } from "./schema.ts";

export function serviceRow(service: Service): ServiceRow {
  const { metadata, spec, status } = service;
  const { state, cause, since } = stateOf(service);
  return {
    namespace: metadata?.namespace ?? "",
    name: metadata?.name ?? "",
    state,
    type: spec?.type ?? "ClusterIP",
    addresses: addressesOf(status?.loadBalancer?.ingress ?? []),
    cause,
    ...(since !== undefined && { since }),
  };
}

const addressesOf = (ingress: readonly { readonly ip?: string; readonly hostname?: string }[]): string =>
  ingress.map(({ ip, hostname }) => ip ?? hostname ?? "").join(", ");

/** The state of a Service, from what its controller has written on it: it is the same on every replica. */
function stateOf(service: Service): Pick<ServiceRow, "state" | "cause" | "since"> {
  const { metadata, spec, status } = service;
  const condition = status?.conditions?.find(({ type }) => type === loadBalancerReady.type);
  const created = metadata?.creationTimestamp;
  const type = spec?.type ?? "ClusterIP";
  const isServed = hasFinalizer(service, finalizers.loadBalancerCleanup);
  if (type !== "LoadBalancer" && !isServed) return { state: "not managed", cause: `type ${type}` };
  if (spec?.loadBalancerClass !== undefined && !isServed)
    return { state: "not managed", cause: `loadBalancerClass ${spec.loadBalancerClass}` };
  if (condition?.status === "False")
    return { state: "failing", cause: condition.message || condition.reason, since: condition.lastTransitionTime };
  if (isBeingDeleted(service)) {
    const cause = `waits for ${metadata?.finalizers?.join(", ") ?? "its deletion"}`;
    return { state: "deleting", cause, ...sinceOf(metadata?.deletionTimestamp) };
  }
  if (type !== "LoadBalancer")
    return { state: "deleting", cause: `its type is ${type}, and its load balancer is removed` };
  if ((status?.loadBalancer?.ingress ?? []).length > 0)
    return { state: "ready", cause: condition?.message ?? "", ...sinceOf(condition?.lastTransitionTime ?? created) };
  return { state: "waiting", cause: "has no address yet", ...sinceOf(created) };
}

const sinceOf = (since: string | undefined): { readonly since?: string } => (since === undefined ? {} : { since });

export function nodeRow(node: Node): NodeRow {
  const { metadata, spec, status } = node;
  const network = status?.conditions?.find(({ type }) => type === "NetworkUnavailable");
  return {
    name: metadata?.name ?? "",
    state: nodeState(node),
    zone: labelOf(node, labels.zone) ?? "",
    addresses: (status?.addresses ?? []).map(({ address }) => address).join(", "),
    cidrs: (spec?.podCIDRs ?? []).join(", "),
    routes: network === undefined ? "" : network.status === "False" ? "ready" : (network.message ?? "not ready"),
    providerID: spec?.providerID ?? "",
    notInPool: reasonNotInPool(node),
    ...sinceOf(metadata?.creationTimestamp),
  };
}

function nodeState(node: Node): NodeRow["state"] {
  if (isUninitialized(node)) return "uninitialized";
  if (taintsOf(node).some(({ key }) => key === taints.shutdown)) return "shut down";
  return readyStatus(node) === "True" ? "ready" : "not ready";
}

/** Source: kubernetes/cloud-provider `controllers/service`, the predicates of nodes. */
function reasonNotInPool(node: Node): string {
  if (isUninitialized(node)) return "not initialized";
  if (node.spec?.providerID === undefined || node.spec.providerID === "") return "no provider ID";
  if (labelOf(node, labels.excludeFromLoadBalancers) !== undefined) return `label ${labels.excludeFromLoadBalancers}`;
  return taintsOf(node).some(({ key }) => key === taints.toBeDeletedByAutoscaler) ? "the autoscaler deletes it" : "";
}

export const writeRow = (write: WriteRecord): WriteRow => ({
  at: write.at,
  controller: write.controller,
  system: write.system,
  operation: write.operation,
  resource: write.resource,
  outcome: write.error === undefined ? "done" : ["failed:", write.status ?? "", write.error].join(" "),
  causes: write.causes.join(", "),
  changed: write.fields.map(({ path }) => path).join(", "),
  milliseconds: write.milliseconds,
  generation: write.generation,
  correlationId: write.correlationId ?? "",
});
