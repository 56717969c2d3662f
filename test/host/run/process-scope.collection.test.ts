import { expect, test } from "bun:test";

import { collectionOnGrowth } from "../../../host/run/process-scope.ts";

/** Each call sees a heap of the next size; a collection leaves the second size. Returns which calls collected. */
function collectionsAt(sizes: readonly (readonly [before: number, after: number])[]): readonly boolean[] {
  let [size, after] = [0, 0];
  let collected = false;
  const collect = collectionOnGrowth({
    size: () => size,
    collect: () => {
      collected = true;
      size = after;
    },
  });
  return sizes.map((step) => {
    [size, after] = step;
    collected = false;
    collect();
    return collected;
  });
}

test("the heap is collected once, and again when it has grown by more than a quarter since", () => {
  const steps = [
    [120, 100],
    [110, 100],
    [125, 100],
    [126, 104],
    [126, 104],
    [131, 100],
  ] as const;
  expect(collectionsAt(steps)).toEqual([true, false, false, true, false, true]);
});

test("growth of a heap that has shrunk is measured from its smaller size", () => {
  const steps = [
    [400, 400],
    [100, 100],
    [120, 100],
    [130, 100],
  ] as const;
  expect(collectionsAt(steps)).toEqual([true, false, false, true]);
});
