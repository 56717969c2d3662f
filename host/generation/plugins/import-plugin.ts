import { join } from "node:path";

import { type Clock, messageOf, type Plugin } from "cloud-controller-host/sdk";

import { bounded } from "../../async/bounded.ts";
import type { OutstandingWork } from "../../async/outstanding-work.ts";
import type { PluginFolder } from "./plugin-folders.ts";
import type { PrivateCopies, PrivateCopy } from "./private-copies.ts";

export interface ImportOptions {
  readonly copies: PrivateCopies;
  readonly clock: Clock;
  readonly outstanding: OutstandingWork;
  /** For each import, in milliseconds. */
  readonly importTimeout: number;
}

export const cannotImport = (copies: PrivateCopies, { folder, entry }: PluginFolder, error: unknown): string =>
  `plugin ${join(folder, entry)} cannot be imported: ${copies.restorePaths(firstProblem(error))}`;

/** A plugin or the problem. A copy whose import failed or was abandoned is not used again. Rejects only when the signal aborts. */
export async function importPlugin(
  { copies, clock, outstanding, importTimeout }: ImportOptions,
  one: PluginFolder,
  copy: PrivateCopy,
  signal: AbortSignal | undefined,
): Promise<Plugin | string> {
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
    if (isPlugin(exported["default"])) return exported["default"];
    return "default" in exported
      ? `plugin ${path}: its default export is not a plugin; export default defineController({…}), defineCloud({…}) or defineWebhook({…})`
      : `plugin ${path} has no default export; add: export default defineController({…})`;
  } catch (error) {
    const problem = cannotImport(copies, one, error);
    await copy.release(true);
    signal?.throwIfAborted();
    return problem;
  }
}

/** A module with several syntax errors rejects with all of them; the first one says what to fix. */
function firstProblem(error: unknown): string {
  const first: unknown = error instanceof AggregateError ? (error.errors[0] ?? error) : error;
  const at = first instanceof BuildMessage ? first.position : null;
  return `${at ? `${at.file}:${at.line}:${at.column}: ` : ""}${messageOf(first).split("\n", 1)[0] ?? ""}`;
}

function isPlugin(value: unknown): value is Plugin {
  return (
    typeof value === "object" &&
    value !== null &&
    "kind" in value &&
    "name" in value &&
    typeof value.name === "string" &&
    (value.kind === "webhook"
      ? "admit" in value && typeof value.admit === "function"
      : (value.kind === "controller" || value.kind === "cloud") && "bind" in value && typeof value.bind === "function")
  );
}
