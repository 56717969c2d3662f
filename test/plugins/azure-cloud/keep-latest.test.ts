import { expect, test } from "bun:test";

import { keepLatest } from "../../../plugins/azure-cloud/keep-latest.ts";

test("the latest entries of a map or a set are kept, the empty key among them, and fewer than the limit as they are", () => {
  const names = new Set(["", "a", "b", "c"]);
  keepLatest(names, 4);
  expect([...names]).toEqual(["", "a", "b", "c"]);
  keepLatest(names, 2);
  expect([...names]).toEqual(["b", "c"]);
  const numbers = new Map([
    [1, "one"],
    [2, "two"],
  ]);
  keepLatest(numbers, 1);
  expect([...numbers]).toEqual([[2, "two"]]);
});
