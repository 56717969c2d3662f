import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

import packageFile from "../../package.json" with { type: "json" };
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

test("the commands of the pages name the package and the image by the version of package.json", async () => {
  const named = await Promise.all(
    pages.map(async (page) =>
      [...(await read(page)).matchAll(/cloud-controller-host[-:](\d+\.\d+\.\d+)/gu)].map(([, version]) => ({
        page,
        version,
      })),
    ),
  );
  expect(named.flat().length).toBeGreaterThan(3);
  expect(named.flat().filter(({ version }) => version !== packageFile.version)).toEqual([]);
});

test("a command of a page that names a test by its title finds one", async () => {
  const missing: string[] = [];
  let commands = 0;
  for (const page of pages)
    for (const [command, folder = "", title = ""] of (await read(page)).matchAll(/bun test (\S+) -t "([^"]+)"/gu)) {
      commands += 1;
      const files = projectFiles.filter((name) => name.startsWith(`${folder}/`) && name.endsWith(".test.ts"));
      const texts = await Promise.all(files.map(read));
      if (!texts.some((text) => text.includes(title))) missing.push(`${page}: ${command}`);
    }
  expect([commands > 0, missing]).toEqual([true, []]);
});
