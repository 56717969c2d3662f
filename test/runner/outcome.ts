/** How a run of tests ended. */
export interface Outcome {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

export interface Ending {
  /** The JUnit report, undefined when `bun test` crashed before it was written. */
  readonly report: string | undefined;
  readonly printed: string;
  readonly exitCode: number;
  /** Rows of `processor-time.ts`. */
  readonly processorTime?: string;
}

/** One test file of the JUnit report. */
export interface FileReport extends Outcome {
  readonly file: string;
  readonly seconds: number;
  /** Processor time of the file and its children; zero where the system does not report it. */
  readonly processorSeconds: number;
  /** Titles of the failed tests. */
  readonly failures: readonly string[];
}

/**
 * Counts from Bun's summary, or from its lines when a crash left none. A run that ended badly without a failed test, or
 * without a summary although its status is 0 (a test that called `process.exit`), counts as one failure.
 */
export function outcomeOf({ printed, exitCode }: Ending): Outcome {
  const lines = Bun.stripANSI(printed).split("\n");
  const isComplete = lines.some((line) => /^Ran \d+ tests? across /.test(line));
  const count = (word: string): number =>
    isComplete
      ? Number(lines.flatMap((line) => line.match(`^ (\\d+) ${word}$`)?.[1] ?? []).at(-1) ?? 0)
      : lines.filter((line) => line.startsWith(`(${word}) `)).length;
  const failed = count("fail");
  const isWell = isComplete && exitCode === 0;
  return {
    passed: count("pass"),
    failed: isWell ? failed : Math.max(1, failed),
    skipped: count("skip") + count("todo"),
  };
}

/** Source: the testsuite elements of the first level of Bun's JUnit report; a file that cannot be loaded has none. */
export function reportedFiles({ report = "", processorTime = "" }: Ending): readonly FileReport[] {
  const failures = Map.groupBy(report.matchAll(/<testcase\b([^>]*[^/>])>\s*<failure/g), ([, test = ""]) =>
    attribute(test, "file"),
  );
  const costs = processorSecondsOf(processorTime);
  return [...report.matchAll(/^ {2}<testsuite\b([^>]*)>/gm)].map(([, suite = ""]) => {
    const number = (name: string): number => Number(attribute(suite, name));
    const [file, failed, skipped] = [attribute(suite, "file"), number("failures"), number("skipped")];
    return {
      file,
      passed: number("tests") - failed - skipped,
      failed,
      skipped,
      seconds: number("time"),
      processorSeconds: costs.get(file) ?? 0,
      failures: (failures.get(file) ?? []).map(([, test = ""]) => titleOf(test)),
    };
  });
}

/** The processor seconds of each file: what its process had used at its end, without what it had at the one before. */
function processorSecondsOf(rows: string): ReadonlyMap<string, number> {
  const ticksPerSecond = 100;
  const before = new Map<string, number>();
  const seconds = new Map<string, number>();
  for (const [, pid = "", ticks = "", file = ""] of rows.matchAll(/^(\d+) (\d+) (.+)$/gm)) {
    seconds.set(file, (Number(ticks) - (before.get(pid) ?? 0)) / ticksPerSecond);
    before.set(pid, Number(ticks));
  }
  return seconds;
}

const titleOf = (test: string): string =>
  [attribute(test, "classname"), attribute(test, "name")].filter((part) => part !== "").join(" > ");

function attribute(element: string, name: string): string {
  const entities: Readonly<Record<string, string>> = { quot: '"', apos: "'", lt: "<", gt: ">", amp: "&" };
  const value = new RegExp(`(?:^|\\s)${name}="([^"]*)"`).exec(element)?.[1] ?? "";
  return value.replaceAll(/&(\w+);/g, (text, entity: string) => entities[entity] ?? text);
}

/** If more files than this fail, the code is the cause. */
const maxRepeatedFiles = 5;

/**
 * The files that failed, when they are few and every failure belongs to one: tests that measure time may fail beside
 * others on a slow machine.
 */
export function filesToRepeat(endings: readonly Ending[]): readonly FileReport[] {
  const failing = endings.flatMap(reportedFiles).filter(({ failed }) => failed > 0);
  return sumOf(failing).failed === sumOf(endings.map(outcomeOf)).failed && failing.length <= maxRepeatedFiles
    ? failing
    : [];
}

export function sumOf(outcomes: readonly Outcome[]): Outcome {
  const total = (key: keyof Outcome): number => outcomes.reduce((sum, outcome) => sum + outcome[key], 0);
  return { passed: total("passed"), failed: total("failed"), skipped: total("skipped") };
}

/** The outcome of a run in which the files of `before` count as they ended when they ran again. */
export function withRepeated(all: Outcome, before: readonly FileReport[], again: Outcome): Outcome {
  const replaced = sumOf(before);
  const total = (key: keyof Outcome): number => all[key] - replaced[key] + again[key];
  return { passed: total("passed"), failed: total("failed"), skipped: total("skipped") };
}

/** The tests that failed beside others and passed alone, as `file: title`. */
export function flakyTests(before: readonly FileReport[], again: Ending): readonly string[] {
  const files = reportedFiles(again);
  return before.flatMap(({ file, failures }) => {
    const second = files.find((other) => other.file === file);
    if (second === undefined) return [];
    return failures.filter((title) => !second.failures.includes(title)).map((title) => `${file}: ${title}`);
  });
}

/** Names without what `mkdtemp` adds to them, each once with its number. */
export function leftoversOf(names: readonly string[]): readonly string[] {
  const groups = Map.groupBy(names, (name) => name.replace(/(?<=[-.])[0-9A-Za-z]{6}$/u, "*"));
  return [...groups].map(([name, { length }]) => (length === 1 ? name : `${name} (${length})`)).toSorted();
}

export const summaryOf = ({ passed, failed, skipped }: Outcome): string =>
  `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
