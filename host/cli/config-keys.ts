import { isObject } from "cloud-controller-host/sdk";

/** A key of the cloud config, for `help KEY` and the reference page. */
export interface ConfigKey {
  /** With the keys that it is inside of: `multipleStandardLoadBalancerConfigurations[].name`. */
  readonly path: string;
  /** `string`, `list` and the like; empty for one of `words`. */
  readonly type: string;
  /** The only valid values. */
  readonly words: readonly string[];
  /** Empty: nothing. */
  readonly fallback: string;
  readonly description: string;
}

type Json = Readonly<Record<string, unknown>>;

const textOf = (value: unknown): string =>
  typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? String(value) : "";

/** All keys of a cloud's `configSchema`, each followed by the keys inside of it. */
export const configKeys = (schema: Json): readonly ConfigKey[] => keysInside(schema, "");

const keysInside = ({ properties }: Json, prefix: string): readonly ConfigKey[] =>
  isObject(properties)
    ? Object.entries(properties).flatMap(([name, inner]) => (isObject(inner) ? keysOf(prefix + name, inner) : []))
    : [];

function keysOf(path: string, schema: Json): readonly ConfigKey[] {
  const words = wordsOf(schema);
  const key = {
    path,
    type: words.length > 0 ? "" : typeOf(schema),
    words,
    fallback: textOf(schema["default"]),
    description: textOf(schema["description"]) + (schema["writeOnly"] === true ? " Secret." : ""),
  };
  const { items } = schema;
  return [key, ...(isObject(items) ? keysInside(items, `${path}[].`) : keysInside(schema, `${path}.`))];
}

function wordsOf({ anyOf }: Json): readonly string[] {
  if (!Array.isArray(anyOf)) return [];
  return anyOf.flatMap((word: unknown) => (isObject(word) && word["const"] ? [textOf(word["const"])] : []));
}

function typeOf(schema: Json): string {
  if (isObject(schema["patternProperties"])) return "mapping";
  if (schema["type"] === "array") return "list";
  return typeof schema["type"] === "string" ? schema["type"] : "any";
}
