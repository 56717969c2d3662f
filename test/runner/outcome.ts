/** How a run of tests ended. */
export interface Outcome {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

export interface Ending {
  /** The JUnit report, undefined when `bun test` did not live to write it. */
  readonly report: string | undefined;
  /** What `bun test` printed, which is all there is when there is no report. */
  readonly printed: string;
  readonly exitCode: number;
}

/**
 * Counts what happened. A run that ended badly without a failed test, or ended without a report although it says that
 * all is well (a test that called `process.exit`), counts as one failure: nothing that went wrong may look like success.
 */
export function outcomeOf({ report, printed, exitCode }: Ending): Outcome {
  const lines = Bun.stripANSI(printed).split("\n");
  const counted = report === undefined ? countLines(lines) : countReported(report, lines);
  const isWell = report !== undefined && exitCode === 0;
  return isWell || counted.failed > 0 ? counted : { ...counted, failed: 1 };
}

/** More failures than these have no other cause than the code. */
const maxRepeatedFiles = 5;

/**
 * The files that failed, when they are few and every failure belongs to one: tests that measure time may fail beside
 * others on a slow machine. Source: the testsuite elements of the first level of Bun's JUnit report.
 */
export function filesToRepeat({ report = "" }: Ending, { failed }: Outcome): ReadonlyMap<string, Outcome> {
  const failing = new Map<string, Outcome>();
  for (const [suite] of report.matchAll(/^ {2}<testsuite\b[^>]*>/gm)) {
    const file = /\sfile="([^"]+)"/.exec(suite)?.[1];
    const outcome = countedIn(suite);
    if (file !== undefined && outcome.failed > 0) failing.set(file, outcome);
  }
  const known = [...failing.values()].reduce((sum, outcome) => sum + outcome.failed, 0);
  return known === failed && failing.size <= maxRepeatedFiles ? failing : new Map();
}

/** The outcome of a run in which the files of `before` count as they ended when they ran again. */
export function withRepeated(all: Outcome, before: Iterable<Outcome>, again: Outcome): Outcome {
  let { passed, failed, skipped } = all;
  for (const one of before) {
    passed -= one.passed;
    failed -= one.failed;
    skipped -= one.skipped;
  }
  return { passed: passed + again.passed, failed: failed + again.failed, skipped: skipped + again.skipped };
}

export const summaryOf = ({ passed, failed, skipped }: Outcome): string =>
  `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;

/**
 * Source: the attributes of the root element of Bun's JUnit report; its `tests` are all of them. A file that could not
 * be loaded is missing there and stands only in the summary that is printed.
 */
function countReported(report: string, lines: readonly string[]): Outcome {
  const counted = countedIn(/<testsuites\b[^>]*>/.exec(report)?.[0] ?? "");
  const summarized = lines.flatMap((line) => /^ (\d+) fail$/.exec(line)?.[1] ?? []).at(-1);
  return { ...counted, failed: Math.max(counted.failed, Number(summarized ?? 0)) };
}

function countedIn(element: string): Outcome {
  const attribute = (name: string): number => Number(new RegExp(`\\s${name}="(\\d+)"`).exec(element)?.[1] ?? 0);
  const [failed, skipped] = [attribute("failures"), attribute("skipped")];
  return { passed: attribute("tests") - failed - skipped, failed, skipped };
}

function countLines(lines: readonly string[]): Outcome {
  const starting = (mark: string): number => lines.filter((line) => line.startsWith(mark)).length;
  return {
    passed: starting("(pass) "),
    failed: starting("(fail) "),
    skipped: starting("(skip) ") + starting("(todo) "),
  };
}
