import { kinds, type Namespace } from "cloud-controller-host/sdk";

import { forbidden, type Named } from "../access/status.ts";
import { ageColumn, defineResource, nameColumn } from "../resource.ts";
import { namespace as schema } from "../schema/plain.ts";

const nameLabel = "kubernetes.io/metadata.name";

/** The finalizer of every namespace; it is removed once the contents are deleted. */
export const clusterFinalizer = "kubernetes";

/** Namespaces that cannot be deleted. */
const permanent = new Set(["default", "kube-system", "kube-public"]);

export const namespaceKind: Named = { group: "", plural: "namespaces", kind: "Namespace" };

/** Throws a 403 for a namespace that cannot be deleted. */
export function assertDeletable(resource: Named, name: string): void {
  if (resource.plural === namespaceKind.plural && permanent.has(name))
    throw forbidden(namespaceKind, name, "this namespace may not be deleted");
}

/** The phase follows the deletion; a new namespace has the cluster's finalizer and is labeled with its name. */
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
