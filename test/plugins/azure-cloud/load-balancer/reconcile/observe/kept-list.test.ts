import { expect, test } from "bun:test";

import { keptList } from "../../../../../../plugins/azure-cloud/load-balancer/reconcile/observe/kept-list.ts";

test("a list with the same items in the same order as the one before is that one", () => {
  const [one, other] = [{}, {}];
  const kept = keptList<object>();
  const first = [one, other];
  expect(kept(first)).toBe(first);
  expect(kept([one, other])).toBe(first);
  for (const changed of [[one, {}], [other, one], [one], [one, other, {}], []]) expect(kept(changed)).toBe(changed);
});
