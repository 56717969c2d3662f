import { sameName } from "../arm/resource-id.ts";
import { isObject, type JsonObject, objectAt, objectsAt, stringAt } from "../json.ts";
import { ArmFault, type ArmReply, notFound } from "./faults.ts";
import { idOf, type SimulatedRequest } from "./request.ts";
import { type ResourceType, resourceType } from "./resource-types.ts";
import { type Draft, draftOf, nextEtag, type Resource } from "./store.ts";
import type { SubscriptionState } from "./subscription-state.ts";

/** Sub-resources live inside their parent's properties; each has an id below the parent's, an etag and a state. */
function child(parentId: string, property: string, item: JsonObject): JsonObject {
  const name = stringAt(item, "name") ?? "";
  return {
    ...item,
    id: `${parentId}/${property}/${name}`,
    name,
    etag: nextEtag(),
    properties: { ...objectAt(item, "properties"), provisioningState: "Succeeded" },
  };
}

/** Names every sub-resource of a parent that is about to be stored. An array that was left out is empty, as in ARM. */
function withChildren(parentId: string, draft: Draft, properties: readonly string[]): Draft {
  const filled = properties.map((property) => [
    property,
    objectsAt(draft.properties, property).map((item) => child(parentId, property, item)),
  ]);
  return { ...draft, properties: { ...draft.properties, ...Object.fromEntries(filled) } };
}

/** The parent with one sub-resource put in or, where `item` is undefined, taken out. */
function replaceChild(parent: JsonObject, property: string, name: string, item: unknown): Draft {
  const draft = draftOf(parent);
  const others = objectsAt(draft.properties, property);
  const wanted = isObject(item) ? { ...item, name } : undefined;
  const known = others.some((other) => sameName(stringAt(other, "name") ?? "", name));
  const items = known
    ? others.flatMap((other) => (sameName(stringAt(other, "name") ?? "", name) ? (wanted ?? []) : other))
    : [...others, ...(wanted === undefined ? [] : [wanted])];
  return { ...draft, properties: { ...draft.properties, [property]: items } };
}

const filterPattern = /virtualMachineScaleSet\/id'? eq '([^']*)'/iu;

function matchesFilter(resource: Resource, filter: string | null): boolean {
  const wanted = filter === null ? undefined : filterPattern.exec(filter)?.[1];
  if (wanted === undefined) return true;
  return sameName(stringAt(objectAt(resource.properties, "virtualMachineScaleSet"), "id") ?? "", wanted);
}

/** The resource as it is shown without `$expand`, or with what that asks for. */
function shown(request: SimulatedRequest, type: ResourceType, resource: Resource): JsonObject {
  const asked = (request.url.searchParams.get("$expand") ?? "").toLowerCase();
  const hidden = type.expandable?.filter((property) => !asked.includes(property.toLowerCase())) ?? [];
  if (hidden.length === 0) return resource;
  const properties = Object.entries(resource.properties).filter(([property]) => !hidden.includes(property));
  return { ...resource, properties: Object.fromEntries(properties) };
}

function list(request: SimulatedRequest, state: SubscriptionState, type: ResourceType): ArmReply {
  const { path, url } = request;
  const found =
    path.resourceGroup === undefined
      ? state.store.listType(path.subscription, type.type.toLowerCase())
      : state.store.list(`${idOf(path, 0)}/${path.type}`);
  const wanted = found.filter((resource) => matchesFilter(resource, url.searchParams.get("$filter")));
  const from = Number(url.searchParams.get("$skiptoken") ?? 0);
  const to = from + request.pageSize;
  const next = to < wanted.length ? { nextLink: request.nextLink(String(to)) } : {};
  return {
    status: 200,
    body: { value: wanted.slice(from, to).map((resource) => shown(request, type, resource)), ...next },
  };
}

function existing(state: SubscriptionState, id: string): Resource {
  const resource = state.store.get(id);
  if (resource === undefined) throw notFound(id);
  return resource;
}

/** Objects are laid over objects; everything else is replaced. */
function overlay(base: JsonObject, over: JsonObject): JsonObject {
  const merged: Record<string, unknown> = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const before = merged[key];
    merged[key] = isObject(before) && isObject(value) ? overlay(before, value) : value;
  }
  return merged;
}

/** Makes what a PUT would store, without storing it. */
export function drafted(state: SubscriptionState, type: ResourceType, id: string, body: JsonObject): Draft {
  const previous = state.store.get(id);
  const base = type.merges && previous !== undefined ? draftOf(overlay(previous, body)) : draftOf(body);
  const named = withChildren(previous?.id ?? id, base, type.children ?? []);
  const settled: Draft = {
    ...named,
    location: base["location"] ?? previous?.["location"],
    properties: { ...named.properties, provisioningState: "Succeeded" },
  };
  return type.prepare?.(settled, previous, state) ?? settled;
}

function store(
  request: SimulatedRequest,
  state: SubscriptionState,
  type: ResourceType,
  id: string,
  draft: Draft,
): ArmReply {
  const previous = state.store.get(id);
  const status = previous === undefined ? 201 : 200;
  const { operations } = state;
  if (operations.polls === 0 && request.operationFault === undefined) {
    const stored = state.store.put(id, draft);
    type.stored?.(stored, previous, state);
    return { status, body: state.store.get(id) };
  }
  const unsettled: Draft = { ...draft, properties: { ...draft.properties, provisioningState: "Updating" } };
  const pending = request.operationFault === undefined ? state.store.put(id, unsettled) : { ...unsettled, id };
  const operation = operations.start({
    fault: request.operationFault,
    finish() {
      const stored = state.store.put(id, draft);
      type.stored?.(stored, previous, state);
    },
  });
  return { status, body: pending, headers: { "azure-asyncoperation": request.operationUrl("operations", operation) } };
}

function remove(request: SimulatedRequest, state: SubscriptionState, type: ResourceType, id: string): ArmReply {
  const resource = state.store.get(id);
  request.checkIfMatch(resource?.etag);
  if (resource === undefined) return { status: 204 };
  type.removing?.(resource, state);
  const finish = (): void => void state.store.delete(id);
  if (state.operations.polls === 0 && request.operationFault === undefined) {
    finish();
    return { status: 200 };
  }
  const operation = state.operations.start({ fault: request.operationFault, finish });
  return {
    status: 202,
    headers: {
      "azure-asyncoperation": request.operationUrl("operations", operation),
      location: request.operationUrl("operationResults", operation),
    },
  };
}

function itemReply(request: SimulatedRequest, state: SubscriptionState, type: ResourceType): ArmReply {
  const id = idOf(request.path, 1);
  const body = isObject(request.body) ? request.body : {};
  switch (request.method) {
    case "GET":
      return { status: 200, body: shown(request, type, existing(state, id)) };
    case "PUT": {
      request.checkIfMatch(state.store.get(id)?.etag);
      return store(request, state, type, id, drafted(state, type, id, body));
    }
    case "PATCH": {
      const before = existing(state, id);
      request.checkIfMatch(before.etag);
      return { status: 200, body: state.store.put(id, { ...before, tags: body["tags"] }) };
    }
    case "DELETE":
      return remove(request, state, type, id);
    default:
      throw new ArmFault(405, "MethodNotAllowed", `The method '${request.method}' is not supported.`);
  }
}

/** A sub-resource is read from its parent, and written by writing the parent. */
function childItem(
  request: SimulatedRequest,
  state: SubscriptionState,
  type: ResourceType,
  property: string,
): ArmReply {
  const parent = existing(state, idOf(request.path, 1));
  const children = objectsAt(parent.properties, property);
  if (request.path.collection) return { status: 200, body: { value: children } };
  const name = request.path.names[1] ?? "";
  const found = children.find((candidate) => sameName(stringAt(candidate, "name") ?? "", name));
  if (request.method === "GET") {
    if (found === undefined) throw notFound(idOf(request.path, 2));
    return { status: 200, body: found };
  }
  const removing = request.method === "DELETE";
  if (removing && found === undefined) return { status: 204 };
  request.checkIfMatch(stringAt(found, "etag"));
  const wanted = replaceChild(parent, property, name, removing ? undefined : request.body);
  const reply = store(request, state, type, parent.id, drafted(state, type, parent.id, wanted));
  if (removing) return { ...reply, body: undefined };
  const written = objectsAt(state.store.get(parent.id)?.properties, property);
  const body = written.find((candidate) => sameName(stringAt(candidate, "name") ?? "", name));
  return { ...reply, status: found === undefined ? 201 : 200, body: body ?? { name } };
}

/** Resources of the types in the table, and their sub-resources. */
export function resourceRoute(request: SimulatedRequest, state: SubscriptionState): ArmReply {
  const { path } = request;
  const [root = "", below] = path.type.split("/");
  const type = resourceType(`${path.provider ?? ""}/${root}`);
  const property = type?.children?.find((candidate) => sameName(candidate, below ?? ""));
  if (type === undefined || (below !== undefined && property === undefined))
    throw new ArmFault(404, "InvalidResourceType", `The resource type '${path.type}' could not be found.`);
  if (property !== undefined) return childItem(request, state, type, property);
  return path.collection ? list(request, state, type) : itemReply(request, state, type);
}
