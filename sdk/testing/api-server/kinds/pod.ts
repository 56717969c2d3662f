import type { V1Pod } from "@kubernetes/client-node";
import { defineKind, type Wire } from "cloud-controller-host/sdk";

import { ageColumn, type Column, defineResource, nameColumn } from "../resource.ts";
import { openKind } from "../schema/plain.ts";

type Pod = Wire<V1Pod>;

const readyOf = ({ spec, status }: Pod): string => {
  const ready = (status?.containerStatuses ?? []).filter((container) => container.ready).length;
  return `${ready}/${spec?.containers?.length ?? 0}`;
};

const restartsOf = ({ status }: Pod): string =>
  String((status?.containerStatuses ?? []).reduce((sum, { restartCount }) => sum + restartCount, 0));

const columns: readonly Column<Pod>[] = [
  nameColumn,
  { name: "Ready", cell: readyOf },
  { name: "Status", cell: ({ status }) => status?.reason ?? status?.phase ?? "Pending" },
  { name: "Restarts", cell: restartsOf },
  ageColumn,
  { name: "IP", wide: true, cell: ({ status }) => status?.podIP ?? "<none>" },
  { name: "Node", wide: true, cell: ({ spec }) => spec?.nodeName ?? "<none>" },
  { name: "Nominated Node", wide: true, cell: ({ status }) => status?.nominatedNodeName ?? "<none>" },
  { name: "Readiness Gates", wide: true, cell: () => "<none>" },
];

/** Pods are stored but never run: controllers list the Pods of a node. */
export const pod = defineResource<Pod>({
  kind: defineKind<Pod>({ group: "", version: "v1", kind: "Pod", plural: "pods", namespaced: true }),
  singular: "pod",
  shortNames: ["po"],
  categories: ["all"],
  schema: openKind("io.k8s.api.core.v1.Pod"),
  status: true,
  statusOnCreate: true,
  returnsDeleted: true,
  columns,
  fields: ({ spec, status }) => ({
    "spec.nodeName": spec?.nodeName ?? "",
    "spec.restartPolicy": spec?.restartPolicy ?? "",
    "spec.schedulerName": spec?.schedulerName ?? "",
    "spec.serviceAccountName": spec?.serviceAccountName ?? "",
    "status.phase": status?.phase ?? "",
    "status.podIP": status?.podIP ?? "",
    "status.nominatedNodeName": status?.nominatedNodeName ?? "",
  }),
});
