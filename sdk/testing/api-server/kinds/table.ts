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

/** A kind without a schema, such as the custom resource of a plugin. */
export function customResource(kind: KindRef): Resource {
  return defineResource({
    kind,
    singular: kind.kind.toLowerCase(),
    schema: schemas.openKind(`${kind.group.split(".").toReversed().join(".")}.${kind.version}.${kind.kind}`),
    status: true,
    generation: "content",
  });
}
