import { describe, expect, test } from "bun:test";

import { missingFrom, namedIn, rowsOf, unnamedIn } from "./inventory.ts";
import { projectFiles, read } from "./sources.ts";

/** Pages that say which test shows what, and how many tests they name at least. */
const pages: readonly (readonly [page: string, least: number])[] = [
  ["test/host/quirks.md", 20],
  ["test/host/upstream.md", 20],
  ["test/plugins/quirks.md", 24],
  ...projectFiles.filter((file) => /^test\/plugins\/quirks\/[\w-]+\.md$/.test(file)).map((file) => [file, 8] as const),
];

describe.each(pages)("%s", (page, least) => {
  test("names only existing tests", async () => {
    expect(namedIn(await read(page)).length).toBeGreaterThanOrEqual(least);
    expect(await missingFrom(page)).toEqual([]);
  });

  test("names every test in the form that is checked", async () => {
    expect(await unnamedIn(page)).toBe(0);
  });
});

/** Ids with two digits, from 1. */
const ids = (letter: string, count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => `${letter}-${String(index + 1).padStart(2, "0")}`);

test.each([
  ["the host layer", "test/host/quirks.md", ids("H", 30)],
  ["the controllers", "test/plugins/quirks.md", ids("Q", 24)],
] as const)("every quirk of %s has one row, with a test or with a reason", async (_layer, page, expected) => {
  const rows = rowsOf(await read(page)).filter(([id = ""]) => /^[A-Z]-\d\d$/.test(id));
  expect(rows.map(([id]) => id)).toEqual([...expected]);
  for (const [id, , ours = "", shown = ""] of rows)
    expect([id, namedIn(shown).length > 0 || /^(kept|does not apply): ./.test(ours)]).toEqual([id, true]);
});

test("every row of the reference's inventory has a test or a reason", async () => {
  const rows = rowsOf(await read("test/host/upstream.md")).filter(([first]) => first !== "Reference");
  expect(rows.length).toBeGreaterThan(60);
  for (const [row, , shown = ""] of rows)
    expect([row, namedIn(shown).length > 0 || /^not here: ./.test(shown)]).toEqual([row, true]);
});

test("each of the 18 gaps of the Go entrypoint has its own file", () => {
  const gaps = projectFiles.filter((file) => file.startsWith("test/host/gaps/"));
  const numbers = gaps.map((file) => /\/(\d\d)-[a-z-]+\.test\.ts$/.exec(file)?.[1]);
  expect(numbers).toEqual(Array.from({ length: 18 }, (_, index) => String(index + 1).padStart(2, "0")));
});
