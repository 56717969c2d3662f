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

export const summaryOf = ({ passed, failed, skipped }: Outcome): string =>
  `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;

/**
 * Source: the attributes of the root element of Bun's JUnit report; its `tests` are all of them. A file that could not
 * be loaded is missing there and stands only in the summary that is printed.
 */
function countReported(report: string, lines: readonly string[]): Outcome {
  const root = /<testsuites\b[^>]*>/.exec(report)?.[0] ?? "";
  const attribute = (name: string): number => Number(new RegExp(`\\s${name}="(\\d+)"`).exec(root)?.[1] ?? 0);
  const [failed, skipped] = [attribute("failures"), attribute("skipped")];
  const summarized = lines.flatMap((line) => /^ (\d+) fail$/.exec(line)?.[1] ?? []).at(-1);
  return {
    passed: attribute("tests") - failed - skipped,
    failed: Math.max(failed, Number(summarized ?? 0)),
    skipped,
  };
}

function countLines(lines: readonly string[]): Outcome {
  const starting = (mark: string): number => lines.filter((line) => line.startsWith(mark)).length;
  return {
    passed: starting("(pass) "),
    failed: starting("(fail) "),
    skipped: starting("(skip) ") + starting("(todo) "),
  };
}
