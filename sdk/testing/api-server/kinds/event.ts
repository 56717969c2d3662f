import { kinds, type KubeEvent } from "cloud-controller-host/sdk";

import { ageOf, type Column, defineResource } from "../resource.ts";
import { event as schema } from "../schema/plain.ts";
import { invalidValue } from "../validation.ts";

const sourceOf = ({ source, reportingComponent, reportingInstance }: KubeEvent): string => {
  const component = source?.component || reportingComponent || "";
  const host = source?.host || reportingInstance || "";
  return host === "" ? component : `${component}, ${host}`;
};

const objectOf = ({ involvedObject: { kind = "", name = "" } }: KubeEvent): string =>
  name === "" ? kind.toLowerCase() : `${kind.toLowerCase()}/${name}`;

/** When it was first seen, for an event that is seen once the time of it. */
const firstSeen = ({ firstTimestamp, eventTime }: KubeEvent, now: number): string =>
  ageOf(firstTimestamp || eventTime, now);

function lastSeen(event: KubeEvent, now: number): string {
  const { series, count = 1 } = event;
  if (series?.count !== undefined)
    return `${ageOf(series.lastObservedTime, now)} (x${series.count} over ${firstSeen(event, now)})`;
  const last = event.lastTimestamp ? ageOf(event.lastTimestamp, now) : firstSeen(event, now);
  return count > 1 ? `${last} (x${count} over ${firstSeen(event, now)})` : last;
}

const columns: readonly Column<KubeEvent>[] = [
  { name: "Last Seen", cell: lastSeen },
  { name: "Type", cell: ({ type }) => type ?? "" },
  { name: "Reason", cell: ({ reason }) => reason ?? "" },
  { name: "Object", cell: objectOf },
  { name: "Subobject", wide: true, cell: ({ involvedObject }) => involvedObject.fieldPath ?? "" },
  { name: "Source", wide: true, cell: sourceOf },
  { name: "Message", cell: ({ message }) => (message ?? "").trim() },
  { name: "First Seen", wide: true, cell: firstSeen },
  { name: "Count", wide: true, cell: ({ count, series }) => String(series?.count ?? count ?? 1) },
  { name: "Name", wide: true, cell: ({ metadata }) => metadata.name ?? "" },
];

export const event = defineResource<KubeEvent>({
  kind: kinds.Event,
  singular: "event",
  shortNames: ["ev"],
  schema,
  createOnUpdate: true,
  columns,
  fields: ({ involvedObject: object, reason = "", type = "", source, reportingComponent }) => ({
    "involvedObject.kind": object?.kind ?? "",
    "involvedObject.namespace": object?.namespace ?? "",
    "involvedObject.name": object?.name ?? "",
    "involvedObject.uid": object?.uid ?? "",
    "involvedObject.apiVersion": object?.apiVersion ?? "",
    "involvedObject.resourceVersion": object?.resourceVersion ?? "",
    "involvedObject.fieldPath": object?.fieldPath ?? "",
    reason,
    type,
    reportingComponent: reportingComponent ?? "",
    source: source?.component || reportingComponent || "",
  }),
  /** An event about a cluster-scoped object is kept in `default`. */
  problems: ({ involvedObject, metadata }) =>
    (involvedObject.namespace || "default") === metadata.namespace
      ? []
      : [invalidValue("involvedObject.namespace", involvedObject.namespace ?? "", "does not match event.namespace")],
});
