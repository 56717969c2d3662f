import type { ControllerPlugin } from "cloud-controller-host/sdk";

import { formatCSV } from "./csv.ts";
import { strings } from "./flag-types.ts";
import { flag, type FlagType } from "./flag.ts";
import type { FlagGroup, FlagRow } from "./flags.ts";
import { good } from "./parsed.ts";

/** The part of a controller plugin that brings flags. */
export type PluginWithFlags = Pick<ControllerPlugin, "name" | "configSchema">;

/** The flag of one property of a plugin's `configSchema`. */
export interface PluginFlag extends FlagRow {
  readonly plugin: string;
  readonly property: string;
}

/** `maxRetries` → `max-retries`, `podCIDRs` → `pod-cidrs`. */
export const kebabCase = (property: string): string =>
  property
    .replace(/([a-z0-9])([A-Z])/g, "$1-$2")
    .replace(/([A-Z])([A-Z][a-z])/g, "$1-$2")
    .replaceAll("_", "-")
    .toLowerCase();

/** One flag a property: `--<plugin>-<property in kebab-case>`. Arguments are kept as text, for the schema to decode. */
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

/** The parts of a JSON schema that a flag is made from; `writeOnly` marks a value that is never shown. */
interface PropertySchema {
  readonly type?: unknown;
  readonly default?: unknown;
  readonly description?: unknown;
  readonly writeOnly?: unknown;
}

function flagOf(schema: PropertySchema): FlagRow["flag"] {
  const help = typeof schema.description === "string" ? schema.description : "";
  const { default: byDefault } = schema;
  if (schema.type !== "array") return flag(text(schema), plain(byDefault), help, ours);
  const items: readonly unknown[] = Array.isArray(byDefault) ? byDefault : [];
  return flag(schema.writeOnly === true ? hiddenStrings : strings, items.map(plain), help, ours);
}

/** A default as somebody would type it. */
const plain = (value: unknown): string =>
  typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value);

const ours = { from: "ours" } as const;
const hidden = "<hidden>";
const hiddenStrings: typeof strings = { ...strings, format: (value) => `[${formatCSV(value.map(() => hidden))}]` };

const words: Readonly<Record<string, string>> = { boolean: "", integer: "int", number: "float" };

function text(schema: PropertySchema): FlagType<string> {
  const type = typeof schema.type === "string" ? schema.type : "string";
  return {
    word: words[type] ?? "string",
    ...(type === "boolean" ? { bare: "true" } : {}),
    parse: good,
    format: (value) => (schema.writeOnly === true && value !== "" ? hidden : value),
    is: (value) => typeof value === "string",
  };
}
