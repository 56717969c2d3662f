import { expect, test } from "bun:test";

import * as fc from "fast-check";

import { excessOf } from "../../../../host/process/webhooks/admission.ts";

test.each([
  ["nested 1,000 deep", `${"[".repeat(1_000)}${"]".repeat(1_000)}`, undefined],
  ["nested deeper", `${'{"a":['.repeat(501)}${"]}".repeat(501)}`, "it is nested more than 1000 deep"],
  ["one after another, not nested", `[${"[],".repeat(2_000)}1]`, undefined],
  ["of 150,000 values", `[${"1,".repeat(149_999)}1]`, undefined],
  ["of more values", `[${"1,".repeat(150_000)}1]`, "it has more than 150000 values"],
  ["of more empty objects", `[${"{},".repeat(75_001)}1]`, "it has more than 150000 values"],
  ["with brackets in a text", JSON.stringify(`"\\${"[,".repeat(300_000)}`), undefined],
  ["after a text that ends in a backslash", `["\\\\",${"1,".repeat(150_000)}1]`, "it has more than 150000 values"],
  ["with a text that does not end", `["${"[,".repeat(300_000)}`, undefined],
])("a document %s is judged by its values and depth", (_, json, excess) => {
  expect(excessOf(json)).toBe(excess);
});

test("a text of 4 MB of any characters is judged in less than 1 s", () => {
  for (const text of ['\\"', "\\\\", '"', '"\\', "[]", "\\"]) {
    const startedAt = performance.now();
    excessOf(`"${text.repeat((4 * 1024 * 1024) / text.length)}"`);
    expect(performance.now() - startedAt).toBeLessThan(1_000);
  }
});

test("no small document is refused", () => {
  fc.assert(
    fc.property(fc.json(), (json) => expect(excessOf(json)).toBeUndefined()),
    { seed: 3 },
  );
});
