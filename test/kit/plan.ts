import { afterAll } from "bun:test";

import { Value } from "@sinclair/typebox/value";

import { systemClock } from "../../host/async/clock.ts";
import { OutstandingWork } from "../../host/async/outstanding-work.ts";
import { type PlanDocument, planSchema } from "../../host/changes/plan-schema.ts";
import { loadCommandPlugins } from "../../host/cli/command.ts";
import { runNamedCommand } from "../../host/cli/commands.ts";
import { PrivateCopies } from "../../host/generation/plugins/private-copies.ts";

export interface Printed {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

type Load = typeof loadCommandPlugins;

let own: ReturnType<Load> | undefined;

// The runner names what a file leaves in the folder for temporary files.
afterAll(async () => {
  const { copies } = (await own) ?? {};
  own = undefined;
  await copies?.[Symbol.asyncDispose]();
});

/** Flags that decide which plugins are loaded. */
const choosesPlugins = /^--plugin-(?:dir|lock|failure-policy)\b/u;

/**
 * Imports the project's plugins once for all plans and hosts of a test process: importing them
 * takes most of the time of a plan. Other plugins are loaded as usual.
 */
export const loadPluginsOnce: Load = async (argv) => {
  if (argv.some((arg) => choosesPlugins.test(arg))) return loadCommandPlugins(argv);
  own ??= loadCommandPlugins([]);
  const { loaded } = await own;
  // Never released: the modules stay until the file ends.
  const hash = loaded.ok ? loaded.plugins.hash : "";
  if (loaded.ok) loaded.plugins.retain();
  const loader = { hash: async () => hash, load: async () => loaded };
  return { loaded, loader, copies: new PrivateCopies(systemClock), outstanding: new OutstandingWork(systemClock) };
};

/** Runs a command in this process, not on a terminal. */
export async function runCommand(name: string, argv: readonly string[]): Promise<Printed> {
  const printed = { stdout: "", stderr: "" };
  const status = await runNamedCommand(name, argv, {
    environment: {},
    stdout: (text) => void (printed.stdout += text),
    stderr: (text) => void (printed.stderr += text),
    width: 100,
    loadPlugins: loadPluginsOnce,
  });
  return { status, ...printed };
}

/** The document of `plan` with these flags. */
export async function planDocumentOf(flags: readonly string[]): Promise<PlanDocument> {
  const { stdout, stderr } = await runCommand("plan", ["--output=json", ...flags]);
  if (stderr !== "") throw new Error(stderr);
  return Value.Parse(planSchema, JSON.parse(stdout));
}
