import { expect, test } from "bun:test";

import { LongOperations } from "./long-operations.ts";

test("operations that are underway are those in progress, whether they take most of an hour or not", () => {
  let now = 0;
  let lasts = (_id: string): boolean => false;
  const operations = new LongOperations(
    { operations: () => ["/loadbalancers/kubernetes"], prolongOperations: (given) => void (lasts = given) },
    () => now,
  );
  operations.prolong("/routeTables/", 1000);
  expect(operations.underway).toEqual(["/routetables/", "/loadbalancers/kubernetes"]);
  expect([lasts("/routetables/rt0"), lasts("/loadbalancers/kubernetes")]).toEqual([true, false]);
  now = 1000;
  expect(operations.underway).toEqual(["/loadbalancers/kubernetes"]);
});
