import { kindSchema, objectMeta } from "./metadata.ts";
import { plainCondition } from "./node.ts";
import {
  anything,
  atomic,
  boolean,
  bytes,
  integer,
  listBy,
  mapOf,
  microTime,
  need,
  openRecord,
  pointer,
  record,
  type RecordSchema,
  text,
  time,
} from "./schema.ts";
import { objectReference } from "./service.ts";

const core = "io.k8s.api.core.v1";
const coordination = "io.k8s.api.coordination.v1";

export const lease = kindSchema(`${coordination}.Lease`, {
  spec: need(
    record(`${coordination}.LeaseSpec`, {
      holderIdentity: pointer(text),
      leaseDurationSeconds: pointer(integer),
      acquireTime: microTime,
      renewTime: microTime,
      leaseTransitions: pointer(integer),
      strategy: pointer(text),
      preferredHolder: pointer(text),
    }),
  ),
});

export const event = kindSchema(`${core}.Event`, {
  involvedObject: need(objectReference),
  reason: text,
  message: text,
  source: need(record(`${core}.EventSource`, { component: text, host: text })),
  firstTimestamp: need(time),
  lastTimestamp: need(time),
  count: integer,
  type: text,
  eventTime: need(microTime),
  series: record(`${core}.EventSeries`, { count: integer, lastObservedTime: microTime }),
  action: text,
  related: objectReference,
  reportingComponent: need(text),
  reportingInstance: need(text),
});

export const configMap = kindSchema(`${core}.ConfigMap`, {
  data: mapOf(text),
  binaryData: mapOf(bytes),
  immutable: pointer(boolean),
});

export const secret = kindSchema(`${core}.Secret`, {
  data: mapOf(bytes),
  stringData: mapOf(text),
  type: text,
  immutable: pointer(boolean),
});

export const namespace = kindSchema(`${core}.Namespace`, {
  spec: need(record(`${core}.NamespaceSpec`, { finalizers: atomic(text) })),
  status: need(
    record(`${core}.NamespaceStatus`, {
      phase: text,
      conditions: listBy(["type"], plainCondition("NamespaceCondition", { lastTransitionTime: time })),
    }),
  ),
});

export const serviceAccount = kindSchema(`${core}.ServiceAccount`, {
  secrets: listBy(["name"], objectReference),
  imagePullSecrets: atomic(record(`${core}.LocalObjectReference`, { name: need(text) })),
  automountServiceAccountToken: pointer(boolean),
});

/** A kind whose own fields are stored without validation. */
export const openKind = (name: string): RecordSchema =>
  openRecord(name, { apiVersion: text, kind: text, metadata: need(objectMeta), spec: anything, status: anything });
