import {
  anything,
  atomic,
  boolean,
  integer,
  listBy,
  mapOf,
  need,
  pointer,
  record,
  type RecordSchema,
  type Schema,
  setOf,
  text,
  time,
} from "./schema.ts";

const meta = "io.k8s.apimachinery.pkg.apis.meta.v1";

const ownerReference = record(`${meta}.OwnerReference`, {
  apiVersion: need(text),
  kind: need(text),
  name: need(text),
  uid: need(text),
  controller: pointer(boolean),
  blockOwnerDeletion: pointer(boolean),
});

const managedFields = record(`${meta}.ManagedFieldsEntry`, {
  manager: text,
  operation: text,
  apiVersion: text,
  time,
  fieldsType: text,
  fieldsV1: anything,
  subresource: text,
});

export const objectMeta = record(`${meta}.ObjectMeta`, {
  name: text,
  generateName: text,
  namespace: text,
  selfLink: text,
  uid: text,
  resourceVersion: text,
  generation: integer,
  creationTimestamp: time,
  deletionTimestamp: time,
  deletionGracePeriodSeconds: pointer(integer),
  labels: mapOf(text),
  annotations: mapOf(text),
  ownerReferences: listBy(["uid"], ownerReference),
  finalizers: setOf(text),
  managedFields: atomic(managedFields),
});

export const condition = record(`${meta}.Condition`, {
  type: need(text),
  status: need(text),
  observedGeneration: integer,
  lastTransitionTime: need(time),
  reason: need(text),
  message: need(text),
});

/** A kind's whole schema: the fields of every object, and its own. */
export const kindSchema = (name: string, fields: Readonly<Record<string, Schema>>): RecordSchema =>
  record(name, { apiVersion: text, kind: text, metadata: need(objectMeta), ...fields });
