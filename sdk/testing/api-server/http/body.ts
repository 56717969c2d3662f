import { parse as parseYaml } from "yaml";

import { badRequest, tooLarge, unsupportedMediaType } from "../access/status.ts";
import { isObject, type Json, type JsonObject, ownMember } from "../json.ts";
import { decodeProtobuf } from "../protobuf/decode.ts";
import type { RecordSchema } from "../schema/schema.ts";

/** The API server's own limit for one object. */
const maxBodyBytes = 3 * 1024 * 1024;

export const patchTypes = {
  json: "application/json-patch+json",
  merge: "application/merge-patch+json",
  strategic: "application/strategic-merge-patch+json",
  apply: "application/apply-patch+yaml",
} as const;

/** Supported media types of a body. */
const formats: Readonly<Record<string, (bytes: Uint8Array, schema: RecordSchema) => Json>> = {
  "application/json": (bytes) => json(textOf(bytes)),
  "application/yaml": (bytes) => yaml(textOf(bytes)),
  "application/vnd.kubernetes.protobuf": decodeProtobuf,
};

export const mediaTypeOf = (headers: Headers): string =>
  (headers.get("content-type") ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";

/** The object in the body of a request. With `optional`, an absent body is an empty object. */
export async function readObject(request: Request, schema: RecordSchema, optional = false): Promise<JsonObject> {
  const type = mediaTypeOf(request.headers) || "application/json";
  const bytes = await readBytes(request);
  if (bytes.length === 0 && optional) return {};
  const read = ownMember(formats, type);
  if (read === undefined) throw unsupportedMediaType(type, Object.keys(formats));
  const value = read(bytes, schema);
  if (!isObject(value)) throw badRequest("the body of the request must be an object");
  return value;
}

/** The body of a PATCH and its type. */
export async function readPatch(
  request: Request,
): Promise<{ readonly type: keyof typeof patchTypes; readonly patch: Json }> {
  const wanted = mediaTypeOf(request.headers);
  for (const type of ["json", "merge", "strategic", "apply"] as const) {
    if (patchTypes[type] !== wanted) continue;
    const text = textOf(await readBytes(request));
    return { type, patch: type === "apply" ? yaml(text) : json(text) };
  }
  throw unsupportedMediaType(wanted, Object.values(patchTypes));
}

async function readBytes(request: Request): Promise<Uint8Array> {
  if (Number(request.headers.get("content-length") ?? 0) > maxBodyBytes) throw tooLarge(maxBodyBytes);
  const bytes = await request.bytes();
  if (bytes.length > maxBodyBytes) throw tooLarge(maxBodyBytes);
  return bytes;
}

const textOf = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("utf8");

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
