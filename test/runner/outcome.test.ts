import { expect, test } from "bun:test";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import {
  type Ending,
  filesToRepeat,
  flakyTests,
  type Outcome,
  outcomeOf,
  reportedFiles,
  summaryOf,
  withRepeated,
} from "./outcome.ts";

/** Runs the real `bun test` on files with these contents, named 0.test.ts and so on. */
async function run(contents: readonly string[]): Promise<Ending> {
  const folder = await mkdtemp(join(tmpdir(), "outcome-test-"));
  try {
    for (const [index, content] of contents.entries())
      await writeFile(join(folder, `${index}.test.ts`), `import { expect, test } from "bun:test";\n${content}`);
    const report = join(folder, "report.xml");
    const command = [process.execPath, "test", "--parallel=2", "--reporter=junit", `--reporter-outfile=${report}`];
    const child = Bun.spawn(command, { cwd: folder, stderr: "pipe", stdout: "ignore" });
    const printed = await child.stderr.text();
    const exitCode = await child.exited;
    return { report: await readFile(report, "utf8").catch(() => undefined), printed, exitCode };
  } finally {
    await rm(folder, { recursive: true });
  }
}

const rows: readonly { readonly what: string; readonly contents: readonly string[]; readonly outcome: Outcome }[] = [
  {
    what: "each test by how it ended",
    contents: [
      // One is left out, to be counted.
      `test("a", () => {}); test("b", () => {}); test.skip("c", () => {}); test("d", () => expect(1).toBe(2));`,
    ],
    outcome: { passed: 2, failed: 1, skipped: 1 },
  },
  {
    what: "a file that cannot be loaded as a failure",
    contents: [`import { none } from "./none.ts"; test("a", () => none());`],
    outcome: { passed: 0, failed: 1, skipped: 0 },
  },
  {
    what: "such a file beside a test that failed",
    contents: [`import { none } from "./none.ts"; test("a", () => none());`, `test("b", () => expect(1).toBe(2));`],
    outcome: { passed: 0, failed: 2, skipped: 0 },
  },
  {
    what: "an error outside any test as a failure",
    contents: [`test("a", () => {}); throw new Error("outside");`],
    outcome: { passed: 0, failed: 1, skipped: 0 },
  },
  {
    what: "a crash as a failure and keeps what passed before",
    contents: [`test("a", () => {}); test("b", () => process.kill(process.pid, "SIGKILL"));`],
    outcome: { passed: 1, failed: 1, skipped: 0 },
  },
  {
    what: "a crash beside a file that passed",
    contents: [`test("a", () => process.kill(process.pid, "SIGKILL"));`, `test("b", () => {});`],
    outcome: { passed: 1, failed: 1, skipped: 0 },
  },
  {
    what: "a success that a test ended beside a file that passed as a failure",
    contents: [`test("a", () => process.exit(0));`, `test("b", () => {});`],
    outcome: { passed: 1, failed: 1, skipped: 0 },
  },
  {
    what: "a test that leaves the process with success as a failure",
    contents: [`test("a", () => {}); test("b", () => process.exit(0));`],
    outcome: { passed: 1, failed: 1, skipped: 0 },
  },
];

for (const { what, contents, outcome } of rows)
  test(`counts ${what}`, async () => {
    expect(outcomeOf(await run(contents))).toEqual(outcome);
  });

const failing = `test("fails", () => expect(1).toBe(2));`;
const passing = `test("passes", () => {});`;
const repeatRows: readonly (readonly [string, readonly string[], readonly string[]])[] = [
  ["the files with a failed test", [failing, passing, passing + failing], ["0.test.ts", "2.test.ts"]],
  ["nothing when all passed", [passing], []],
  ["nothing when a file cannot be loaded", [failing, `import { none } from "./none.ts"; none();`], []],
  ["a file that ended its process", [passing, `test("a", () => process.kill(process.pid, "SIGKILL"));`], ["1.test.ts"]],
  ["nothing when more than five files failed", Array.from({ length: 6 }, () => failing), []],
];
for (const [what, contents, files] of repeatRows)
  test(`repeats ${what}`, async () => {
    const ending = await run(contents);
    expect(
      filesToRepeat([ending])
        .map(({ file }) => file)
        .toSorted(),
    ).toEqual([...files]);
  });

test("repeats nothing when a file of either part of a run cannot be loaded, and else the failed files of both", async () => {
  const [bad, good, broken] = [
    await run([passing, failing]),
    await run([failing]),
    await run([`throw new Error("x");`]),
  ];
  expect(filesToRepeat([bad, good]).map(({ file }) => file)).toEqual(["1.test.ts", "0.test.ts"]);
  expect(filesToRepeat([bad, broken])).toEqual([]);
});

test("counts a repeated file as it ended the second time", () => {
  const all = { passed: 10, failed: 3, skipped: 1 };
  const before = [
    { file: "a", passed: 2, failed: 1, skipped: 1, seconds: 1, processorSeconds: 1, failures: [] },
    { file: "b", passed: 0, failed: 2, skipped: 0, seconds: 1, processorSeconds: 1, failures: [] },
  ];
  expect(withRepeated(all, before, { passed: 4, failed: 1, skipped: 1 })).toEqual({
    passed: 12,
    failed: 1,
    skipped: 1,
  });
});

test("names tests that fail first and pass alone, with their groups and quotes", async () => {
  const flaky =
    'import { describe } from "bun:test"; describe("a <group>", () => test("says \\"x\\" & y", () => expect(1).toBe(2)));';
  const [first, again] = [await run([flaky, failing]), await run([passing, failing])];
  expect(flakyTests(filesToRepeat([first]), again)).toEqual(['0.test.ts: a <group> > says "x" & y']);
  expect(flakyTests(filesToRepeat([first]), { report: undefined, printed: "", exitCode: 1 })).toEqual([]);
});

test("reports the time of each file", async () => {
  const [file] = reportedFiles(await run(['test("waits", () => Bun.sleep(200));']));
  expect(file?.seconds).toBeWithin(0.2, 20);
});

test("ends with one plain line", () => {
  expect(summaryOf({ passed: 3, failed: 0, skipped: 0 })).toBe("3 passed, 0 failed");
  expect(summaryOf({ passed: 3, failed: 1, skipped: 2 })).toBe("3 passed, 1 failed, 2 skipped");
});
