import { ApiError, messageOf } from "cloud-controller-host/sdk";

import type { JsonObject } from "../json.ts";
import type { Access } from "./rules.ts";

/** One validation problem: field, machine-readable reason and message. */
export interface Problem {
  readonly field: string;
  readonly reason:
    | "FieldValueInvalid"
    | "FieldValueRequired"
    | "FieldValueDuplicate"
    | "FieldValueForbidden"
    | "FieldValueNotSupported"
    | "FieldValueTooLong"
    | "FieldValueTooMany";
  readonly message: string;
}

export interface StatusDetails {
  readonly name?: string;
  readonly group?: string;
  /** Resource name, such as `nodes`; for an invalid object its kind, such as `Node`. */
  readonly kind?: string;
  readonly uid?: string;
  readonly causes?: readonly JsonObject[];
  readonly retryAfterSeconds?: number;
}

/** An error with the details of a `Status` object. */
export class StatusError extends ApiError {
  readonly details: StatusDetails;

  constructor(status: number, reason: string, message: string, details: StatusDetails = {}, options?: ErrorOptions) {
    const { retryAfterSeconds } = details;
    super(status, reason, message, {
      ...options,
      ...(retryAfterSeconds === undefined ? {} : { retryAfterMs: retryAfterSeconds * 1000 }),
    });
    this.details = details;
  }
}

/** Names a kind in an error: `nodes` or `leases.coordination.k8s.io`. */
export interface Named {
  readonly group: string;
  readonly plural: string;
  readonly kind: string;
}

const qualified = ({ group, plural }: Pick<Named, "group" | "plural">): string =>
  group === "" ? plural : `${plural}.${group}`;
const about = ({ group, plural }: Named, name: string): StatusDetails => ({
  name,
  ...(group === "" ? {} : { group }),
  kind: plural,
});

export const notFound = (resource: Named, name: string): StatusError =>
  new StatusError(404, "NotFound", `${qualified(resource)} "${name}" not found`, about(resource, name));

export const noSuchPath = (): StatusError =>
  new StatusError(404, "NotFound", "the server could not find the requested resource");

export const alreadyExists = (resource: Named, name: string): StatusError =>
  new StatusError(409, "AlreadyExists", `${qualified(resource)} "${name}" already exists`, about(resource, name));

export const conflict = (resource: Named, name: string, why: string): StatusError =>
  new StatusError(
    409,
    "Conflict",
    `Operation cannot be fulfilled on ${qualified(resource)} "${name}": ${why}`,
    about(resource, name),
  );

export const modified = (resource: Named, name: string): StatusError =>
  conflict(
    resource,
    name,
    "the object has been modified; please apply your changes to the latest version and try again",
  );

export const forbidden = (resource: Named, name: string, why: string, causes?: readonly JsonObject[]): StatusError =>
  new StatusError(403, "Forbidden", `${qualified(resource)} "${name}" is forbidden: ${why}`, {
    ...about(resource, name),
    ...(causes === undefined ? {} : { causes }),
  });

/** A 403 of the authorizer. Source: Kubernetes `handlers/responsewriters.ForbiddenMessage`. */
export function accessDenied({ username, verb, path, group, resource, namespace, name }: Access): StatusError {
  if (path !== "")
    return new StatusError(403, "Forbidden", `forbidden: User "${username}" cannot ${verb} path "${path}"`);
  const scope = namespace === "" ? "at the cluster scope" : `in the namespace "${namespace}"`;
  const [kind = ""] = resource.split("/");
  const object = name === "" ? qualified({ group, plural: kind }) : `${qualified({ group, plural: kind })} "${name}"`;
  return new StatusError(
    403,
    "Forbidden",
    `${object} is forbidden: User "${username}" cannot ${verb} resource "${resource}" in API group "${group}" ${scope}`,
    { ...(name === "" ? {} : { name }), ...(group === "" ? {} : { group }), kind },
  );
}

export function invalid(resource: Named, name: string, problems: readonly Problem[]): StatusError {
  const lines = problems.map(({ field, message }) => `${field}: ${message}`);
  const text = lines.length === 1 ? lines.join("") : `[${lines.join(", ")}]`;
  return new StatusError(
    422,
    "Invalid",
    `${resource.kind}${resource.group && `.${resource.group}`} "${name}" is invalid: ${text}`,
    {
      ...about(resource, name),
      kind: resource.kind,
      causes: problems.map(({ field, message, reason }) => ({ reason, message, field })),
    },
  );
}

export const badRequest = (message: string): StatusError => new StatusError(400, "BadRequest", message);
export const unauthorized = (): StatusError => new StatusError(401, "Unauthorized", "Unauthorized");
export const methodNotAllowed = (): StatusError =>
  new StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource");
export const notAcceptable = (types: readonly string[]): StatusError =>
  new StatusError(406, "NotAcceptable", `only the following media types are accepted: ${types.join(", ")}`);
export const expired = (message: string): StatusError => new StatusError(410, "Expired", message);
export const tooLarge = (limit: number): StatusError =>
  new StatusError(413, "RequestEntityTooLarge", `Request entity too large: limit is ${limit}`);
export const unsupportedMediaType = (type: string, supported: readonly string[]): StatusError =>
  new StatusError(
    415,
    "UnsupportedMediaType",
    `the body of the request was in an unknown format (${type || "none"}) - accepted media types include: ${supported.join(", ")}`,
  );
export const internalError = (message: string): StatusError => new StatusError(500, "InternalError", message);
export const unprocessable = (message: string): StatusError => new StatusError(422, "Invalid", message);

export const futureRevision = (wanted: number, current: number): StatusError =>
  new StatusError(504, "Timeout", `Too large resource version: ${wanted}, current: ${current}`, {
    causes: [{ reason: "ResourceVersionTooLarge", message: "Too large resource version" }],
    retryAfterSeconds: 1,
  });

/** The `Status` object for any thrown value. */
export function statusOf(error: unknown): JsonObject & { readonly code: number } {
  const known = error instanceof ApiError ? error : new StatusError(500, "InternalError", messageOf(error));
  const details = known instanceof StatusError ? detailsJson(known.details) : {};
  return {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message: known.message,
    ...(known.reason === "" ? {} : { reason: known.reason }),
    ...(Object.keys(details).length === 0 ? {} : { details }),
    code: known.status,
  };
}

function detailsJson({ name, group, kind, uid, causes, retryAfterSeconds }: StatusDetails): JsonObject {
  return {
    ...(name === undefined ? {} : { name }),
    ...(group === undefined ? {} : { group }),
    ...(kind === undefined ? {} : { kind }),
    ...(uid === undefined ? {} : { uid }),
    ...(causes === undefined ? {} : { causes }),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  };
}
