import { isObject } from "cloud-controller-host/sdk";

import { sameName } from "../../arm/resource-id.ts";
import { type JsonObject, objectsAt } from "../../json.ts";
import { ArmFault, type ArmReply, methodNotAllowed, notFound } from "../faults.ts";
import { checkNameLengths, checkTags } from "../resources/limit-checks.ts";
import { idAt, nameOf, propertiesOf, without } from "../resources/references.ts";
import type { ResourceType } from "../resources/resource-rules.ts";
import { resourceType } from "../resources/resource-types.ts";
import { supersededCode } from "../state/operations.ts";
import { type Draft, draftOf, type Resource } from "../state/store.ts";
import type { SubscriptionState } from "../state/subscription-state.ts";
import { idOf, type SimulatedRequest } from "./request.ts";
import { answerWrite } from "./writes.ts";

/** Names every sub-resource of a parent that is about to be stored. An array that was left out is empty, as in ARM. */
function withChildren(parentId: string, draft: Draft, properties: readonly string[]): Draft {
  const child = (property: string, item: JsonObject): JsonObject => ({
    ...item,
    id: `${parentId}/${property}/${nameOf(item)}`,
    name: nameOf(item),
    properties: { ...propertiesOf(item), provisioningState: "Succeeded" },
  });
  const filled = properties.map((property) => [
    property,
    objectsAt(draft.properties, property).map((item) => child(property, item)),
  ]);
  return { ...draft, properties: { ...draft.properties, ...Object.fromEntries(filled) } };
}

/** The parent with one sub-resource added or replaced or, where `wanted` is undefined, removed. */
function replaceChild(parent: JsonObject, property: string, name: string, wanted: JsonObject | undefined): Draft {
  const draft = draftOf(parent);
  const others = objectsAt(draft.properties, property);
  const isIt = (other: JsonObject): boolean => sameName(nameOf(other), name);
  const items = others.some(isIt)
    ? others.flatMap((other) => (isIt(other) ? (wanted ?? []) : other))
    : [...others, ...(wanted === undefined ? [] : [wanted])];
  return { ...draft, properties: { ...draft.properties, [property]: items } };
}

const filterPattern = /virtualMachineScaleSet\/id'? eq '([^']*)'/iu;

function matchesFilter(resource: Resource, filter: string | null): boolean {
  const wanted = filter === null ? undefined : filterPattern.exec(filter)?.[1];
  if (wanted === undefined) return true;
  return sameName(idAt(resource.properties, "virtualMachineScaleSet") ?? "", wanted);
}

/** The resource as ARM shows it: with back-references; sub-resources share its etag. */
export function shownResource(state: SubscriptionState, type: ResourceType, resource: Resource): Resource {
  const viewed = type.view?.(resource, state) ?? resource;
  const children = (type.children ?? []).map((property) => [
    property,
    objectsAt(viewed.properties, property).map((item) => ({ ...item, etag: resource.etag })),
  ]);
  return { ...viewed, properties: { ...viewed.properties, ...Object.fromEntries(children) } };
}

/** As it is sent: without the properties that the type lacks, or shows only with `$expand`. */
function rendered(request: SimulatedRequest, type: ResourceType, resource: Resource): JsonObject {
  const wanted = (request.url.searchParams.get("$expand") ?? "").toLowerCase();
  const hidden = type.expandable?.filter((property) => !wanted.includes(property.toLowerCase())) ?? [];
  if (type.isBare) return { ...without(resource, ["etag"]), properties: without(resource.properties, bare) };
  return { ...resource, properties: without(resource.properties, hidden) };
}

const bare = ["provisioningState"];

function listReply(request: SimulatedRequest, state: SubscriptionState, type: ResourceType): ArmReply {
  const { path, url } = request;
  if (request.method !== "GET") throw methodNotAllowed(request.method, `${idOf(path, 0)}/${path.type}`);
  const resources = state.store.readable();
  const found =
    path.resourceGroup === undefined
      ? resources.listType(path.subscription, type.type.toLowerCase())
      : resources.list(`${idOf(path, 0)}/${path.type}`);
  const wanted = state.changeList(found).filter((resource) => matchesFilter(resource, url.searchParams.get("$filter")));
  const from = Number(url.searchParams.get("$skiptoken") ?? 0);
  const to = from + request.pageSize;
  const value = wanted.slice(from, to).map((item) => rendered(request, type, shownResource(state, type, item)));
  const next = to < wanted.length ? { nextLink: request.nextLink(String(to)) } : {};
  return { status: 200, body: { value, ...next } };
}

function existing(resources: { get(id: string): Resource | undefined }, id: string): Resource {
  const resource = resources.get(id);
  if (resource === undefined) throw notFound(id);
  return resource;
}

/** Merges objects recursively; everything else is replaced. */
function overlay(base: JsonObject, over: JsonObject): JsonObject {
  const merged: Record<string, unknown> = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const before = merged[key];
    merged[key] = isObject(before) && isObject(value) ? overlay(before, value) : value;
  }
  return merged;
}

/** The resource that a PUT would store. Seeding skips ARM's checks; `child` is a property written by its own path. */
export function drafted(
  state: SubscriptionState,
  type: ResourceType,
  id: string,
  body: JsonObject,
  { seeding = false, child }: { readonly seeding?: boolean; readonly child?: string } = {},
): Draft {
  const previous = state.store.get(id);
  const base = type.merges && previous !== undefined ? draftOf(overlay(previous, body)) : draftOf(body);
  const named = withChildren(previous?.id ?? id, base, type.children ?? []);
  const settled: Draft = {
    ...named,
    location: base["location"] ?? previous?.["location"],
    properties: seeding
      ? { provisioningState: "Succeeded", ...named.properties }
      : { ...named.properties, provisioningState: "Succeeded" },
  };
  const context = { id: previous?.id ?? id, previous, state, seeding, child };
  if (!seeding && type.type.startsWith("Microsoft.Network/")) checkNameLengths(settled, context);
  return type.prepare?.(settled, context) ?? settled;
}

/** Stores a resource and updates the resources that refer to it. */
export function storeResource(state: SubscriptionState, type: ResourceType, id: string, draft: Draft): Resource {
  const previous = state.store.get(id);
  const stored = state.store.put(id, draft);
  type.stored?.(stored, previous, state);
  return existing(state.store, id);
}

const withState = (draft: Draft, provisioningState: string): Draft => ({
  ...draft,
  properties: { ...draft.properties, provisioningState },
});

/** `shown` picks the body of the reply from the resource. */
function store(
  request: SimulatedRequest,
  state: SubscriptionState,
  type: ResourceType,
  write: { readonly id: string; readonly draft: Draft; readonly status: number },
  shown: (resource: Resource) => unknown,
): ArmReply {
  const { id, draft, status } = write;
  // Until its operation has ended, other resources do not see the change.
  const before = state.store.get(id);
  const merged = (last: Draft): Draft => type.merge?.(last, state.store.get(id)) ?? last;
  const finish = (): unknown => {
    const stored = state.store.put(id, merged(draft));
    type.stored?.(stored, before, state);
    return shown(shownResource(state, type, existing(state.store, id)));
  };
  return answerWrite(request, state, {
    id,
    status,
    begin: () => {
      if (before !== undefined) state.begins(before);
      return shown(shownResource(state, type, state.store.put(id, withState(draft, "Updating"))));
    },
    finish,
    fail(fault) {
      // The failed request remains the resource's desired state, with its references.
      if (fault.code !== supersededCode) {
        const failed = state.store.put(id, merged(withState(draft, "Failed")));
        type.stored?.(failed, before, state);
      } else if (before === undefined) state.store.delete(id);
      else state.store.put(id, merged(draftOf(before)));
    },
  });
}

function remove(request: SimulatedRequest, state: SubscriptionState, type: ResourceType, id: string): ArmReply {
  const resource = state.store.get(id);
  request.checkIfMatch(resource?.etag);
  if (resource === undefined) return { status: 204 };
  type.checkRemoval?.(resource, state);
  return answerWrite(request, state, {
    id,
    status: 200,
    begin: () => void state.store.put(id, withState(draftOf(resource), "Deleting")),
    finish() {
      const last = state.store.get(id) ?? resource;
      state.store.delete(id);
      type.removed?.(last, state);
    },
    fail: () => void state.store.put(id, withState(draftOf(resource), "Failed")),
  });
}

/** ARM merges a PATCH into a Compute resource, and accepts only tags for a Network resource. */
function patched(state: SubscriptionState, type: ResourceType, before: Resource, body: JsonObject): Draft {
  if (type.merges) return drafted(state, type, before.id, body);
  return "tags" in body ? { ...before, tags: body["tags"] } : before;
}

function itemReply(request: SimulatedRequest, state: SubscriptionState, type: ResourceType): ArmReply {
  const id = idOf(request.path, 1);
  const body = isObject(request.body) ? request.body : {};
  const shown = (resource: Resource): JsonObject => rendered(request, type, resource);
  switch (request.method) {
    case "GET":
      return {
        status: 200,
        body: shown(state.changeGet(shownResource(state, type, existing(state.store.readable(), id)))),
      };
    case "PUT": {
      const previous = state.store.get(id);
      request.checkIfMatch(previous?.etag);
      checkTags(body, state);
      const draft = drafted(state, type, id, body);
      return store(
        request,
        state,
        type,
        { id, draft, status: previous === undefined && !type.isBare ? 201 : 200 },
        shown,
      );
    }
    case "PATCH": {
      const before = existing(state.store, id);
      request.checkIfMatch(before.etag);
      return store(request, state, type, { id, draft: patched(state, type, before, body), status: 200 }, shown);
    }
    case "DELETE":
      return remove(request, state, type, id);
    default:
      throw methodNotAllowed(request.method, id);
  }
}

/** A sub-resource is read from its parent, and written by writing the parent. */
function childReply(
  request: SimulatedRequest,
  state: SubscriptionState,
  type: ResourceType,
  property: string,
): ArmReply {
  const { method, path } = request;
  const id = idOf(path, 2);
  const name = path.names[1] ?? "";
  const find = (parent: Resource): JsonObject | undefined =>
    objectsAt(parent.properties, property).find((candidate) => sameName(nameOf(candidate), name));
  if (method === "GET") {
    const parent = shownResource(state, type, existing(state.store.readable(), idOf(path, 1)));
    if (path.collection) return { status: 200, body: { value: objectsAt(parent.properties, property) } };
    const found = find(parent);
    if (found === undefined) throw notFound(id);
    return { status: 200, body: found };
  }
  if (path.collection || (method !== "PUT" && method !== "DELETE")) throw methodNotAllowed(method, id);
  const parent = existing(state.store, idOf(path, 1));
  const found = find(parent);
  const removing = method === "DELETE";
  if (removing && found === undefined) return { status: 204 };
  request.checkIfMatch(found === undefined ? undefined : parent.etag);
  const wanted = removing ? undefined : { ...(isObject(request.body) ? request.body : {}), name };
  const draft = drafted(state, type, parent.id, replaceChild(parent, property, name, wanted), { child: property });
  const status = found === undefined ? 201 : 200;
  return store(request, state, type, { id: parent.id, draft, status }, removing ? () => undefined : find);
}

/** Resources of the types in the table, and their sub-resources. */
export function resourceRoute(request: SimulatedRequest, state: SubscriptionState): ArmReply {
  const { path } = request;
  const [root = "", below] = path.type.split("/");
  const type = resourceType(`${path.provider ?? ""}/${root}`);
  const property = type?.children?.find((candidate) => sameName(candidate, below ?? ""));
  if (type === undefined || (below !== undefined && property === undefined))
    throw new ArmFault(404, "InvalidResourceType", `The resource type '${path.type}' could not be found.`);
  if (property !== undefined) return childReply(request, state, type, property);
  return path.collection ? listReply(request, state, type) : itemReply(request, state, type);
}
