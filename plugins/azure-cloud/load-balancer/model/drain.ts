import { createHash } from "node:crypto";

import {
  annotationOf,
  isBeingDeleted,
  labelOf,
  labels,
  type Node,
  type Shards,
  taints,
  taintsOf,
} from "cloud-controller-host/sdk";

/**
 * Annotation of a node with the state of its drain. It is written before the node's first address goes down, so that an
 * address is only ever put up again that this cloud has put down, and gets the time once Azure shows all of them down:
 * whatever crashes in between, no connection has less than the drain time.
 */
export const drainRecord = "cloud-controller-host/load-balancer-drain";
export const requested = "requested";

/** Limit of the part of an annotation's key after the slash. */
const maxKeyName = 63;

/**
 * Each deployment has a record of its own, also where several share a load balancer: it puts up what it has put down itself,
 * and none removes the record of another one by what it has read before that one's writes.
 */
export function drainRecordOf(shardSuffix = "", shards?: Shards): string {
  if (shardSuffix !== "" || shards?.isAlive === undefined) return drainRecord + shardSuffix;
  const key = `${drainRecord}.${shards.own}`;
  const isValid = key.length - key.indexOf("/") - 1 <= maxKeyName;
  return isValid ? key : `${drainRecord}.${createHash("sha256").update(shards.own).digest("hex").slice(0, 16)}`;
}

export const noDrain =
  "network interfaces in pools cannot be drained; loadBalancerBackendPoolConfigurationType nodeIP can, and clusterServiceLoadBalancerHealthProbeMode shared takes traffic off a node whose kube-proxy reports it as leaving";

/** Sources: cluster-autoscaler `taints.ToBeDeletedTaint`; Karpenter v1 `DisruptedTaintKey`; k8s.io/api `TaintNodeOutOfService`. */
const leavingTaints = new Set<string>([taints.toBeDeletedByAutoscaler, "karpenter.sh/disrupted", taints.outOfService]);

/** Source: KEP-5683, k8s.io/api 1.37 `NodeConditionType`. Maintenance that is only planned is not among them. */
const leavingConditions = new Set([
  "DrainInProgress",
  "Drained",
  "GracefulNodeShutdownInProgress",
  "MaintenanceInProgress",
]);

/** The sign that a node is about to leave, as messages name it. */
export function drainCause(node: Node): string | undefined {
  const taint = taintsOf(node).find(({ key }) => leavingTaints.has(key));
  if (taint !== undefined) return `taint ${taint.key}`;
  if (labelOf(node, labels.excludeFromLoadBalancers) !== undefined) return `label ${labels.excludeFromLoadBalancers}`;
  const condition = node.status?.conditions?.find(
    ({ type, status }) => status === "True" && leavingConditions.has(type),
  );
  if (condition !== undefined) return `condition ${condition.type}`;
  return isBeingDeleted(node) ? "deletionTimestamp" : undefined;
}

/** `skipped`: the record cannot be written, so that the node leaves in one step. */
type RecordState = "none" | "invalid" | "requested" | "down" | "skipped";

/** A node that is about to leave, or whose record says that it was. */
export interface NodeDrain {
  readonly cause: string | undefined;
  readonly record: RecordState;
  /** Since all addresses are down; 0 before that. */
  readonly elapsedMs: number;
}

/** Undefined for all other nodes. A time in the future is that of a clock that is ahead. */
export function readDrain(node: Node, nowMs: number, record: string): NodeDrain | undefined {
  const cause = drainCause(node);
  const text = annotationOf(node, record);
  if (text === undefined) return cause === undefined ? undefined : { cause, record: "none", elapsedMs: 0 };
  if (text === requested) return { cause, record: "requested", elapsedMs: 0 };
  const sinceMs = Date.parse(text);
  if (Number.isNaN(sinceMs)) return { cause, record: "invalid", elapsedMs: 0 };
  return { cause, record: "down", elapsedMs: Math.max(0, nowMs - sinceMs) };
}

/** An address of a node in one of the cluster's pools. */
export interface DrainPlace {
  /** Lower-case id of the load balancer. */
  readonly balancer: string;
  readonly isDown: boolean;
  /** False while all other members are down or about to leave as well: then this one has to serve. */
  readonly hasOthers: boolean;
  /** Pool of one Service with `externalTrafficPolicy: Local`, which may be empty. */
  readonly isLocal: boolean;
  /** 0: the node leaves in one step. */
  readonly drainMs: number;
}

/**
 * The next state of an address. `undefined`: the same as without a drain. `up` only sets its state; `serve` keeps it with
 * its state up, `down` with its state down, `hold` unchanged; `out` removes it.
 */
export type DrainStep = "up" | "serve" | "down" | "hold" | "out" | undefined;

export function drainStep({ cause, record, elapsedMs }: NodeDrain, place: DrainPlace): DrainStep {
  const { isDown, hasOthers, isLocal, drainMs } = place;
  const isOurs = record !== "none" && record !== "skipped";
  // It may be missing among the nodes of the last sync: without a sign of leaving, it stays.
  if (cause === undefined) return isOurs ? "serve" : undefined;
  if (drainMs === 0) return isOurs && isDown ? "up" : undefined;
  if (record === "skipped") return "out";
  const isOver = record === "down" && elapsedMs >= drainMs;
  if (!hasOthers) return isLocal && isOver ? "out" : isOurs ? "serve" : "hold";
  if (record === "requested") return "down";
  return isOver && isDown ? "out" : "hold";
}

/** The next record: `now` stands for the present time, `none` for no record, `undefined` for no change. */
export function wantedRecord(
  { cause, record }: NodeDrain,
  places: readonly DrainPlace[],
): "requested" | "now" | "none" | undefined {
  if (record === "skipped") return undefined;
  const draining = cause === undefined ? [] : places.filter(({ drainMs }) => drainMs > 0);
  if (draining.length === 0) return record === "none" || places.some(({ isDown }) => isDown) ? undefined : "none";
  if (record === "none" || record === "invalid") return "requested";
  const isDone = draining.every(({ hasOthers, isDown }) => isDown || !hasOthers);
  if (record === "requested") return isDone ? "now" : undefined;
  return isDone ? undefined : "requested";
}
