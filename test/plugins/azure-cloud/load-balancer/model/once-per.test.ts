import { expect, test } from "bun:test";

import { oncePer } from "../../../../../plugins/azure-cloud/load-balancer/model/once-per.ts";

test("a value of an object is computed once, also when it is undefined, and for each object by itself", () => {
  let computed = 0;
  const sizeOf = oncePer(({ length }: readonly number[]) => {
    computed += 1;
    return length === 0 ? undefined : length;
  });
  const [empty, pair]: readonly (readonly number[])[] = [[], [1, 2]];
  expect([empty, pair, empty, pair].map((list = []) => sizeOf(list))).toEqual([undefined, 2, undefined, 2]);
  expect(computed).toBe(2);
});

test("a value whose computation fails is computed again", () => {
  let fails = true;
  const valueOf = oncePer(({ value }: { readonly value: number }) => {
    if (fails) throw new Error("no");
    return value;
  });
  const input = { value: 1 };
  expect(() => valueOf(input)).toThrow("no");
  fails = false;
  expect(valueOf(input)).toBe(1);
});
