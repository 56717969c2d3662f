#!/usr/bin/env -S bun --no-install --no-env-file --config=/dev/null
import type { Surroundings } from "./cli/command.ts";
import { holdReload, onSignals } from "./process/signals.ts";

/** Settles when all that was printed has been passed on: an exit discards what a pipe does not hold yet. */
let printed: Promise<unknown> = Promise.resolve();
const printTo =
  (stream: NodeJS.WriteStream) =>
  (text: string): void =>
    void (printed = Promise.all([printed, new Promise((resolve) => stream.write(text, resolve))]));

const surroundings: Surroundings = {
  environment: process.env,
  stdout: printTo(process.stdout),
  stderr: printTo(process.stderr),
  width: process.stdout.columns ?? 100,
  color: process.stdout.isTTY && (process.env["NO_COLOR"] ?? "") === "",
  progress: process.stderr.isTTY ? (text) => void process.stderr.write(text) : undefined,
};

const [first = "", ...rest] = process.argv.slice(2);

/** Before the imports of a host, which take longest. */
const releaseReload = first === "" || first.startsWith("-") ? holdReload() : undefined;

/** Commands are imported on demand: a running host never loads them. */
async function main(): Promise<number> {
  if (first !== "" && !first.startsWith("-")) {
    const { runNamedCommand } = await import("./cli/commands.ts");
    return runNamedCommand(first, rest, surroundings, sandbox);
  }
  const { runCommand } = await import("./cli/command.ts");
  return runCommand(process.argv.slice(2), surroundings, (host) => {
    process.on("unhandledRejection", (error) => host.unhandled(error));
    process.on("uncaughtException", (error) => host.unhandled(error));
    const handling = onSignals({ stop: () => host.stop(), reload: () => host.reload("SIGHUP") });
    if (releaseReload?.()) host.reload("SIGHUP");
    return handling;
  });
}

/** Imported here: the sandbox starts hosts, which no command does. */
async function sandbox(argv: readonly string[]): Promise<number> {
  const [{ runSandbox }, { prepareHost }] = await Promise.all([
    import("./sandbox/command.ts"),
    import("./sandbox-host.ts"),
  ]);
  return runSandbox(argv, surroundings, prepareHost);
}

const status = await main();
await printed;
process.exit(status);
