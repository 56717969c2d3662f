import { expect, test } from "bun:test";

import { sharedWith } from "../../../../plugins/azure-cloud/load-balancer/explain-use.ts";

test("Services that share something are named in order, ten of them, and how many more there are", () => {
  const keys = Array.from({ length: 11 }, (_, index) => `default/s${String(index).padStart(2, "0")}`);
  const ten = keys.slice(0, 10).join(", ");
  const valueOf = (some: readonly string[]) => sharedWith("shared with", some).map(({ value }) => value);
  expect(valueOf([])).toEqual([]);
  expect(valueOf(keys.slice(0, 10).toReversed())).toEqual([ten]);
  expect(valueOf(keys.toReversed())).toEqual([`${ten} and 1 more`]);
});
