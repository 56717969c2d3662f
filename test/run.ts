/**
 * What `bun run test` runs: control planes for the tests that want a real API server, then `bun test` on all files, in
 * workers side by side and with bundled hosts, or on those named, in one process and with hosts from source. Files that
 * wait for most of their time have a worker of their own. Files that measure come last, with fewer beside them. A few files
 * that failed beside others run once more, alone, and tests that pass only then are named at the end. Arguments go through.
 * The last line is always `N passed, N failed`, however the tests ended.
 */
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";

import { compilation } from "./kit/compilation.ts";
import { measuringFiles } from "./runner/measuring-files.ts";
import {
  type Ending,
  filesToRepeat,
  flakyTests,
  leftoversOf,
  type Outcome,
  outcomeOf,
  reportedFiles,
  summaryOf,
  sumOf,
  withRepeated,
} from "./runner/outcome.ts";
import { prepareControlPlanes, prepareHost } from "./runner/prepare.ts";
import { temporaryRoot } from "./runner/temporary-root.ts";
import { waitingFiles } from "./runner/waiting-files.ts";

const perTestMs = 120_000;
/** The order of the tests. A fixed one: a test that fails in CI fails again with the same command. */
const defaultSeed = 20_261;
/**
 * Workers wait for leases and timeouts half of their time. With five on two processors a run is a tenth shorter, and tests
 * with a browser or a limit of their own fail beside the others. Each takes a gigabyte, with its control plane.
 */
const workersOf = (processors: number): number => Math.min(Math.ceil(1.5 * processors), 6);
/** Beside more of them, what is measured is the machine. */
const measuringWorkersOf = (processors: number): number => Math.min(processors + 1, 3);
const maxCostlyFiles = 20;

const outcome = await runTests(process.argv.slice(2));
process.stdout.write(`${summaryOf(outcome)}\n`);
process.exitCode = outcome.failed === 0 ? 0 : 1;

async function runTests(args: readonly string[]): Promise<Outcome> {
  const namesFiles = args.some((arg) => !arg.startsWith("-"));
  const processors = availableParallelism();
  const workers = workersOf(processors);
  await using planes = await prepareControlPlanes(namesFiles ? [1] : [workers, 1]);
  const [beside, apart] = planes.environments;
  if (namesFiles) return outcomeOf(await bunTest(["--parallel=1", ...args], { ...beside }));
  await using host = await prepareHost();
  const environment = { ...beside, ...host.environment };
  const runIn = (count: number, files: readonly string[], own: typeof environment = environment): Promise<Ending> =>
    bunTest([`--parallel=${count}`, ...args, ...files], own);

  const present = (files: readonly string[]): readonly string[] => files.filter((file) => existsSync(file));
  const [waiting, measuring] = [present(waitingFiles), present(measuringFiles)];
  const others = [...waiting, ...measuring].map((file) => `--path-ignore-patterns=${file}`);
  const sideBySide = [runIn(workers, others)];
  if (waiting.length > 0) sideBySide.push(runIn(1, waiting, { ...environment, ...apart }));
  const endings = await Promise.all(sideBySide);
  if (measuring.length > 0) endings.push(await runIn(measuringWorkersOf(processors), measuring));

  print("the costliest files, in seconds of processor time and of the clock:", costliestFiles(endings));
  const first = sumOf(endings.map(outcomeOf));
  const failing = filesToRepeat(endings);
  if (failing.length === 0) return first;
  const files = failing.map(({ file }) => file);
  print("failed beside other files, and run again alone:", files);
  const again = await bunTest([...args, ...files], environment);
  print("FLAKY: failed beside other files, and passed when run again alone:", flakyTests(failing, again));
  return withRepeated(first, failing, outcomeOf(again));
}

function print(title: string, lines: readonly string[]): void {
  if (lines.length > 0) process.stdout.write(`\n${title}\n${lines.map((line) => `  ${line}\n`).join("")}`);
}

function costliestFiles(endings: readonly Ending[]): readonly string[] {
  const files = endings
    .flatMap(reportedFiles)
    .toSorted((one, other) => other.processorSeconds - one.processorSeconds || other.seconds - one.seconds);
  const total = files.reduce((sum, { processorSeconds }) => sum + processorSeconds, 0);
  const rows = files
    .slice(0, maxCostlyFiles)
    .map((one) => [one.processorSeconds, `${one.seconds.toFixed(1).padStart(6)}  ${one.file}`] as const);
  return [...rows, [total, "all files"] as const].map(
    ([seconds, rest]) => `${seconds.toFixed(1).padStart(7)}  ${rest}`,
  );
}

/**
 * Tests have a folder for temporary files of their own: it goes with them, and what they left in it is named. Every file
 * has its own globals and the tests come in random order, so that none leans on what another has left.
 */
async function bunTest(args: readonly string[], environment: Readonly<Record<string, string>>): Promise<Ending> {
  const folder = await mkdtemp(join(await temporaryRoot(), "test-run-"));
  const temporary = join(folder, "tmp");
  await mkdir(temporary);
  const report = join(folder, "junit.xml");
  const seed = args.some((arg) => arg.startsWith("--seed")) ? [] : [`--seed=${defaultSeed}`];
  const costs = join(folder, "processor-time");
  const preload = `--preload=${join(import.meta.dir, "runner/processor-time.ts")}`;
  const flags = ["--isolate", "--randomize", preload, `--timeout=${perTestMs}`, "--reporter=junit", ...seed];
  const child = Bun.spawn(
    [process.execPath, "--no-orphans", "test", ...flags, `--reporter-outfile=${report}`, ...args],
    {
      env: {
        ...process.env,
        ...compilation,
        TMPDIR: temporary,
        TEST_PROCESSOR_TIME: costs,
        ...environment,
        ...(process.stderr.isTTY ? { FORCE_COLOR: "1" } : {}),
      },
      stdin: "ignore",
      stdout: "inherit",
      stderr: "pipe",
    },
  );
  const forward = (signal: NodeJS.Signals): void => child.kill(signal);
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, forward);
  const decoder = new TextDecoder();
  let printed = "";
  for await (const chunk of child.stderr) {
    process.stderr.write(chunk);
    printed += decoder.decode(chunk, { stream: true });
  }
  const exitCode = await child.exited;
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.off(signal, forward);
  const written = await readFile(report, "utf8").catch(() => undefined);
  const processorTime = await readFile(costs, "utf8").catch(() => "");
  print("left in the folder for temporary files:", leftoversOf(await readdir(temporary)));
  await rm(folder, { recursive: true });
  return { report: written, printed, exitCode, processorTime };
}
