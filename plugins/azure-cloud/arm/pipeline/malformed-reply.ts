import type { PipelineRequest, PipelineResponse } from "@azure/core-rest-pipeline";
import { CodedError, isObject } from "cloud-controller-host/sdk";

import { type JsonObject, objectAt, parseJson, stringAt } from "../../json.ts";
import { type ArmPath, lastSegment, parseArmPath, sameName } from "../resource-id.ts";
import { targetOf } from "./target.ts";

export const operationPath = /\/locations\/[^/]+\/operations\//iu;

/**
 * The error for a reply of success without a resource, a list or the status of an operation: a proxy or a gateway has
 * answered. The SDK would return an object without properties, which looks like a resource that has nothing and is then
 * written with nothing but what is ours, and take the operation of a write for one that has succeeded.
 */
export function malformedReply(request: PipelineRequest, response: PipelineResponse): CodedError | undefined {
  const body = response.bodyAsText ?? "";
  const problem = response.status === 202 ? untrackedProblem(request, response) : problemOf(request, body);
  if (problem === undefined) return undefined;
  const content = `${body.length} characters of ${response.headers.get("content-type") ?? "no content type"}`;
  const message = `ARM ${request.method} ${targetOf(request.url).path}: ${response.status} ${problem}: the reply is not one of ARM (${content})`;
  return new CodedError("InvalidReply", message);
}

/** The SDK would take such a deletion for one that has ended. upstream: azcore's `missing polling URL`. */
function untrackedProblem({ method }: PipelineRequest, { headers }: PipelineResponse): string | undefined {
  const isTracked = operationHeaders.some((name) => headers.has(name));
  return method === "DELETE" && !isTracked ? "without the address of its operation" : undefined;
}

const operationHeaders = ["azure-asyncoperation", "location", "operation-location"];

/** Replies of proxies and gateways are short. A list of ARM may have megabytes, which the SDK parses anyway. */
const longestForeign = 65_536;

function problemOf(request: PipelineRequest, body: string): string | undefined {
  const key = requiredKey(request);
  if (key === undefined) return undefined;
  // The SDK's error for a list that was cut off would quote all of it.
  if (body.length > longestForeign && !body.trimEnd().endsWith("}")) return "that is cut off";
  if (body.length > longestForeign) return body.includes(`"${key}"`) ? undefined : `without ${key}`;
  const parsed = parseJson(body);
  if (!isObject(parsed) || parsed[key] === undefined) return `without ${key}`;
  const { type, path } = targetOf(request.url);
  // Of other providers only the permissions of the identity are read, which are not resources.
  if (key === "status" || !/^microsoft\.(?:compute|network)\//u.test(type)) return undefined;
  const requested = parseArmPath(path);
  if (requested === undefined) return undefined;
  if (key === "id") return resourceProblem(parsed, requested);
  const list = parsed[key];
  return Array.isArray(list) ? firstProblem(list, requested) : `without a list in ${key}`;
}

function firstProblem(list: readonly unknown[], requested: ArmPath): string | undefined {
  for (const item of list) {
    const problem = resourceProblem(isObject(item) ? item : {}, requested);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** Every resource of ours has properties. ARM compares names in any case, and a list has no name of a resource. */
function resourceProblem(
  resource: JsonObject,
  { resourceGroup = "", type, names, collection }: ArmPath,
): string | undefined {
  const id = stringAt(resource, "id") ?? "";
  const own = parseArmPath(id);
  const isRequested =
    own !== undefined &&
    sameName(own.resourceGroup ?? "", resourceGroup) &&
    sameName(lastSegment(own.type), lastSegment(type)) &&
    (collection || sameName(lastSegment(id), names.at(-1) ?? ""));
  if (!isRequested) return `with ${id === "" ? "a resource without an id" : `another resource, ${id}`}`;
  return objectAt(resource, "properties") === undefined ? `with ${lastSegment(id)} without properties` : undefined;
}

/** A member that every reply of success to such a request has. */
function requiredKey({ method, url }: PipelineRequest): string | undefined {
  const { resourceGroup, type, collection, path } = targetOf(url);
  if (method !== "GET" && method !== "PUT") return undefined;
  // A poll for the result of an operation, which may be empty, has the path of one for its status.
  if (operationPath.test(path)) return new URL(url).searchParams.has("monitor") ? undefined : "status";
  if (resourceGroup === "" || type === "") return undefined;
  return collection ? "value" : "id";
}
