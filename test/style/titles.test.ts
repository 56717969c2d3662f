import { expect, test } from "bun:test";

import { projectFiles, read } from "./sources.ts";

/** Literal titles: of describe() and test(), and after the table of an each(). */
const calls = [
  /^\s*(?<kind>describe\w*|test)(?:\.(?!each)\w+)*\(\s*(?<quote>["`])(?<title>(?:\\.|(?!\k<quote>).)*)\k<quote>/gms,
  /\)\(\s*(?<quote>["`])(?<title>(?:\\.|(?!\k<quote>).)*)\k<quote>,\s*(?:async )?\(/gs,
];
const fragment =
  /^(that|of|when|whose|and|but|so|with|without|for|from|by|in|on|at|as|to|if|until|while|because|after|before|over|under|during|where)\b/i;
const goName = /(^|\()Test_?[A-Z]|^\w*[a-z][A-Z]\w*(\(\))?$/;

/** Has examples of what is wrong. */
const self = "test/style/titles.test.ts";

function problemOf(title: string, isGroup: boolean): string | undefined {
  if (title.includes("→")) return "an arrow";
  if (fragment.test(title)) return "the beginning of a fragment";
  if (goName.test(title)) return "the name of a function";
  return isGroup && /[,:]$/.test(title) ? "half a sentence" : undefined;
}

const titlesOf = (content: string): readonly { readonly title: string; readonly isGroup: boolean }[] =>
  calls.flatMap((call) =>
    [...content.matchAll(call)].map(({ groups }) => ({
      title: groups?.["title"] ?? "",
      isGroup: groups?.["kind"]?.startsWith("describe") ?? false,
    })),
  );

const problemsOf = (content: string): readonly string[] =>
  titlesOf(content).flatMap(({ title, isGroup }) => {
    const problem = problemOf(title, isGroup);
    return problem === undefined ? [] : [`${problem}: ${title}`];
  });

test("titles of tests are sentences that stand alone", async () => {
  const files = projectFiles.filter((file) => /^(test|sdk)\/.*\.test\.ts$/.test(file) && file !== self);
  const contents = await Promise.all(files.map(async (file) => ({ file, content: await read(file) })));
  const all = contents.flatMap(({ content }) => titlesOf(content));
  expect(all.length).toBeGreaterThan(3_500);
  expect(contents.flatMap(({ file, content }) => problemsOf(content).map((problem) => `${file}: ${problem}`))).toEqual(
    [],
  );
});

test("titles with an arrow, the name of a function or half a sentence are found by this check", () => {
  const content = [
    'test("no pool → none", () => {});',
    'test.each([[1]])("when it is %d", () => {});',
    'describe("TestReconcile", () => {',
    '  describe.concurrent("planRoutes()", () => {});',
    '  describe("a plugin is refused:", () => {});',
    '  test("keeps the lease when the config is invalid", () => {});',
  ].join("\n");
  expect(problemsOf(content)).toEqual([
    "an arrow: no pool → none",
    "the name of a function: TestReconcile",
    "the name of a function: planRoutes()",
    "half a sentence: a plugin is refused:",
    "the beginning of a fragment: when it is %d",
  ]);
});
