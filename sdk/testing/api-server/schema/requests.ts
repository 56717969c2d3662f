import { objectMeta } from "./metadata.ts";
import { atomic, boolean, integer, need, pointer, record, type RecordSchema, type Schema, text } from "./schema.ts";

const meta = "io.k8s.apimachinery.pkg.apis.meta.v1";
const authentication = "io.k8s.api.authentication.v1";
const authorization = "io.k8s.api.authorization.v1";

/** Objects that are not stored. Unknown fields are accepted: the schema is for the protobuf form. */
const request = (name: string, spec?: Schema): RecordSchema =>
  record(name, { apiVersion: text, kind: text, metadata: need(objectMeta), ...(spec === undefined ? {} : { spec }) });

export const deleteOptions = record(`${meta}.DeleteOptions`, {
  apiVersion: text,
  kind: text,
  gracePeriodSeconds: pointer(integer),
  preconditions: record(`${meta}.Preconditions`, { uid: pointer(text), resourceVersion: pointer(text) }),
  orphanDependents: pointer(boolean),
  propagationPolicy: pointer(text),
  dryRun: atomic(text),
});

export const eviction = record("io.k8s.api.policy.v1.Eviction", {
  apiVersion: text,
  kind: text,
  metadata: need(objectMeta),
  deleteOptions,
});

const attributes = {
  resourceAttributes: record(`${authorization}.ResourceAttributes`, {
    namespace: text,
    verb: text,
    group: text,
    version: text,
    resource: text,
    subresource: text,
    name: text,
  }),
  nonResourceAttributes: record(`${authorization}.NonResourceAttributes`, { path: text, verb: text }),
};

const subjectAccess = record(`${authorization}.SubjectAccessReviewSpec`, {
  ...attributes,
  user: text,
  groups: atomic(text),
  uid: text,
});
const selfAccess = record(`${authorization}.SelfSubjectAccessReviewSpec`, attributes);

/** By kind. */
export const requestSchemas = {
  TokenReview: request(
    `${authentication}.TokenReview`,
    record(`${authentication}.TokenReviewSpec`, { token: text, audiences: atomic(text) }),
  ),
  TokenRequest: request(
    `${authentication}.TokenRequest`,
    record(`${authentication}.TokenRequestSpec`, { audiences: atomic(text), expirationSeconds: pointer(integer) }),
  ),
  SelfSubjectReview: request(`${authentication}.SelfSubjectReview`),
  SubjectAccessReview: request(`${authorization}.SubjectAccessReview`, subjectAccess),
  LocalSubjectAccessReview: request(`${authorization}.LocalSubjectAccessReview`, subjectAccess),
  SelfSubjectAccessReview: request(`${authorization}.SelfSubjectAccessReview`, selfAccess),
  SelfSubjectRulesReview: request(
    `${authorization}.SelfSubjectRulesReview`,
    record(`${authorization}.SelfSubjectRulesReviewSpec`, { namespace: text }),
  ),
} as const;
