import { describe, expect, test } from "bun:test";

import { projectFiles, read } from "./sources.ts";

/** Pages that say which test shows what. */
const pages = ["test/host/quirks.md", "test/host/upstream.md"];

interface Named {
  readonly file: string;
  readonly name: string;
}

/** `file` under `test/` in backticks, and the beginning of a test's name in typographic quotes. */
const namedIn = (text: string): readonly Named[] =>
  [...text.matchAll(/`([\w/.-]+\.test\.ts)` “([^”]+)”/g)].map(([, file = "", name = ""]) => ({
    file: `test/${file}`,
    name,
  }));

/** Rows of the page's tables as their cells, headings left out. */
const rowsOf = (text: string): readonly (readonly string[])[] =>
  text
    .split("\n")
    .filter((line) => line.startsWith("| ") && !line.startsWith("| ---"))
    .map((line) =>
      line
        .slice(2, -2)
        .split(" | ")
        .map((cell) => cell.trim()),
    );

const isThere = async ({ file, name }: Named): Promise<boolean> => {
  if (!projectFiles.includes(file)) return false;
  const source = await read(file);
  return ['"', "'", "`"].some((quote) => source.includes(`${quote}${name}`));
};

for (const page of pages)
  describe(page, () => {
    test("names no test that is not there", async () => {
      const named = namedIn(await read(page));
      expect(named.length).toBeGreaterThan(20);
      const missing = await Promise.all(
        named.map(async (one) => ((await isThere(one)) ? [] : [`${one.file}: ${one.name}`])),
      );
      expect(missing.flat()).toEqual([]);
    });

    test("names every test in the form that is checked", async () => {
      const text = await read(page);
      const files = [...text.matchAll(/\.test\.ts`/g)].length;
      const own = [...text.matchAll(/`test\/style\/inventory\.test\.ts`/g)].length;
      expect(files - own).toBe(namedIn(text).length);
    });
  });

test("every quirk of the host layer has one row, with a test or with a reason", async () => {
  const rows = rowsOf(await read("test/host/quirks.md")).filter(([id = ""]) => id.startsWith("H-"));
  const expected = Array.from({ length: 30 }, (_, index) => `H-${String(index + 1).padStart(2, "0")}`);
  expect(rows.map(([id]) => id)).toEqual(expected);
  for (const [id, , ours = "", shown = ""] of rows)
    expect([id, namedIn(shown).length > 0 || /^(kept|does not apply): ./.test(ours)]).toEqual([id, true]);
});

test("every row of the reference's inventory has a test or a reason", async () => {
  const rows = rowsOf(await read("test/host/upstream.md")).filter(([first]) => first !== "Reference");
  expect(rows.length).toBeGreaterThan(60);
  for (const [row, , shown = ""] of rows)
    expect([row, namedIn(shown).length > 0 || /^not here: ./.test(shown)]).toEqual([row, true]);
});

test("each of the 18 gaps of the Go entrypoint has a file of its own", () => {
  const gaps = projectFiles.filter((file) => file.startsWith("test/host/gaps/"));
  const numbers = gaps.map((file) => /\/(\d\d)-[a-z-]+\.test\.ts$/.exec(file)?.[1]);
  expect(numbers).toEqual(Array.from({ length: 18 }, (_, index) => String(index + 1).padStart(2, "0")));
});
