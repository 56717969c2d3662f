import { type AdmissionOperation, messageOf, type WebhookRule } from "cloud-controller-host/sdk";

import { internalError, StatusError } from "../access/status.ts";
import type { User } from "../access/tokens.ts";
import { isList, isObject, type Json, type JsonObject, objectAt, textAt, without } from "../json.ts";
import { jsonPatch } from "../patch/json-patch.ts";
import { apiObject } from "../registry/metadata.ts";
import { eviction } from "../schema/requests.ts";
import type { Api, Call } from "./api.ts";
import { mediaTypeOf, patchTypes, readObject } from "./body.ts";
import { warningHeader } from "./replies.ts";
import { createsByName, type Target, type Verb } from "./target.ts";

/** A webhook that the server calls. upstream: `ValidatingWebhook` and `MutatingWebhook`, with failure policy `Fail`. */
export interface AdmissionWebhook {
  readonly name: string;
  /** An `https` address on this machine; its certificate is not verified. */
  readonly url: string;
  readonly type: "validating" | "mutating";
  readonly rules: readonly WebhookRule[];
}

/** One write, as it would be without webhooks. */
interface Admitted {
  readonly call: Call;
  readonly user: User;
  readonly operation: AdmissionOperation;
  /** Undefined for a deletion. */
  readonly object: JsonObject | undefined;
  /** Undefined for a creation. */
  readonly oldObject: JsonObject | undefined;
  /** Warnings to the client. */
  readonly warnings: string[];
}

const timeoutMs = 10_000;
const operations: Readonly<Partial<Record<Verb, AdmissionOperation>>> = {
  create: "CREATE",
  update: "UPDATE",
  patch: "UPDATE",
  delete: "DELETE",
  deletecollection: "DELETE",
};

const operationOf = ({ request, target }: Call): AdmissionOperation | undefined =>
  createsByName(request, target) ? "CREATE" : operations[target.verb];

/** The webhooks whose rules match a write. Source: apiserver `webhook/predicates/rules.Matcher`. */
export function webhooksFor(webhooks: readonly AdmissionWebhook[], call: Call): readonly AdmissionWebhook[] {
  const { target } = call;
  const operation = webhooks.length === 0 ? undefined : operationOf(call);
  if (operation === undefined) return [];
  const resource = target.subresource === "" ? target.plural : `${target.plural}/${target.subresource}`;
  const matches = (list: readonly string[], value: string): boolean => list.includes("*") || list.includes(value);
  return webhooks.filter(({ rules }) =>
    rules.some(
      (rule) =>
        matches(rule.apiGroups, target.group) &&
        matches(rule.apiVersions, target.version) &&
        matches(rule.operations, operation) &&
        (rule.resources.includes("*/*") || matches(rule.resources, resource)),
    ),
  );
}

/**
 * Handles a write that webhooks decide on: what it would store, by a dry run, then the webhooks, then the write itself. An object
 * that they changed is written under the version that they saw. Of a collection nothing is deleted where one object is denied.
 */
export async function handleAdmitted(
  api: Pick<Api, "handle">,
  webhooks: readonly AdmissionWebhook[],
  call: Call,
  user: User,
): Promise<Response> {
  const { target } = call;
  const operation = operationOf(call) ?? "CONNECT";
  const sent = await call.request.arrayBuffer();
  const asSent = (): Call => ({ ...call, request: requestWith(call.request, sent) });
  const trial = await api.handle(tried(asSent()));
  if (!trial.ok) return trial;
  const document: unknown = await trial.json();
  const stored: JsonObject = isObject(document) ? document : {};
  const warnings: string[] = [];
  const write = { call, user, operation, object: undefined, oldObject: undefined, warnings };
  let next = asSent;
  if (operation === "DELETE")
    for (const oldObject of toDelete(target, stored)) await validate(webhooks, { ...write, oldObject });
  else if (target.subresource === "eviction")
    await validate(webhooks, { ...write, object: await readObject(asSent().request, eviction) });
  else {
    const isNew = operation === "CREATE";
    const oldObject = isNew ? undefined : target.registry.find(target)?.object;
    const object = isNew ? withoutIdentity(stored) : stored;
    const changed = await mutate(webhooks, { ...write, object, oldObject });
    if (changed !== object) next = () => changedCall(call, changed, stored, isNew);
    const result = changed === object ? trial : await api.handle(tried(next()));
    if (!result.ok) return result;
    const final: unknown = changed === object ? stored : await result.json();
    await validate(webhooks, { ...write, object: isObject(final) ? final : object, oldObject });
  }
  return withWarnings(await api.handle(next()), warnings);
}

/** The same request with another body. */
function requestWith({ url, method, headers }: Request, body: ArrayBuffer | string): Request {
  const next = new Headers(headers);
  if (typeof body === "string") next.set("content-type", "application/json");
  const hasBody = typeof body === "string" || body.byteLength > 0;
  return new Request(url, { method, headers: next, ...(hasBody && { body }) });
}

/** The call as a dry run, which is answered with the object. */
function tried(call: Call): Call {
  const query = new URLSearchParams(call.query);
  query.set("dryRun", "All");
  const headers = new Headers(call.request.headers);
  headers.set("accept", "application/json");
  return { ...call, query, request: new Request(call.request, { headers }) };
}

/** The call that writes what webhooks have made of an object. Where that was applied, it stays so. */
function changedCall(call: Call, changed: JsonObject, stored: JsonObject, isNew: boolean): Call {
  const { request, target } = call;
  const { managedFields } = apiObject(target.registry.resource, stored).metadata;
  const isApply = mediaTypeOf(request.headers) === patchTypes.apply;
  return {
    ...call,
    request: requestWith(request, JSON.stringify(changed)),
    target: { ...target, verb: isNew ? "create" : "update" },
    ...(isApply && managedFields !== undefined && { managedFields }),
  };
}

/** The objects that a deletion would remove, as they are. */
function toDelete({ verb, registry, name, namespace }: Target, { items }: JsonObject): readonly JsonObject[] {
  const names = verb === "delete" ? [name] : isList(items) ? items.map((item) => textAt(item, "metadata", "name")) : [];
  return names.flatMap((each = "") => registry.find({ namespace, name: each })?.object ?? []);
}

function withWarnings(reply: Response, warnings: readonly string[]): Response {
  if (warnings.length > 0) reply.headers.append("warning", warningHeader(warnings));
  return reply;
}

/** The object without what the server sets as it stores a new one: mutating webhooks come before that. */
const withoutIdentity = (object: JsonObject): JsonObject => ({
  ...object,
  metadata: without(objectAt(object, "metadata"), "uid", "resourceVersion", "creationTimestamp", "generation"),
});

/** Calls the mutating webhooks one after the other. Returns the object, the same one where none changes it; throws when one denies it. */
async function mutate(
  webhooks: readonly AdmissionWebhook[],
  write: Admitted & { readonly object: JsonObject },
): Promise<JsonObject> {
  let { object } = write;
  for (const webhook of webhooks.filter(({ type }) => type === "mutating")) {
    const patch = patchOf(await review(webhook, { ...write, object }));
    const patched = patch === undefined ? object : jsonPatch(object, patch);
    if (isObject(patched)) object = patched;
  }
  return object;
}

/** Calls the validating webhooks, and for what cannot be changed the mutating ones. Throws when one denies the write. */
async function validate(webhooks: readonly AdmissionWebhook[], write: Admitted): Promise<void> {
  const isChangeable = write.operation !== "DELETE" && write.call.target.subresource !== "eviction";
  const asked = webhooks.filter(({ type }) => type === "validating" || !isChangeable);
  await Promise.all(asked.map((webhook) => review(webhook, write)));
}

/** The response of a webhook that allows the write. */
async function review({ name, url }: AdmissionWebhook, write: Admitted): Promise<JsonObject> {
  const uid = crypto.randomUUID();
  const body = { kind: "AdmissionReview", apiVersion: "admission.k8s.io/v1", request: requestOf(write, uid) };
  const answer = await post(url, body).catch((error: unknown) => {
    throw internalError(`failed calling webhook "${name}": failed to call webhook: Post "${url}": ${messageOf(error)}`);
  });
  const response = objectAt(answer, "response");
  if (response.uid !== uid) throw internalError(`failed calling webhook "${name}": expected response.uid="${uid}"`);
  const { warnings } = response;
  if (isList(warnings)) write.warnings.push(...warnings.filter((text) => typeof text === "string"));
  if (response.allowed === true) return response;
  throw denial(name, objectAt(response, "status"));
}

/** The error of a write that a webhook denies. Source: apiserver `webhook/errors.ToStatusErr`. */
function denial(name: string, status: JsonObject): StatusError {
  const reason = textAt(status, "reason") ?? "";
  const why = textAt(status, "message") || reason;
  const code = typeof status.code === "number" ? status.code : 0;
  const message = `admission webhook "${name}" denied the request${why === "" ? " without explanation" : `: ${why}`}`;
  return new StatusError(Number.isInteger(code) && code >= 400 && code < 600 ? code : 400, reason, message);
}

const evictionKind = { group: "policy", version: "v1", kind: "Eviction" } as const;

function requestOf({ call, user, operation, object, oldObject }: Admitted, uid: string): JsonObject {
  const { group, version, plural, namespace, subresource, registry, name } = call.target;
  const { username, groups } = user;
  return {
    uid,
    kind: subresource === "eviction" ? evictionKind : { group, version, kind: registry.resource.kind },
    resource: { group, version, resource: plural },
    ...(subresource === "" ? {} : { subResource: subresource }),
    ...(namespace === "" ? {} : { namespace }),
    name: name || (textAt(object ?? oldObject, "metadata", "name") ?? ""),
    operation,
    userInfo: { username, groups: [...groups] },
    object: object ?? null,
    oldObject: oldObject ?? null,
    dryRun: call.query.has("dryRun"),
  };
}

async function post(url: string, body: JsonObject): Promise<Json> {
  const reply = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(timeoutMs),
    tls: { rejectUnauthorized: false },
  });
  if (!reply.ok) throw new Error(`${reply.status} ${await reply.text()}`);
  return JSON.parse(await reply.text());
}

/** The JSON patch of a response, which is base64. */
function patchOf(response: JsonObject): Json | undefined {
  const { patch } = response;
  if (typeof patch !== "string") return undefined;
  const operationsList: Json = JSON.parse(Buffer.from(patch, "base64").toString("utf8"));
  return isList(operationsList) ? operationsList : undefined;
}
