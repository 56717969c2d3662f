import { type KindRef, kinds, type ServiceAccount } from "cloud-controller-host/sdk";

import { defineResource, type Resource } from "../resource.ts";
import * as schemas from "../schema/plain.ts";
import { configMap, secret } from "./data.ts";
import { event } from "./event.ts";
import { lease } from "./lease.ts";
import { namespace } from "./namespace.ts";
import { node } from "./node.ts";
import { pod } from "./pod.ts";
import { endpointSlice, service } from "./service.ts";

/** Every kind that the server always has. */
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
