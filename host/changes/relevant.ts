import type { Node, Service } from "cloud-controller-host/sdk";

/** What managers act on, without what they write themselves: a status, or a heartbeat, is not a change. */
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
