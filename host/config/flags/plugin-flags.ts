import { type ControllerPlugin, isObject } from "cloud-controller-host/sdk";

import { bad, good } from "../values/parsed.ts";
import { string, strings } from "./flag-types.ts";
import { flag, type FlagType } from "./flag.ts";
import type { FlagGroup, FlagRow } from "./flags.ts";

/** The part of a controller plugin that defines flags. */
export type PluginWithFlags = Pick<ControllerPlugin, "name" | "configSchema">;

/** The flag of one property of a plugin's `configSchema`. */
export interface PluginFlag extends FlagRow {
  readonly plugin: string;
  readonly property: string;
}

/** Words of a property name; an acronym is one word, including a plural `s`. */
const words = /[A-Z]{2,}s(?![a-z])|[A-Z]+[0-9]*(?![a-z])|[A-Z]?[a-z0-9]+/g;

/** `maxRetries` → `max-retries`, `podCIDRs` → `pod-cidrs`, `apiServerURL` → `api-server-url`. */
export const kebabCase = (property: string): string => (property.match(words) ?? [property]).join("-").toLowerCase();

/** One flag per property: `--<plugin>-<property in kebab-case>`. Arguments stay text, to be decoded by the schema. */
export function pluginFlags(plugin: PluginWithFlags): readonly PluginFlag[] {
  return Object.entries(plugin.configSchema?.properties ?? {}).map(([property, schema]) => ({
    plugin: plugin.name,
    property,
    name: `${plugin.name}-${kebabCase(property)}`,
    flag: flagOf(schema),
  }));
}

export const pluginGroups = (plugins: readonly PluginWithFlags[]): readonly FlagGroup[] =>
  plugins.map((plugin) => ({ title: plugin.name, rows: pluginFlags(plugin) })).filter(({ rows }) => rows.length > 0);

/** The parts of a JSON schema used for a flag. */
interface PropertySchema {
  readonly type?: unknown;
  readonly default?: unknown;
  readonly description?: unknown;
}

/** The flag shows all of an option, or nothing: `writeOnly` marks a secret, which may be a part of it. */
const hasSecret = (schema: PropertySchema): boolean => JSON.stringify(schema).includes('"writeOnly":true');

function flagOf(schema: PropertySchema): FlagRow["flag"] {
  const help = typeof schema.description === "string" ? schema.description : "";
  const secret = hasSecret(schema);
  const { default: byDefault } = schema;
  if (schema.type === "object") return flag<unknown>({ ...json, secret }, byDefault, help, { from: "ours" });
  if (schema.type !== "array") return flag({ ...text(schema.type), secret }, plain(byDefault), help, { from: "ours" });
  const items: readonly unknown[] = Array.isArray(byDefault) ? byDefault : [];
  return flag({ ...strings, secret }, items.map(plain), help, { from: "ours" });
}

/** A default in command-line form. */
const plain = (value: unknown): string =>
  typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value);

/** Text cannot be converted to an object. The last one given applies. */
const json: FlagType<unknown> = {
  word: "json",
  parse(text) {
    try {
      const value: unknown = JSON.parse(text);
      if (isObject(value)) return good(value);
    } catch {
      // The parser's message may quote a secret.
    }
    return bad("must be a JSON object");
  },
  format: (value) => (value === undefined ? "" : JSON.stringify(value)),
  is: (value): value is unknown => value === undefined || isObject(value),
};

const typeWords: Readonly<Record<string, string>> = { boolean: "", integer: "int", number: "float" };

const text = (type: unknown): FlagType<string> => ({
  ...string,
  word: typeof type === "string" ? (typeWords[type] ?? "string") : "string",
  ...(type === "boolean" ? { bare: "true" } : {}),
});
