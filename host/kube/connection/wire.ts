import { ApiError, apiVersionOf, CodedError, isObject, type KindRef, type KubeObject } from "cloud-controller-host/sdk";

import { isProtobuf, protobufAccept, ProtobufReader } from "../protobuf/envelope.ts";

/** The string in a field, empty if absent. */
export function textAt(record: Readonly<Record<string, unknown>>, field: string): string {
  const value = record[field];
  return typeof value === "string" ? value : "";
}

/** Path of a collection, an object, or an object's subresource. */
export function pathOf(
  kind: KindRef,
  target: { readonly namespace?: string | undefined; readonly name?: string; readonly subresource?: string } = {},
): string {
  const root = kind.group === "" ? `/api/${kind.version}` : `/apis/${kind.group}/${kind.version}`;
  const scope = kind.namespaced && target.namespace ? `/namespaces/${encodeURIComponent(target.namespace)}` : "";
  const name = target.name === undefined ? "" : `/${encodeURIComponent(target.name)}`;
  const subresource = target.subresource === undefined ? "" : `/${target.subresource}`;
  return `${root}${scope}/${kind.plural}${name}${subresource}`;
}

/** A kind in messages: `nodes`, `leases.coordination.k8s.io`. */
export const resourceOf = ({ group, plural }: KindRef): string => (group === "" ? plural : `${plural}.${group}`);

/** True if a document is an object of the kind; list items lack a kind and are accepted. */
export const isObjectOf = <T extends KubeObject>(kind: KindRef<T>, value: unknown): value is T =>
  isObject(value) && isObject(value["metadata"]) && (value["kind"] === undefined || value["kind"] === kind.kind);

/** The reply to a request with `metadataAccept`; a server that lacks the transformation returns the whole object. */
const isPartial = (value: Readonly<Record<string, unknown>>): boolean => value["kind"] === "PartialObjectMetadata";

export const metadataAccept = {
  object: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
  list: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
} as const;

/** The `Accept` header of a read: metadata only, protobuf, or JSON by default. */
export function acceptOf(
  form: keyof typeof metadataAccept,
  read: { readonly metadataOnly?: boolean | undefined; readonly protobuf?: boolean | undefined },
): { readonly accept?: string } {
  if (read.metadataOnly === true) return { accept: metadataAccept[form] };
  return read.protobuf === true ? { accept: protobufAccept } : {};
}

/** The object of a reply, with `apiVersion` and `kind` added, which list items lack. */
export function objectOf<T extends KubeObject>(kind: KindRef<T>, value: unknown): T {
  const head = { apiVersion: apiVersionOf(kind), kind: kind.kind };
  const named = isObject(value) ? { ...head, ...value, ...(isPartial(value) && head) } : value;
  if (isObjectOf(kind, named)) return named;
  throw new CodedError("UnexpectedReply", `the API server's reply is not a ${kind.kind} object`);
}

/** The document of a complete reply. */
export async function documentOf(response: Response): Promise<unknown> {
  return parseReply(response, await response.bytes());
}

/** The document of a reply whose body has been read, in the encoding that its headers name. */
export function parseReply(response: Response, body: Uint8Array): unknown {
  return isProtobuf(response) ? new ProtobufReader().document(body) : parseJson(new TextDecoder().decode(body));
}

/** A gateway or proxy may answer in place of the API server. The error quotes nothing: a reply may contain a token. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new CodedError("UnexpectedReply", "the API server's reply is not JSON");
  }
}

/** The object of a `PartialObjectMetadata` reply, without spec and status. */
export const metadataOf = <T extends KubeObject>(kind: KindRef<T>, value: unknown): T =>
  objectOf(kind, isObject(value) ? { metadata: value["metadata"] } : value);

interface StatusErrorOptions {
  readonly retryAfterMs?: number | undefined;
  /** Follows the message of a denial by the authorizer; default: the command that prints the roles of the host. */
  readonly permissionHint?: string | undefined;
}

/** The error described by a `Status` object, from a reply or a watch event. */
export function statusError(
  what: string,
  status: number,
  body: unknown,
  { retryAfterMs, permissionHint = hostHint }: StatusErrorOptions = {},
): ApiError {
  const fields = isObject(body) ? body : {};
  const code = typeof fields["code"] === "number" ? fields["code"] : status;
  // A gateway that has lost its API server may answer 404. Only a Status says that an object does not exist.
  const isKnown = code !== 404 || fields["kind"] === "Status";
  const reason = (isKnown && (textAt(fields, "reason") || reasons[code])) || "Unknown";
  const text = textAt(fields, "message") || `${what}: the API server answered ${code}`;
  const hint = code === 401 ? credentialsHint : isMissingPermission.test(text) ? permissionHint : undefined;
  const message = hint === undefined ? text : `${text}; ${hint}`;
  return new ApiError(code, reason, message, retryAfterMs === undefined ? {} : { retryAfterMs });
}

/** A denial by the authorizer names user, verb, resource and API group; other 403s come from admission. */
const isMissingPermission = /\bforbidden: User "[^"]*" cannot \S+ (resource|path) "/u;
const credentialsHint =
  "the API server does not accept these credentials: check the user in the kubeconfig, or the service account's token";
const hostHint =
  "grant it with a role: `cloud-controller-host rbac` prints those of the enabled plugins, from their `permissions`";

/** Reasons for replies without a `Status` body, as from a proxy. Source: apimachinery `NewGenericServerResponse`. */
const reasons: Readonly<Record<number, string>> = {
  400: "BadRequest",
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  405: "MethodNotAllowed",
  406: "NotAcceptable",
  409: "Conflict",
  410: "Gone",
  415: "UnsupportedMediaType",
  422: "Invalid",
  429: "TooManyRequests",
  500: "InternalError",
  503: "ServiceUnavailable",
  504: "Timeout",
};
