import { expect, test } from "bun:test";

import { isTypeScript, projectFiles, read } from "./sources.ts";

/** Lines without indentation and empty lines, so that a block may stand inside of a function. */
const linesOf = (text: string): string =>
  `\n${text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .join("\n")}\n`;

/** A block `ts plugin` or `ts test` is a whole file, which `test/scenario/readme.test.ts` and `test/deploy/tutorial.test.ts` run. */
const block = /^```ts\n(.*?)^```$/gmsu;

test("every TypeScript block of a page is part of a file that is type-checked and run by the tests", async () => {
  const pages = projectFiles.filter((name) => name.endsWith(".md"));
  const blocks = await Promise.all(
    pages.map(async (page) =>
      [...(await read(page)).matchAll(block)].map(([, code = ""]) => ({ page, code: linesOf(code) })),
    ),
  );
  const tests = projectFiles.filter((name) => isTypeScript(name) && name.endsWith(".test.ts"));
  const sources = await Promise.all(tests.map(async (name) => linesOf(await read(name))));
  expect(blocks.flat().length).toBeGreaterThan(3);
  const missing = blocks.flat().filter(({ code }) => !sources.some((source) => source.includes(code)));
  expect(missing).toEqual([]);
});
