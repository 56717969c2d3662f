import { sameName } from "../arm/resource-id.ts";
import { isObject, type JsonObject, objectAt, objectsAt, stringAt } from "../json.ts";
import { replaceChild, withChildren } from "./children.ts";
import { ArmFault, type ArmReply, notFound } from "./fault.ts";
import { idOf, type SimulatedRequest } from "./request.ts";
import { type ResourceType, resourceType } from "./resource-types.ts";
import { type Draft, draftOf, type Resource } from "./store.ts";
import type { World } from "./world.ts";

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

function list(request: SimulatedRequest, world: World, type: ResourceType): ArmReply {
  const { path, url } = request;
  const found =
    path.resourceGroup === undefined
      ? world.store.listType(path.subscription, type.type.toLowerCase())
      : world.store.list(`${idOf(path, 0)}/${path.type}`);
  const wanted = found.filter((resource) => matchesFilter(resource, url.searchParams.get("$filter")));
  const from = Number(url.searchParams.get("$skiptoken") ?? 0);
  const to = from + request.pageSize;
  const next = to < wanted.length ? { nextLink: request.nextLink(String(to)) } : {};
  return {
    status: 200,
    body: { value: wanted.slice(from, to).map((resource) => shown(request, type, resource)), ...next },
  };
}

function existing(world: World, id: string): Resource {
  const resource = world.store.get(id);
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
export function drafted(world: World, type: ResourceType, id: string, body: JsonObject): Draft {
  const previous = world.store.get(id);
  const base = type.merges && previous !== undefined ? draftOf(overlay(previous, body)) : draftOf(body);
  const named = withChildren(previous?.id ?? id, base, type.children ?? []);
  const settled: Draft = {
    ...named,
    location: base["location"] ?? previous?.["location"],
    properties: { ...named.properties, provisioningState: "Succeeded" },
  };
  return type.prepare?.(settled, previous, world) ?? settled;
}

function store(request: SimulatedRequest, world: World, type: ResourceType, id: string, draft: Draft): ArmReply {
  const previous = world.store.get(id);
  const status = previous === undefined ? 201 : 200;
  const { operations } = world;
  if (operations.polls === 0 && request.operationFault === undefined) {
    const stored = world.store.put(id, draft);
    type.stored?.(stored, previous, world);
    return { status, body: world.store.get(id) };
  }
  const unsettled: Draft = { ...draft, properties: { ...draft.properties, provisioningState: "Updating" } };
  const pending = request.operationFault === undefined ? world.store.put(id, unsettled) : { ...unsettled, id };
  const operation = operations.start({
    fault: request.operationFault,
    finish() {
      const stored = world.store.put(id, draft);
      type.stored?.(stored, previous, world);
    },
  });
  return { status, body: pending, headers: { "azure-asyncoperation": request.operationUrl("operations", operation) } };
}

function remove(request: SimulatedRequest, world: World, type: ResourceType, id: string): ArmReply {
  const resource = world.store.get(id);
  request.checkIfMatch(resource?.etag);
  if (resource === undefined) return { status: 204 };
  type.removing?.(resource, world);
  const finish = (): void => void world.store.delete(id);
  if (world.operations.polls === 0 && request.operationFault === undefined) {
    finish();
    return { status: 200 };
  }
  const operation = world.operations.start({ fault: request.operationFault, finish });
  return {
    status: 202,
    headers: {
      "azure-asyncoperation": request.operationUrl("operations", operation),
      location: request.operationUrl("operationResults", operation),
    },
  };
}

function item(request: SimulatedRequest, world: World, type: ResourceType): ArmReply {
  const id = idOf(request.path, 1);
  const body = isObject(request.body) ? request.body : {};
  switch (request.method) {
    case "GET":
      return { status: 200, body: shown(request, type, existing(world, id)) };
    case "PUT": {
      request.checkIfMatch(world.store.get(id)?.etag);
      return store(request, world, type, id, drafted(world, type, id, body));
    }
    case "PATCH": {
      const before = existing(world, id);
      request.checkIfMatch(before.etag);
      return { status: 200, body: world.store.put(id, { ...before, tags: body["tags"] }) };
    }
    case "DELETE":
      return remove(request, world, type, id);
    default:
      throw new ArmFault(405, "MethodNotAllowed", `The method '${request.method}' is not supported.`);
  }
}

/** A sub-resource is read from its parent, and written by writing the parent. */
function childItem(request: SimulatedRequest, world: World, type: ResourceType, property: string): ArmReply {
  const parent = existing(world, idOf(request.path, 1));
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
  const reply = store(request, world, type, parent.id, drafted(world, type, parent.id, wanted));
  if (removing) return { ...reply, body: undefined };
  const written = objectsAt(world.store.get(parent.id)?.properties, property);
  const body = written.find((candidate) => sameName(stringAt(candidate, "name") ?? "", name));
  return { ...reply, status: found === undefined ? 201 : 200, body: body ?? { name } };
}

/** Resources of the types in the table, and their sub-resources. */
export function resourceRoute(request: SimulatedRequest, world: World): ArmReply {
  const { path } = request;
  const [root = "", below] = path.type.split("/");
  const type = resourceType(`${path.provider ?? ""}/${root}`);
  const property = type?.children?.find((candidate) => sameName(candidate, below ?? ""));
  if (type === undefined || (below !== undefined && property === undefined))
    throw new ArmFault(404, "InvalidResourceType", `The resource type '${path.type}' could not be found.`);
  if (property !== undefined) return childItem(request, world, type, property);
  return path.collection ? list(request, world, type) : item(request, world, type);
}
