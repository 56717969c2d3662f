import { expect, test } from "bun:test";
import { basename, dirname, join } from "node:path";

import { projectFiles, read } from "./sources.ts";

const files = new Set(projectFiles);
const folders = new Set(projectFiles.map((file) => dirname(file)));
const tests = projectFiles.filter((file) => file.startsWith("test/") && file.endsWith(".test.ts"));

/** The folders with their sentence in the index of the tests. */
const index = [...(await read("test/README.md")).matchAll(/^\| \[`([^`]+)\/`\]\(\1\/?\S*\) +\| (.*\S) +\|$/gm)].map(
  ([, folder = "", sentence = ""]) => ({ folder: `test/${folder}`, sentence }),
);

const isMirror = (file: string): boolean => /^test\/(host|plugins|sdk)\//.test(file);
const isIndexed = (file: string): boolean => index.some(({ folder }) => file.startsWith(`${folder}/`));

/** `test/a/b.c.test.ts` tests the file `a/b.ts`, the folder `a/b/` or the helper `test/a/b.ts`. */
function isBesideItsSource(file: string): boolean {
  const subject = join(dirname(file), basename(file).split(".")[0] ?? "");
  const source = subject.slice("test/".length);
  return files.has(`${source}.ts`) || folders.has(source) || files.has(`${subject}.ts`);
}

test("every test has the path of its source file, or is in a folder that the index describes", () => {
  expect(tests.filter((file) => !isIndexed(file) && !(isMirror(file) && isBesideItsSource(file)))).toEqual([]);
});

test("every folder of the index exists and holds tests or helpers of tests", () => {
  expect(index.filter(({ folder }) => !projectFiles.some((file) => file.startsWith(`${folder}/`)))).toEqual([]);
  expect(index.length).toBeGreaterThan(10);
});
