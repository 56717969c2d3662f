import { badRequest, noSuchPath, unprocessable, unsupportedMediaType } from "../access/status.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { ManagedFields } from "../patch/apply.ts";
import { jsonPatch } from "../patch/json-patch.ts";
import { mergePatch } from "../patch/merge-patch.ts";
import { strategicMerge } from "../patch/strategic-merge.ts";
import type { Cluster } from "../registry/cluster.ts";
import type { WriteOptions } from "../registry/registry.ts";
import { deleteOptions } from "../schema/requests.ts";
import { parseSelection, type Selection } from "../selectors.ts";
import type { Stored } from "../store/stored.ts";
import { patchTypes, readObject, readPatch } from "./body.ts";
import { encodingFor } from "./encoding.ts";
import { evict, preconditionsOf } from "./eviction.ts";
import { listMetadata, Lists, parseRevision } from "./lists.ts";
import { jsonReply, listReply, textReply, warningHeader } from "./replies.ts";
import { isTrue, type Target, type Verb } from "./target.ts";
import type { Watchers } from "./watchers.ts";

/** A parsed request to an API path. */
export interface Call {
  readonly request: Request;
  readonly query: URLSearchParams;
  readonly target: Target;
  /** The owners of the object in the body, which webhooks have changed after it was applied. */
  readonly managedFields?: ManagedFields;
}

type Handler = (call: Call) => Response | Promise<Response>;

/** Default watch timeout: 30 to 60 minutes. */
const defaultWatchMs = (): number => (30 + 30 * Math.random()) * 60_000;

/** Answers the requests to `/api` and `/apis`. */
export class Api {
  readonly #cluster: Cluster;
  readonly #watchers: Watchers;
  readonly #lists: Lists;
  readonly #handlers: Readonly<Record<Verb, Handler>> = {
    get: (call) => this.#get(call),
    list: (call) => this.#list(call),
    watch: (call) => this.#watch(call),
    create: (call) => this.#create(call),
    update: (call) => this.#update(call),
    patch: (call) => this.#patch(call),
    delete: (call) => this.#delete(call),
    deletecollection: (call) => this.#deleteCollection(call),
  };

  constructor(cluster: Cluster, watchers: Watchers) {
    this.#cluster = cluster;
    this.#watchers = watchers;
    this.#lists = new Lists(cluster.revisions);
  }

  async handle(call: Call): Promise<Response> {
    return this.#handlers[call.target.verb](call);
  }

  /** Drops all history: a watch or list that continues from an old version gets a 410. */
  compact(): void {
    this.#cluster.compact();
    this.#lists.forget();
  }

  #get(call: Call): Response {
    assertSubresource(call, ["status"]);
    this.#lists.assertReached(call.query.get("resourceVersion"));
    return objectReply(call, call.target.registry.get(call.target), 200);
  }

  #list(call: Call): Response {
    const { query, target } = call;
    const selection = selectionOf(call);
    const token = query.get("continue") ?? "";
    const revision = query.get("resourceVersion");
    if (token === "") this.#lists.assertReached(revision);
    const exactly = query.get("resourceVersionMatch") === "Exact" ? parseRevision(revision) : undefined;
    const page = this.#lists.read(target.registry.collection, selection, limitOf(query), token, exactly);
    return listReply(encodingOf(call).list(listMetadata(page, selection.matches !== undefined)), page.items);
  }

  #watch(call: Call): Response {
    const { query, target } = call;
    const seconds = Number(query.get("timeoutSeconds") ?? 0);
    const revision = parseRevision(query.get("resourceVersion"));
    const initial = query.get("sendInitialEvents");
    const fromNow = initial === "false" && !revision ? this.#cluster.revisions.current : undefined;
    const stream = this.#watchers.open(target.registry.collection, {
      selection: selectionOf(call),
      encoding: encodingOf(call),
      bookmarks: isTrue(query.get("allowWatchBookmarks")),
      since: initial === "true" ? undefined : (fromNow ?? (revision || undefined)),
      markInitialEnd: initial === "true",
      timeoutMs: seconds > 0 ? seconds * 1000 : defaultWatchMs(),
    });
    return new Response(stream.body, { headers: { "content-type": "application/json" } });
  }

  async #create(call: Call): Promise<Response> {
    const { registry, namespace } = call.target;
    if (call.target.subresource === "eviction") return evict(this.#cluster, call, (options) => isDryRun(call, options));
    assertSubresource(call, []);
    const warnings = new Warnings();
    const body = await readObject(call.request, registry.resource.schema);
    const stored = registry.create(namespace, body, writeOptions(call, warnings));
    return objectReply(call, stored, 201, warnings);
  }

  async #update(call: Call): Promise<Response> {
    const { target, request } = call;
    const warnings = new Warnings();
    const options = writeOptions(call, warnings);
    const body = await readObject(request, target.registry.resource.schema);
    const { resource } = target.registry;
    if (resource.createOnUpdate && target.subresource === "" && target.registry.find(target) === undefined)
      return objectReply(call, target.registry.create(target.namespace, body, options), 201, warnings);
    return objectReply(
      call,
      target.registry.update(target, () => body, options),
      200,
      warnings,
    );
  }

  async #patch(call: Call): Promise<Response> {
    const { target } = call;
    const warnings = new Warnings();
    const { type, patch } = await readPatch(call.request);
    const { schema } = target.registry.resource;
    if (type === "apply") return this.#apply(call, patch, warnings);
    if (type === "strategic" && schema.open) throw unsupportedMediaType(patchTypes[type], Object.values(patchTypes));
    const merge = (before: JsonObject): Json => {
      if (type === "json") return jsonPatch(before, patch);
      return type === "merge" ? mergePatch(before, patch) : strategicMerge(before, patch, schema);
    };
    return objectReply(
      call,
      target.registry.update(target, merge, { ...writeOptions(call, warnings), patch: true }),
      200,
      warnings,
    );
  }

  #apply(call: Call, config: Json, warnings: Warnings): Response {
    const manager = call.query.get("fieldManager") ?? "";
    if (manager === "") throw unprocessable("fieldManager is required for apply patch");
    if (!isObject(config)) throw badRequest("the configuration must be an object");
    if (config.apiVersion === undefined || config.kind === undefined)
      throw badRequest("the configuration must name its apiVersion and kind");
    const options = { ...writeOptions(call, warnings), manager, force: isTrue(call.query.get("force")) };
    const { stored, created } = call.target.registry.apply(call.target, config, options);
    return objectReply(call, stored, created ? 201 : 200, warnings);
  }

  async #delete(call: Call): Promise<Response> {
    const { target } = call;
    assertSubresource(call, []);
    const options = await readObject(call.request, deleteOptions, true);
    const { last, gone } = target.registry.delete(target, preconditionsOf(options), {
      dryRun: isDryRun(call, options),
    });
    const { resource } = target.registry;
    if (!gone || resource.returnsDeleted) return objectReply(call, last, 200);
    const group: JsonObject = resource.group === "" ? {} : { group: resource.group };
    return jsonReply({
      kind: "Status",
      apiVersion: "v1",
      metadata: {},
      status: "Success",
      details: { name: last.name, ...group, kind: resource.plural, uid: last.uid },
    });
  }

  async #deleteCollection(call: Call): Promise<Response> {
    const { registry } = call.target;
    const selection = selectionOf(call);
    const options = await readObject(call.request, deleteOptions, true);
    const page = this.#lists.read(registry.collection, selection, limitOf(call.query), "");
    const dryRun = isDryRun(call, options);
    for (const stored of page.items) registry.delete(stored, {}, { dryRun });
    return listReply(encodingOf(call).list(listMetadata(page, true)), page.items);
  }
}

/** Warnings for the client, without duplicates. */
class Warnings {
  readonly texts = new Set<string>();
}

function assertSubresource({ target }: Call, allowed: readonly string[]): void {
  if (target.subresource === "") return;
  if (!allowed.includes(target.subresource) || !target.registry.resource.status) throw noSuchPath();
}

function encodingOf({ request, query, target }: Call): ReturnType<typeof encodingFor> {
  return encodingFor(target.registry.resource, request.headers.get("accept") ?? "", query.get("includeObject"));
}

function selectionOf({ target, query }: Call): Selection {
  const labelSelector = query.get("labelSelector") ?? "";
  const fieldSelector = query.get("fieldSelector") ?? "";
  return parseSelection(target.registry.resource, target.namespace, { labelSelector, fieldSelector });
}

function objectReply(call: Call, stored: Stored, status: number, warnings = new Warnings()): Response {
  const reply = textReply(`${encodingOf(call).object(stored)}\n`, status);
  if (warnings.texts.size > 0) reply.headers.set("warning", warningHeader(warnings.texts));
  return reply;
}

function limitOf(query: URLSearchParams): number {
  const limit = Number(query.get("limit") ?? 0);
  if (!Number.isSafeInteger(limit) || limit < 0) throw badRequest("limit must be a whole number");
  return limit;
}

const fieldValidations = { "": "Warn", Ignore: "Ignore", Warn: "Warn", Strict: "Strict" } as const;

function writeOptions(call: Call, warnings: Warnings): WriteOptions {
  const { subresource, registry } = call.target;
  if (subresource !== "" && subresource !== "status" && subresource !== "finalize") throw noSuchPath();
  if (subresource !== "" && !registry.resource[subresource]) throw noSuchPath();
  const wanted = call.query.get("fieldValidation") ?? "";
  const fieldValidation = Object.entries(fieldValidations).find(([word]) => word === wanted)?.[1];
  if (fieldValidation === undefined) throw badRequest(`fieldValidation: ${JSON.stringify(wanted)} is not known`);
  return {
    subresource: subresource === "" ? undefined : subresource,
    dryRun: isDryRun(call, {}),
    fieldValidation,
    manager: managerOf(call),
    warn: (text) => void warnings.texts.add(text),
    ...(call.managedFields && { managedFields: call.managedFields }),
  };
}

/** The field manager of a write: from the query, else from the user agent. */
const managerOf = ({ query, request }: Call): string =>
  query.get("fieldManager") || (request.headers.get("user-agent") ?? "").split("/", 1)[0] || "unknown";

const isDryRun = ({ query }: Call, options: JsonObject): boolean =>
  query.has("dryRun") || (Array.isArray(options.dryRun) && options.dryRun.length > 0);
