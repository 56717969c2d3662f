import { kinds, type Namespace } from "cloud-controller-host/sdk";

import { ageColumn, defineResource, nameColumn } from "../resource.ts";
import { namespace as schema } from "../schema/plain.ts";

const nameLabel = "kubernetes.io/metadata.name";

/** What the cluster itself has to do before a namespace goes: take out what is in it. */
export const clusterFinalizer = "kubernetes";

/** The phase follows the deletion; a new namespace has the cluster's finalizer and is labelled with its name. */
function prepare(next: Namespace, before: Namespace | undefined): Namespace {
  const { metadata = {}, spec, status } = next;
  const phase = metadata.deletionTimestamp === undefined ? "Active" : "Terminating";
  const labels = { ...metadata.labels, [nameLabel]: metadata.name ?? "" };
  const finalizers =
    before === undefined ? [...new Set([...(spec?.finalizers ?? []), clusterFinalizer])] : (spec?.finalizers ?? []);
  return { ...next, metadata: { ...metadata, labels }, spec: { finalizers }, status: { ...status, phase } };
}

export const namespace = defineResource<Namespace>({
  kind: kinds.Namespace,
  singular: "namespace",
  shortNames: ["ns"],
  schema,
  status: true,
  finalize: true,
  deleteCollection: false,
  nameRule: "label",
  columns: [nameColumn, { name: "Status", cell: ({ status }) => status?.phase ?? "" }, ageColumn],
  fields: ({ status }) => ({ "status.phase": status?.phase ?? "" }),
  finalizers: ({ metadata, spec }) => [...(metadata?.finalizers ?? []), ...(spec?.finalizers ?? [])],
  prepare,
});
