import { isObject } from "cloud-controller-host/sdk";

import { type JsonObject, stringAt } from "../json.ts";
import { suggestion } from "../suggestion.ts";

/** Problems and warnings about a document, with the keys as the user wrote them. */
export interface Diagnostics {
  readonly problems: string[];
  /** Paths of the keys that have a problem; they are taken for absent. */
  readonly refused: string[];
  /** Keys that are not in the schema, with the key that was probably meant. */
  readonly unknown: string[];
  readonly warnings: string[];
}

/**
 * Normalizes a document as upstream's decoder reads it: keys match in any case, unknown keys are dropped, a YAML scalar
 * is accepted for a string, and null is the default; 0 and empty text are, too, for keys that need a value.
 */
export function normalize(schema: JsonObject, value: unknown, path: string, diagnostics: Diagnostics): unknown {
  const words = wordsOf(schema);
  if (words !== undefined)
    return schema["caseSensitive"] === true
      ? normalizeExactWord(words, value, path, diagnostics)
      : normalizeWord(words, value, path, diagnostics);
  if (schema["emptyIsDefault"] === true && value === (schema["type"] === "string" ? "" : 0)) return undefined;
  switch (stringAt(schema, "type")) {
    case "object":
      return normalizeObject(schema, value, path, diagnostics);
    case "array":
      return normalizeArray(schema, value, path, diagnostics);
    case "string":
      if (typeof value === "string") return value;
      if (typeof value === "number" || typeof value === "boolean") return String(value);
      return wrong("must be a string", value, path, diagnostics);
    case "boolean":
      if (typeof value === "boolean") return value;
      return wrong("must be true or false without quotes", value, path, diagnostics);
    case "integer":
      if (Number.isInteger(value)) return normalizeRange(schema, value, path, diagnostics);
      return wrong("must be an integer without quotes", value, path, diagnostics);
    case "number":
      if (typeof value === "number") return value;
      return wrong("must be a number without quotes", value, path, diagnostics);
    default:
      return value;
  }
}

function wrong(rule: string, value: unknown, path: string, diagnostics: Diagnostics): undefined {
  diagnostics.problems.push(`${path} ${rule}, got ${shown(value)}`);
  diagnostics.refused.push(path);
  return undefined;
}

/** Only scalars are quoted. A string key accepts every scalar, so a secret never gets here. */
function shown(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  if (typeof value === "string") return JSON.stringify(value.slice(0, 80));
  return typeof value === "number" || typeof value === "boolean" ? String(value) : "a mapping";
}

function normalizeRange(schema: JsonObject, value: unknown, path: string, diagnostics: Diagnostics): unknown {
  const minimum = schema["minimum"];
  if (typeof minimum !== "number" || typeof value !== "number" || value >= minimum) return value;
  return wrong(`must be at least ${minimum}`, value, path, diagnostics);
}

const wordsOf = (schema: JsonObject): readonly string[] | undefined => {
  const options: unknown = schema["anyOf"];
  return Array.isArray(options)
    ? options.map((option: unknown) => String(isObject(option) && option["const"]))
    : undefined;
};

function normalizeWord(
  words: readonly string[],
  value: unknown,
  path: string,
  diagnostics: Diagnostics,
): string | undefined {
  if (value === "") return undefined;
  const word = words.find((candidate) => candidate.toLowerCase() === String(value).toLowerCase());
  const listed = words.filter((candidate) => candidate !== "").join(", ");
  return word ?? wrong(`must be one of ${listed}`, value, path, diagnostics);
}

/** A known word in another case has no effect upstream; it has none here either, and a warning says why. */
function normalizeExactWord(words: readonly string[], value: unknown, path: string, diagnostics: Diagnostics): unknown {
  const word = normalizeWord(words, value, path, diagnostics);
  if (word === undefined || word === value) return word;
  diagnostics.warnings.push(
    `${path}: ${shown(value)} has no effect: the value is case-sensitive (did you mean ${word}?)`,
  );
  return undefined;
}

function normalizeArray(schema: JsonObject, value: unknown, path: string, diagnostics: Diagnostics): unknown {
  if (!Array.isArray(value)) return wrong("must be a list", value, path, diagnostics);
  const items = isObject(schema["items"]) ? schema["items"] : {};
  return value.map((item: unknown, index) => normalize(items, item, `${path}[${index}]`, diagnostics));
}

function normalizeObject(schema: JsonObject, value: unknown, path: string, diagnostics: Diagnostics): unknown {
  if (!isObject(value)) return wrong("must be a mapping of keys to values", value, path, diagnostics);
  const { properties } = schema;
  return isObject(properties)
    ? normalizeKeys(properties, value, path, diagnostics)
    : normalizeRecord(value, path, diagnostics);
}

/** A mapping with arbitrary keys: labels or tags. */
const normalizeRecord = (value: JsonObject, path: string, diagnostics: Diagnostics): JsonObject =>
  Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      key,
      normalize({ type: "string" }, item ?? "", `${path}.${key}`, diagnostics) ?? "",
    ]),
  );

function normalizeKeys(properties: JsonObject, value: JsonObject, path: string, diagnostics: Diagnostics): JsonObject {
  const byLowerCase = new Map(Object.keys(properties).map((key) => [key.toLowerCase(), key]));
  const normalized: Record<string, unknown> = {};
  for (const [given, item] of Object.entries(value)) {
    const key = byLowerCase.get(given.toLowerCase());
    const schema = key === undefined ? undefined : properties[key];
    const prefix = path === "" ? "" : `${path}.`;
    if (key === undefined || !isObject(schema)) {
      diagnostics.unknown.push(`${prefix}${given}${suggestion(given, byLowerCase.values())}`);
      continue;
    }
    if (key in normalized) diagnostics.warnings.push(`${prefix}${key} is set more than once; the last value applies`);
    const result =
      item === null || item === undefined ? undefined : normalize(schema, item, `${prefix}${key}`, diagnostics);
    if (result !== undefined) normalized[key] = result;
  }
  return normalized;
}
