#!/usr/bin/env -S bun --no-install --no-env-file --config=/dev/null
import type { Surroundings } from "./cli/command.ts";
import { holdReload, onSignals } from "./process/signals.ts";

/**
 * Resolves when all that was printed has been passed on: an exit discards what a pipe does not hold yet. With the error
 * of a write that failed, but for a reader that has closed the pipe, which has read enough.
 */
let printed: Promise<Error | undefined> = Promise.resolve(undefined);

function printTo(stream: NodeJS.WriteStream): (text: string) => void {
  stream.on("error", () => undefined);
  return (text) => {
    const before = printed;
    const { promise, resolve } = Promise.withResolvers<Error | undefined>();
    stream.write(text, (error) => resolve(error && "code" in error && error.code !== "EPIPE" ? error : undefined));
    printed = before.then(async (failure) => failure ?? (await promise));
  };
}

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
const failure = await printed;
if (failure !== undefined) process.stderr.write(`Error: cannot write the output: ${failure.message}\n`);
process.exit(failure === undefined ? status : 1);
