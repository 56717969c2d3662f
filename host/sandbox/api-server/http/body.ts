import { parse as parseYaml } from "yaml";

import { isObject, type Json, type JsonObject } from "../json.ts";
import { badRequest, tooLarge, unsupportedMediaType } from "../status.ts";

/** The API server's own limit for one object. */
const maxBodyBytes = 3 * 1024 * 1024;

export const patchTypes = {
  json: "application/json-patch+json",
  merge: "application/merge-patch+json",
  strategic: "application/strategic-merge-patch+json",
  apply: "application/apply-patch+yaml",
} as const;

const objectTypes = ["application/json", "application/yaml"] as const;

const mediaType = (request: Request): string =>
  (request.headers.get("content-type") ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";

/** The body of a create, update or delete; an empty body is an empty object where `optional`. */
export async function readObject(request: Request, optional = false): Promise<JsonObject> {
  const type = mediaType(request);
  const text = await readText(request);
  if (text === "" && optional) return {};
  if (type !== "" && type !== "application/json" && type !== "application/yaml")
    throw unsupportedMediaType(type, objectTypes);
  const value = type === "application/yaml" ? yaml(text) : json(text);
  if (!isObject(value)) throw badRequest("the body of the request must be an object");
  return value;
}

/** The body of a PATCH and how it is to be read. */
export async function readPatch(
  request: Request,
): Promise<{ readonly type: keyof typeof patchTypes; readonly patch: Json }> {
  const wanted = mediaType(request);
  for (const type of ["json", "merge", "strategic", "apply"] as const) {
    if (patchTypes[type] !== wanted) continue;
    const text = await readText(request);
    return { type, patch: type === "apply" ? yaml(text) : json(text) };
  }
  throw unsupportedMediaType(wanted, Object.values(patchTypes));
}

async function readText(request: Request): Promise<string> {
  if (Number(request.headers.get("content-length") ?? 0) > maxBodyBytes) throw tooLarge(maxBodyBytes);
  const text = await request.text();
  if (text.length > maxBodyBytes) throw tooLarge(maxBodyBytes);
  return text;
}

function json(text: string): Json {
  try {
    const value: Json = JSON.parse(text);
    return value;
  } catch (cause) {
    throw badRequest(`the body of the request is not JSON: ${cause instanceof Error ? cause.message : ""}`);
  }
}

function yaml(text: string): Json {
  try {
    const value: Json = parseYaml(text);
    return value;
  } catch (cause) {
    throw badRequest(`the body of the request is not YAML: ${cause instanceof Error ? cause.message : ""}`);
  }
}
