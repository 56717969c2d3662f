import type { Node, Service } from "cloud-controller-host/sdk";

/** The parts that managers act on, without those that they write: a new status or heartbeat is not a change. */
export const relevantService = ({ spec, metadata }: Service): unknown => [
  metadata?.uid,
  metadata?.annotations,
  metadata?.labels,
  metadata?.deletionTimestamp,
  spec,
];

export const relevantNode = ({ spec, status, metadata }: Node): unknown => [
  metadata?.uid,
  metadata?.labels,
  metadata?.deletionTimestamp,
  spec,
  status?.addresses,
  status?.conditions?.find(({ type }) => type === "Ready")?.status,
];
