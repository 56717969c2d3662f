import { expect, test } from "bun:test";

import { cleaned, sectionsOf } from "../../../host/console/clean.ts";

test("makes control characters, ANSI codes and marks of direction visible, and keeps everything else", () => {
  expect(cleaned({ name: "a\u001b[31mb\u202ec\u200b\u0000", lines: ["one\ntwo", 3, true, null] })).toEqual({
    name: "a\\u{001b}[31mb\\u{202e}c\\u{200b}\\u{0000}",
    lines: ["one\ntwo", 3, true, null],
  });
  expect(cleaned("<b>Größe 日本 🚀</b>")).toBe("<b>Größe 日本 🚀</b>");
});

test("cuts a text of a megabyte and says how much is missing", () => {
  const cut = String(cleaned("x".repeat(1_000_000)));
  expect(cut).toHaveLength(4_000 + "… (996000 more characters)".length);
  expect(cut).toEndWith("x… (996000 more characters)");
});

test("takes only sections from what a plugin returns, and a bounded number of them", () => {
  expect(sectionsOf("<b>markup</b>")).toEqual([{ title: "its status() does not return sections" }]);
  const good = { title: "queue", facts: [{ name: "depth", value: "3" }], children: [{ title: "inner" }] };
  const invalid = { title: "a section that is not valid" };
  expect(sectionsOf([good, { title: 5 }, null, { title: "x", facts: "y" }])).toEqual([good, invalid, invalid, invalid]);
  expect(sectionsOf(Array.from({ length: 10_000 }, () => ({ title: "x" })))).toHaveLength(500);
  const endless: Record<string, unknown> = { title: "x" };
  endless["children"] = [endless];
  expect(JSON.stringify(sectionsOf([endless])).length).toBeLessThan(20_000);
});

test("takes nothing else from the sections of a plugin, whatever throws, refers to itself or has no JSON", () => {
  const hostile: Record<string, unknown> = { title: "x", big: 3n, toJSON: () => "script" };
  hostile["itself"] = hostile;
  expect(sectionsOf([hostile])).toEqual([{ title: "x" }]);
  const throwing = { title: "y", children: [{ title: "z" }] };
  Object.defineProperty(throwing, "facts", {
    get: () => {
      throw new Error("no facts today");
    },
  });
  expect(sectionsOf([throwing, { title: "w" }])).toEqual([{ title: "a section that is not valid" }, { title: "w" }]);
});

test("takes a bounded number of facts from all sections of a plugin together", () => {
  const facts = Array.from({ length: 4_000 }, (_, index) => ({ name: `${index}`, value: "v" }));
  const lengths = sectionsOf([1, 2, 3].map(() => ({ title: "x", facts }))).map((section) => section.facts?.length);
  expect(lengths).toEqual([4_000, 1_000, 0]);
});
