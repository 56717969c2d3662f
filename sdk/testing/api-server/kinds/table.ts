import { type KindRef, kinds, type Lease, type ServiceAccount } from "cloud-controller-host/sdk";

import { ageColumn, defineResource, nameColumn, type Resource } from "../resource.ts";
import * as schemas from "../schema/plain.ts";
import { invalidValue } from "../validation.ts";
import { configMap, secret } from "./data.ts";
import { event } from "./event.ts";
import { namespace } from "./namespace.ts";
import { node } from "./node.ts";
import { pod } from "./pod.ts";
import { endpointSlice, service } from "./service.ts";

const lease = defineResource<Lease>({
  kind: kinds.Lease,
  singular: "lease",
  schema: schemas.lease,
  createOnUpdate: true,
  conditionalUpdate: true,
  columns: [nameColumn, { name: "Holder", cell: ({ spec }) => spec?.holderIdentity ?? "" }, ageColumn],
  problems: ({ spec: { leaseDurationSeconds: seconds = 1, leaseTransitions: transitions = 0 } = {} }) => [
    ...(seconds > 0 ? [] : [invalidValue("spec.leaseDurationSeconds", seconds, "must be greater than 0")]),
    ...(transitions >= 0
      ? []
      : [invalidValue("spec.leaseTransitions", transitions, "must be greater than or equal to 0")]),
  ],
});

/** The built-in kinds. */
export const builtInResources: readonly Resource[] = [
  node,
  lease,
  configMap,
  secret,
  defineResource<ServiceAccount>({
    kind: kinds.ServiceAccount,
    singular: "serviceaccount",
    shortNames: ["sa"],
    schema: schemas.serviceAccount,
    returnsDeleted: true,
  }),
  service,
  endpointSlice,
  namespace,
  event,
  pod,
];

/** Groups of Kubernetes itself. Those of custom resources have names of domains, also of its own: `gateway.networking.k8s.io`. */
const isBuiltIn = (group: string): boolean => !group.includes(".") || builtInGroups.has(group);
const builtInGroups: ReadonlySet<string> = new Set([
  "admissionregistration.k8s.io",
  "apiextensions.k8s.io",
  "apiregistration.k8s.io",
  "certificates.k8s.io",
  "coordination.k8s.io",
  "discovery.k8s.io",
  "events.k8s.io",
  "flowcontrol.apiserver.k8s.io",
  "networking.k8s.io",
  "node.k8s.io",
  "rbac.authorization.k8s.io",
  "resource.k8s.io",
  "scheduling.k8s.io",
  "storage.k8s.io",
]);

/**
 * A kind without a schema, such as the custom resource of a plugin. Source: apiextensions-apiserver
 * `customresource/strategy.go` and `status_strategy.go`, kubernetes `policy/poddisruptionbudget/strategy.go`.
 */
export function customResource(kind: KindRef): Resource {
  const custom = !isBuiltIn(kind.group);
  return defineResource({
    kind,
    singular: kind.kind.toLowerCase(),
    schema: schemas.openKind(`${kind.group.split(".").toReversed().join(".")}.${kind.version}.${kind.kind}`),
    status: true,
    custom,
    conditionalUpdate: custom || kind.group === kinds.PodDisruptionBudget.group,
    generation: "content",
  });
}
