import { isObject, type Json, type JsonObject } from "../json.ts";

/** RFC 7396: objects are merged, `null` removes, all else replaces. */
export function mergePatch(target: Json | undefined, patch: Json): Json {
  if (!isObject(patch)) return patch;
  const next: Record<string, Json> = isObject(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete next[key];
    else next[key] = mergePatch(next[key], value);
  }
  return next satisfies JsonObject;
}
