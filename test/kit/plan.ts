import { Value } from "@sinclair/typebox/value";

import { type PlanDocument, planSchema } from "../../host/changes/plan-schema.ts";
import { runNamedCommand } from "../../host/cli/commands.ts";

export interface Printed {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command in this process, not on a terminal. */
export async function runCommand(name: string, argv: readonly string[]): Promise<Printed> {
  const printed = { stdout: "", stderr: "" };
  const status = await runNamedCommand(name, argv, {
    environment: {},
    stdout: (text) => void (printed.stdout += text),
    stderr: (text) => void (printed.stderr += text),
    width: 100,
  });
  return { status, ...printed };
}

/** The document of `plan` with these flags. */
export async function planDocumentOf(flags: readonly string[]): Promise<PlanDocument> {
  const { stdout, stderr } = await runCommand("plan", ["--output=json", ...flags]);
  if (stderr !== "") throw new Error(stderr);
  return Value.Parse(planSchema, JSON.parse(stdout));
}
