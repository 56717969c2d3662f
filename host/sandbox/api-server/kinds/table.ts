import {
  type ConfigMap,
  type KindRef,
  kinds,
  type Lease,
  type Secret,
  type ServiceAccount,
} from "cloud-controller-host/sdk";

import { ageColumn, defineResource, nameColumn, type Resource } from "../resource.ts";
import * as schemas from "../schema/plain.ts";
import { event } from "./event.ts";
import { namespace } from "./namespace.ts";
import { node } from "./node.ts";
import { pod } from "./pod.ts";
import { endpointSlice, service } from "./service.ts";

const count = (map: Readonly<Record<string, unknown>> | undefined): number => Object.keys(map ?? {}).length;

/** Every kind that the server always has. */
export const builtInResources: readonly Resource[] = [
  node,
  defineResource<Lease>({
    kind: kinds.Lease,
    singular: "lease",
    schema: schemas.lease,
    createOnUpdate: true,
    conditionalUpdate: true,
    columns: [nameColumn, { name: "Holder", cell: ({ spec }) => spec?.holderIdentity ?? "" }, ageColumn],
  }),
  defineResource<ConfigMap>({
    kind: kinds.ConfigMap,
    singular: "configmap",
    shortNames: ["cm"],
    schema: schemas.configMap,
    columns: [nameColumn, { name: "Data", cell: ({ data, binaryData }) => count(data) + count(binaryData) }, ageColumn],
  }),
  defineResource<Secret>({
    kind: kinds.Secret,
    singular: "secret",
    schema: schemas.secret,
    columns: [
      nameColumn,
      { name: "Type", cell: ({ type }) => type ?? "" },
      { name: "Data", cell: ({ data }) => count(data) },
      ageColumn,
    ],
    fields: ({ type }) => ({ type: type ?? "" }),
    prepare: withStringData,
  }),
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

/** `stringData` is written into `data` and not kept; a Secret without a type is `Opaque`. */
function withStringData({ stringData, ...secret }: Secret): Secret {
  const encoded = Object.entries(stringData ?? {}).map(([key, value]) => [key, Buffer.from(value).toString("base64")]);
  return {
    ...secret,
    type: secret.type ?? "Opaque",
    ...(encoded.length === 0 ? {} : { data: { ...secret.data, ...Object.fromEntries(encoded) } }),
  };
}

/** A kind that the server stores without knowing its fields, such as the custom resource of a plugin. */
export function customResource(kind: KindRef): Resource {
  return defineResource({
    kind,
    singular: kind.kind.toLowerCase(),
    schema: schemas.openKind(`${kind.group.split(".").toReversed().join(".")}.${kind.version}.${kind.kind}`),
    status: true,
    generation: "content",
  });
}
