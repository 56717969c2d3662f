import { join } from "node:path";

import {
  type Clock,
  CodedError,
  errorChain,
  isObject,
  messageOf,
  namePattern,
  type Plugin,
  visible,
} from "cloud-controller-host/sdk";

import { bounded } from "../../async/bounded.ts";
import type { OutstandingWork } from "../../async/outstanding-work.ts";
import type { PluginFolder } from "./plugin-folders.ts";
import type { PrivateCopies, PrivateCopy } from "./private-copies.ts";

/** A module may throw a text of any length, which the log and `/statusz` then show. */
const maxProblemLength = 2_000;

export interface ImportOptions {
  readonly copies: PrivateCopies;
  readonly clock: Clock;
  readonly outstanding: OutstandingWork;
  /** For each import, in milliseconds. */
  readonly importTimeout: number;
}

/** Why a plugin was not imported. */
export interface ImportProblem {
  readonly problem: string;
  /** The import did not return in time: the next one of the same files may. */
  readonly timedOut: boolean;
}

const asProblem = (problem: string, timedOut = false): ImportProblem => ({ problem, timedOut });

export const cannotImport = (copies: PrivateCopies, { folder, entry }: PluginFolder, error: unknown): string =>
  `plugin ${join(folder, entry)} cannot be imported: ${copies.restorePaths(firstProblem(error))}`;

/** The plugin of a copy. A copy whose import failed or was abandoned is not used again. Rejects only when the signal aborts. */
export async function importPlugin(
  { copies, clock, outstanding, importTimeout }: ImportOptions,
  one: PluginFolder,
  copy: PrivateCopy,
  signal: AbortSignal | undefined,
): Promise<{ readonly plugin: Plugin } | ImportProblem> {
  const path = join(one.folder, one.entry);
  const bounds = {
    kind: "import" as const,
    name: `import of ${path}`,
    clock,
    outstanding,
    limitMs: importTimeout,
    hint: "--plugin-init-timeout",
    ...(signal && { signal }),
  };
  try {
    const exported: Readonly<Record<string, unknown>> = await bounded(
      bounds,
      () => import(join(copy.folder, one.entry)),
    );
    const plugin = pluginIn(exported["default"]);
    if (plugin !== undefined) {
      const wrong = malformed(plugin);
      return wrong === undefined ? { plugin } : asProblem(`plugin ${path}: ${wrong}`);
    }
    return asProblem(
      "default" in exported
        ? `plugin ${path}: its default export is not a plugin; export default defineController({…}), defineCloud({…}) or defineWebhook({…})`
        : `plugin ${path} has no default export; add: export default defineController({…})`,
    );
  } catch (error) {
    const timedOut = errorChain(error).some((each) => each instanceof CodedError && each.code === "WorkTimeout");
    const problem = asProblem(cannotImport(copies, one, error), timedOut);
    await copy.release(true);
    signal?.throwIfAborted();
    return problem;
  }
}

/** A module with several syntax errors rejects with all of them; the first one says what to fix. */
function firstProblem(error: unknown): string {
  try {
    const first: unknown = error instanceof AggregateError ? (error.errors[0] ?? error) : error;
    const at = first instanceof BuildMessage ? first.position : null;
    return `${at ? `${at.file}:${at.line}:${at.column}: ` : ""}${firstLine(messageOf(first))}`;
  } catch {
    // A module may throw anything, such as a proxy that refuses to say what it is.
    return firstLine(messageOf(error));
  }
}

/** Without what would control the terminal that it is printed on. */
const firstLine = (text: string): string => visible((text.split("\n", 1)[0] ?? "").slice(0, maxProblemLength));

/** Members that the functions of the SDK fill in, for a plugin that was made without them, or by those of another version. */
const omitted = { permissions: [], rules: [], enabledByDefault: true, type: "validating", configSchema: undefined };

/**
 * The plugin that a module exports, undefined for anything else. It is copied, so that each property is read once: what
 * was checked is what is used. Throws what a getter throws.
 */
function pluginIn(exported: unknown): Plugin | undefined {
  const own: unknown = typeof exported === "object" ? { ...exported } : undefined;
  if (!isObject(own)) return undefined;
  const given = Object.fromEntries(Object.entries(own).filter(([, value]) => value !== undefined));
  const plugin: unknown = { ...omitted, initContext: { clientName: given["name"] }, ...given };
  return isPlugin(plugin) ? plugin : undefined;
}

function isPlugin(value: unknown): value is Plugin {
  if (!isObject(value) || typeof value["name"] !== "string") return false;
  const { kind, admit, path, bind, aliases } = value;
  if (kind === "webhook") return typeof admit === "function" && typeof path === "string";
  if (typeof bind !== "function") return false;
  return kind === "cloud" || (kind === "controller" && isListOfStrings(aliases));
}

/** The problem with a plugin's members, which were not type-checked; undefined for none. */
function malformed(plugin: Plugin): string | undefined {
  if (!namePattern.test(plugin.name))
    return "its name must be lower-case words joined by hyphens, at most 63 characters";
  if (plugin.kind === "webhook")
    return isListOf(plugin.rules, isRule)
      ? undefined
      : "its rules must be a list of { apiGroups, apiVersions, resources, operations }, each a list of texts";
  if (!isListOf(plugin.permissions, isPermission))
    return "its permissions must be a list of { apiGroup, resources, verbs }, the last two lists of texts";
  if (plugin.kind === "controller" && !isListOf(plugin.kinds ?? [], isKind))
    return "its kinds must be a list of kinds from defineKind({ group, version, kind, plural, namespaced })";
  const schema: unknown = plugin.configSchema;
  return schema === undefined || (isObject(schema) && isObject(schema["properties"]))
    ? undefined
    : "its configSchema must be Type.Object({…})";
}

type Members = Readonly<Record<string, unknown>>;

const isListOf = (list: unknown, isItem: (item: Members) => boolean): boolean =>
  Array.isArray(list) && list.every((item: unknown) => isObject(item) && isItem(item));

const isListOfStrings = (value: unknown): boolean =>
  Array.isArray(value) && value.every((item) => typeof item === "string");

const isRule = ({ apiGroups, apiVersions, resources, operations }: Members): boolean =>
  [apiGroups, apiVersions, resources, operations].every(isListOfStrings);

/** A rule of a role without an API group names no resource, and the API server refuses it. */
const isPermission = ({ apiGroup, resources, verbs }: Members): boolean =>
  typeof apiGroup === "string" && isListOfStrings(resources) && isListOfStrings(verbs);

const isKind = ({ group, version, kind, plural, namespaced }: Members): boolean =>
  isListOfStrings([group, version, kind, plural]) && typeof namespaced === "boolean";
