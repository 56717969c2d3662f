import { isObject, type JsonObject, stringAt } from "../json.ts";

/** What was noticed while a document was fitted to a schema, in the user's words. */
export interface Findings {
  readonly problems: string[];
  /** Keys that no schema knows, with the key that was probably meant. */
  readonly unknown: string[];
  readonly warnings: string[];
}

/**
 * Reads a document the way upstream's decoder does: keys match whatever their case, unknown keys are left out, a YAML
 * scalar is taken where a string is wanted, and null counts as absent.
 */
export function fit(schema: JsonObject, value: unknown, path: string, findings: Findings): unknown {
  const words = wordsOf(schema);
  if (words !== undefined) return fitWord(words, value, path, findings);
  switch (stringAt(schema, "type")) {
    case "object":
      return fitObject(schema, value, path, findings);
    case "array":
      return fitArray(schema, value, path, findings);
    case "string":
      if (typeof value === "string") return value;
      if (typeof value === "number" || typeof value === "boolean") return String(value);
      return wrong("must be text", value, path, findings);
    case "boolean":
      if (typeof value === "boolean") return value;
      return wrong("must be true or false, without quotes", value, path, findings);
    case "integer":
      if (Number.isInteger(value)) return fitRange(schema, value, path, findings);
      return wrong("must be a whole number, without quotes", value, path, findings);
    case "number":
      if (typeof value === "number") return value;
      return wrong("must be a number, without quotes", value, path, findings);
    default:
      return value;
  }
}

function wrong(rule: string, value: unknown, path: string, findings: Findings): undefined {
  findings.problems.push(`${path} ${rule}, got ${shown(value)}`);
  return undefined;
}

/** Only plain values are repeated. A key of text takes every plain value, so a secret never gets here. */
function shown(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  if (typeof value === "string") return JSON.stringify(value.slice(0, 80));
  return typeof value === "number" || typeof value === "boolean" ? String(value) : "a mapping";
}

function fitRange(schema: JsonObject, value: unknown, path: string, findings: Findings): unknown {
  const minimum = schema["minimum"];
  if (typeof minimum !== "number" || typeof value !== "number" || value >= minimum) return value;
  return wrong(`must be at least ${minimum}`, value, path, findings);
}

const wordsOf = (schema: JsonObject): readonly string[] | undefined => {
  const options: unknown = schema["anyOf"];
  return Array.isArray(options)
    ? options.map((option: unknown) => String(isObject(option) && option["const"]))
    : undefined;
};

function fitWord(words: readonly string[], value: unknown, path: string, findings: Findings): unknown {
  if (value === "") return undefined;
  const word = words.find((candidate) => candidate.toLowerCase() === String(value).toLowerCase());
  const listed = words.filter((candidate) => candidate !== "").join(", ");
  return word ?? wrong(`must be one of ${listed}`, value, path, findings);
}

function fitArray(schema: JsonObject, value: unknown, path: string, findings: Findings): unknown {
  if (!Array.isArray(value)) return wrong("must be a list", value, path, findings);
  const items = isObject(schema["items"]) ? schema["items"] : {};
  return value.map((item: unknown, index) => fit(items, item, `${path}[${index}]`, findings));
}

function fitObject(schema: JsonObject, value: unknown, path: string, findings: Findings): unknown {
  if (!isObject(value)) return wrong("must be a mapping of keys to values", value, path, findings);
  const { properties } = schema;
  return isObject(properties) ? fitKeys(properties, value, path, findings) : fitRecord(value, path, findings);
}

/** A mapping with free keys: labels or tags. */
const fitRecord = (value: JsonObject, path: string, findings: Findings): JsonObject =>
  Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      key,
      fit({ type: "string" }, item ?? "", `${path}.${key}`, findings) ?? "",
    ]),
  );

function fitKeys(properties: JsonObject, value: JsonObject, path: string, findings: Findings): JsonObject {
  const byLowerCase = new Map(Object.keys(properties).map((key) => [key.toLowerCase(), key]));
  const fitted: Record<string, unknown> = {};
  for (const [given, item] of Object.entries(value)) {
    const key = byLowerCase.get(given.toLowerCase());
    const schema = key === undefined ? undefined : properties[key];
    const prefix = path === "" ? "" : `${path}.`;
    if (key === undefined || !isObject(schema)) {
      findings.unknown.push(`${prefix}${given}${suggestion(given, byLowerCase)}`);
      continue;
    }
    if (key in fitted) findings.warnings.push(`${prefix}${key} is given more than once; the last one counts`);
    const result = item === null || item === undefined ? undefined : fit(schema, item, `${prefix}${key}`, findings);
    if (result !== undefined) fitted[key] = result;
  }
  return fitted;
}

function suggestion(given: string, byLowerCase: ReadonlyMap<string, string>): string {
  const limit = Math.min(3, Math.max(1, Math.floor(given.length / 4)));
  const near = [...byLowerCase]
    .map(([lower, key]) => ({ key, distance: editDistance(lower, given.toLowerCase(), limit) }))
    .filter(({ distance }) => distance <= limit)
    .toSorted((left, right) => left.distance - right.distance)[0];
  return near === undefined ? "" : ` (did you mean ${near.key}?)`;
}

/** Letters to insert, drop or change to get from one word to the other; more than `limit` is not counted out. */
function editDistance(left: string, right: string, limit: number): number {
  if (Math.abs(left.length - right.length) > limit) return limit + 1;
  let previous = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (const [row, letter] of Array.from(left).entries()) {
    const current = [row + 1];
    for (const [column, other] of Array.from(right).entries()) {
      const change = (previous[column] ?? 0) + (letter === other ? 0 : 1);
      current.push(Math.min(change, (previous[column + 1] ?? 0) + 1, (current[column] ?? 0) + 1));
    }
    previous = current;
  }
  return previous[right.length] ?? limit + 1;
}
