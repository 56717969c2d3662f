import { describe, expect, test } from "bun:test";
import { basename } from "node:path";

import { inWords, isThere, namedIn, numbersOf, rowsOf, type UpstreamFile, upstreamFilesIn } from "./inventory.ts";
import { loadBalancerTests } from "./load-balancer-tests.ts";
import { projectFiles, read } from "./sources.ts";

const index = "test/plugins/quirks.md";
const pages = projectFiles.filter((file) => /^test\/plugins\/quirks\/[\w-]+\.md$/.test(file));

const filesOf = async (page: string): Promise<readonly UpstreamFile[]> => upstreamFilesIn(await read(page));

describe.each(pages)("%s", (page) => {
  test("shows every case of the reference by an existing test, or gives a reason", async () => {
    const missing: string[] = [];
    for (const { tests } of await filesOf(page))
      for (const { name, cases } of tests)
        for (const { text, shownBy } of cases) {
          const there = await Promise.all(shownBy.map(isThere));
          if (there.includes(false) || (shownBy.length === 0 && !text.includes(" — not here: ")))
            missing.push(`${name}: ${text}`);
        }
    expect(missing).toEqual([]);
  });

  test("names the reference's tests as the test files do", async () => {
    const lost: string[] = [];
    for (const { name, files } of (await filesOf(page)).flatMap(({ tests }) => tests)) {
      const own = files.filter((file) => !file.startsWith("test/host/"));
      for (const file of own) if (!(await read(file)).includes(name)) lost.push(`${file}: ${name}`);
    }
    expect(lost).toEqual([]);
  });

  test("has correct totals", async () => {
    const wrong: string[] = [];
    for (const { source, announced, tests } of await filesOf(page)) {
      if (announced !== inWords(numbersOf(tests))) wrong.push(`${source}: ${inWords(numbersOf(tests))}`);
      for (const one of tests)
        if (one.announced !== inWords(numbersOf([one]))) wrong.push(`${one.name}: ${inWords(numbersOf([one]))}`);
    }
    expect(wrong).toEqual([]);
  });

  test("has a test or a reason for each further decision", async () => {
    for (const [what, ours = "", shown = ""] of rowsOf(await read(page)).filter(([first]) => first !== "Reference")) {
      const decided = /^(mended|kept[^:]*|does not apply): ./.test(ours);
      const isShown = namedIn(shown).length > 0 || !ours.startsWith("mended");
      expect([what, decided, isShown]).toEqual([what, true, true]);
    }
  });
});

test.each(Object.entries(loadBalancerTests))(
  "lists every case of the reference's tests of load balancers: %s",
  async (_section, expected) => {
    const listed = new Map<string, number>();
    for (const { name, cases } of (await Promise.all(pages.map(filesOf))).flat().flatMap(({ tests }) => tests))
      listed.set(name, (listed.get(name) ?? 0) + cases.length);
    const short = Object.entries(expected).filter(([name, least]) => (listed.get(name) ?? 0) < least);
    expect(short.map(([name, least]) => `${name}: ${listed.get(name) ?? 0} of ${least}`)).toEqual([]);
  },
);

test("has the totals of all pages", async () => {
  const rows = rowsOf(await read(index));
  const table = rows.slice(rows.findIndex(([first]) => first === "Page") + 1);
  const counted = await Promise.all(
    pages.map(async (page) =>
      (await filesOf(page)).map(({ source, tests }) => {
        const { cases, here } = numbersOf(tests);
        return { link: `[${basename(page, ".md")}](quirks/${basename(page)})`, source, cases, here };
      }),
    ),
  );
  const cells = counted
    .flat()
    .map(({ link, source, cases, here }) => [link, `\`${source}\``, `${cases}`, `${here}`, `${cases - here}`]);
  const sum = (column: number): string => `${cells.reduce((total, row) => total + Number(row[column]), 0)}`;
  const inLines = (cellsOfRows: readonly (readonly string[])[]): readonly string[] =>
    cellsOfRows.map((row) => row.join(" | ")).toSorted();
  expect(inLines(table.slice(0, -1))).toEqual(inLines(cells));
  expect(table.at(-1)?.filter((cell) => cell !== "")).toEqual(["all", sum(2), sum(3), sum(4)]);
});
