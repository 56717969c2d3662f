import { type AdmissionOperation, messageOf, type WebhookRule } from "cloud-controller-host/sdk";

import { internalError, StatusError } from "../access/status.ts";
import type { User } from "../access/tokens.ts";
import { isList, isObject, type Json, type JsonObject, objectAt, textAt, without } from "../json.ts";
import { jsonPatch } from "../patch/json-patch.ts";
import type { Api, Call } from "./api.ts";
import type { Target, Verb } from "./target.ts";

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
  readonly target: Target;
  readonly user: User;
  readonly dryRun: boolean;
  /** Undefined for a deletion. */
  readonly object: JsonObject | undefined;
  /** Undefined for a creation. */
  readonly oldObject: JsonObject | undefined;
}

const timeoutMs = 10_000;
const operations: Readonly<Partial<Record<Verb, AdmissionOperation>>> = {
  create: "CREATE",
  update: "UPDATE",
  patch: "UPDATE",
  delete: "DELETE",
};

/** The webhooks whose rules match a write. Source: apiserver `webhook/predicates/rules.Matcher`. */
export function webhooksFor(webhooks: readonly AdmissionWebhook[], target: Target): readonly AdmissionWebhook[] {
  const operation = operations[target.verb];
  if (operation === undefined || webhooks.length === 0) return [];
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
 * that they changed is written under the version that they saw.
 */
export async function handleAdmitted(
  api: Pick<Api, "handle">,
  webhooks: readonly AdmissionWebhook[],
  { request, query, target }: Call,
  user: User,
): Promise<Response> {
  const before = target.name === "" ? undefined : target.registry.find(target)?.object;
  const dryRun = new URLSearchParams(query);
  dryRun.set("dryRun", "All");
  const headers = new Headers(request.headers);
  headers.set("accept", "application/json");
  const sent = await request.arrayBuffer();
  const again = (method: string, body: ArrayBuffer | string): Request =>
    new Request(request.url, { method, headers, ...(body !== "" && { body }) });
  const trial = await api.handle({ request: again(request.method, sent), query: dryRun, target });
  if (!trial.ok) return trial;
  const document: unknown = await trial.json();
  const wanted = target.verb === "delete" || !isObject(document) ? undefined : document;
  const write = { target, user, dryRun: query.has("dryRun"), object: wanted, oldObject: before };
  const object = await admit(webhooks, write);
  headers.set("accept", request.headers.get("accept") ?? "application/json");
  if (object === wanted || object === undefined)
    return api.handle({ request: again(request.method, sent), query, target });
  headers.set("content-type", "application/json");
  const isNew = target.verb === "create";
  const body = JSON.stringify(isNew ? withoutIdentity(object) : object);
  const changed = again(isNew ? "POST" : "PUT", body);
  return api.handle({ request: changed, query, target: { ...target, verb: isNew ? "create" : "update" } });
}

/** The object without what the server sets on creation. */
const withoutIdentity = (object: JsonObject): JsonObject => ({
  ...object,
  metadata: without(objectAt(object, "metadata"), "uid", "resourceVersion", "creationTimestamp", "generation"),
});

/** Calls the mutating webhooks one after the other, then the validating ones. Returns the object; throws when one denies it. */
async function admit(webhooks: readonly AdmissionWebhook[], write: Admitted): Promise<JsonObject | undefined> {
  let { object } = write;
  for (const webhook of webhooks.filter(({ type }) => type === "mutating")) {
    const patch = patchOf(await review(webhook, { ...write, object }));
    if (patch === undefined || object === undefined) continue;
    const patched = jsonPatch(object, patch);
    if (isObject(patched)) object = patched;
  }
  const validating = webhooks.filter(({ type }) => type === "validating");
  await Promise.all(validating.map((webhook) => review(webhook, { ...write, object })));
  return object;
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
  if (response.allowed === true) return response;
  const status = objectAt(response, "status");
  const message = textAt(status, "message") ?? "";
  const reason = message === "" ? "denied the request without explanation" : `denied the request: ${message}`;
  const code = typeof status.code === "number" ? status.code : 403;
  throw new StatusError(code, textAt(status, "reason") ?? "Forbidden", `admission webhook "${name}" ${reason}`);
}

function requestOf({ target, user, dryRun, object, oldObject }: Admitted, uid: string): JsonObject {
  const { group, version, plural, namespace, subresource, registry } = target;
  const { username, groups } = user;
  return {
    uid,
    kind: { group, version, kind: registry.resource.kind },
    resource: { group, version, resource: plural },
    ...(subresource === "" ? {} : { subResource: subresource }),
    ...(namespace === "" ? {} : { namespace }),
    name: target.name || (textAt(object, "metadata", "name") ?? ""),
    operation: operations[target.verb] ?? "CONNECT",
    userInfo: { username, groups: [...groups] },
    object: object ?? null,
    oldObject: oldObject ?? null,
    dryRun,
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
