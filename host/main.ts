#!/usr/bin/env -S bun --no-install --no-env-file --config=/dev/null
import { fstatSync } from "node:fs";

import type { Surroundings } from "./cli/command.ts";
import { beside, type ProcessStream } from "./process/log/stream.ts";
import { exitOnSignals, holdReload, onSignals, wasStopped } from "./process/signals.ts";

/** Writes of which no reader has taken all yet: an exit discards them. */
let unread = 0;
let allRead = Promise.withResolvers<void>();
/** The error of the first write that failed, but for a reader that has closed the pipe or terminal: it has read enough. */
let failure: Error | undefined;

/** By the device of a terminal: what goes there as output and as errors keeps its order. */
const terminals = new Map<number, ReturnType<typeof beside>>();
const failed = new Set<ReturnType<typeof beside>>();

function outputOf(stream: ProcessStream): ReturnType<typeof beside> {
  if (!stream.isTTY) return stream;
  const { rdev } = fstatSync(stream.fd);
  const output = terminals.get(rdev) ?? beside(stream);
  terminals.set(rdev, output);
  return output;
}

function printTo(stream: ProcessStream): (text: string) => void {
  const closed = stream.isTTY ? "EIO" : "EPIPE";
  const output = outputOf(stream);
  const written = (error?: Error | null): void => {
    if (error) failed.add(output);
    if (error && "code" in error && error.code !== closed) failure ??= error;
    if (--unread === 0) allRead.resolve();
  };
  output.on("error", () => undefined);
  return (text) => {
    // After a failure, a write has no callback.
    if (failed.has(output)) return;
    if (unread++ === 0) allRead = Promise.withResolvers();
    output.write(text, written);
  };
}

/** Time for the last output of a host, or of a command that a signal has stopped. */
const lastOutputMs = 3_000;

/** The reader of a command's output has unlimited time, until a signal. */
async function waitForReaders(limitMs?: number): Promise<void> {
  if (unread === 0) return;
  exitOnSignals();
  await Promise.race([allRead.promise, ...(limitMs === undefined ? [] : [Bun.sleep(limitMs)])]);
}

const stderr = printTo(process.stderr);
const surroundings: Surroundings = {
  environment: process.env,
  stdout: printTo(process.stdout),
  stderr,
  outputRead: async () => (unread > 0 ? allRead.promise : undefined),
  width: process.stdout.columns ?? 100,
  color: process.stdout.isTTY && (process.env["NO_COLOR"] ?? "") === "",
  progress: process.stderr.isTTY ? stderr : undefined,
};

const [first = "", ...rest] = process.argv.slice(2);
const isHost = first === "" || first.startsWith("-");

/** Before the imports of a host, which take longest. */
const releaseReload = isHost ? holdReload() : undefined;
const starting = isHost ? exitOnSignals() : undefined;

/** Commands are imported on demand: a running host never loads them. */
async function main(): Promise<number> {
  if (!isHost) {
    const { runNamedCommand } = await import("./cli/commands.ts");
    return runNamedCommand(first, rest, surroundings, sandbox);
  }
  const { runCommand } = await import("./cli/command.ts");
  return runCommand(process.argv.slice(2), surroundings, (host) => {
    process.on("unhandledRejection", (error) => host.unhandled(error));
    process.on("uncaughtException", (error) => host.unhandled(error));
    const handling = onSignals({ stop: () => host.stop(), reload: () => host.reload("SIGHUP") });
    starting?.[Symbol.dispose]();
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
await waitForReaders(wasStopped() || (isHost && status !== 0) ? lastOutputMs : undefined);
if (failure !== undefined) process.stderr.write(`Error: cannot write the output: ${failure.message}\n`);
process.exit(failure === undefined ? status : 1);
