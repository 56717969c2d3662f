import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

import { projectFiles, read, root } from "./sources.ts";

const pages = projectFiles.filter((name) => name.endsWith(".md"));

/** The anchor of each heading, as GitHub makes it. */
const anchorsOf = (page: string): readonly string[] =>
  [...page.matchAll(/^#+ (.*)$/gmu)].map(([, text = ""]) =>
    text
      .toLowerCase()
      .replaceAll(/[^\w\- ]/gu, "")
      .trim()
      .replaceAll(" ", "-"),
  );

test("every link of a page leads to a file and a heading that exist", async () => {
  const broken: string[] = [];
  for (const page of pages)
    for (const [, link = ""] of (await read(page)).matchAll(/\]\(([^)\s]+)\)/gu)) {
      if (/^https?:/u.test(link)) continue;
      const [path = "", anchor] = link.split("#");
      const target = path === "" ? page : normalize(join(dirname(page), path));
      const isThere = existsSync(join(root, target));
      if (!isThere || (anchor !== undefined && !anchorsOf(await read(target)).includes(anchor)))
        broken.push(`${page}: ${link}`);
    }
  expect(broken).toEqual([]);
});

/** References that `bun run reference` does not write: one row per item, or per figure of a benchmark. */
const references = new Set([".github/CHANGELOG.md", "deploy/migration/differences.md", "test/bench/README.md"]);

test("a page has at most 150 lines beside its code, unless it is a reference", async () => {
  const long: string[] = [];
  for (const page of pages.filter((name) => !references.has(name))) {
    const text = await read(page);
    if (
      !text.includes("by `bun run reference`; a test fails") &&
      text.replaceAll(/^```[^]*?^```$/gmu, "").split("\n").length > 151
    )
      long.push(page);
  }
  expect(long).toEqual([]);
});
