/**
 * What `bun run test` runs: a control plane for the tests that want a real API server, then `bun test` on all files or
 * on those named. Arguments go through. The last line is always `N passed, N failed`, however the tests ended.
 */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { type Outcome, outcomeOf, summaryOf } from "./runner/outcome.ts";
import { prepare } from "./runner/prepare.ts";

const perTestMs = 60_000;

const outcome = await runTests(process.argv.slice(2));
process.stdout.write(`${summaryOf(outcome)}\n`);
process.exitCode = outcome.failed === 0 ? 0 : 1;

async function runTests(args: readonly string[]): Promise<Outcome> {
  const folder = await mkdtemp(join(tmpdir(), "test-report-"));
  const report = join(folder, "junit.xml");
  try {
    await using prepared = await prepare();
    const { printed, exitCode } = await bunTest([`--reporter-outfile=${report}`, ...args], prepared.environment);
    return outcomeOf({ report: await readFile(report, "utf8").catch(() => undefined), printed, exitCode });
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Every file has its own globals and the tests come in random order, so that none leans on what another has left. */
async function bunTest(
  args: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<{ readonly printed: string; readonly exitCode: number }> {
  const seed = args.some((arg) => arg.startsWith("--seed")) ? [] : [`--seed=${Math.floor(Math.random() * 2 ** 31)}`];
  process.stderr.write(seed.length === 0 ? "" : `the order of the tests is that of ${seed.join("")}\n`);
  const flags = ["--isolate", "--randomize", `--timeout=${perTestMs}`, "--reporter=junit", ...seed];
  const child = Bun.spawn([process.execPath, "--no-orphans", "test", ...flags, ...args], {
    env: { ...process.env, ...environment, ...(process.stderr.isTTY ? { FORCE_COLOR: "1" } : {}) },
    stdin: "ignore",
    stdout: "inherit",
    stderr: "pipe",
  });
  const forward = (signal: NodeJS.Signals): void => child.kill(signal);
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, forward);
  const decoder = new TextDecoder();
  let printed = "";
  for await (const chunk of child.stderr) {
    process.stderr.write(chunk);
    printed += decoder.decode(chunk, { stream: true });
  }
  return { printed, exitCode: await child.exited };
}
