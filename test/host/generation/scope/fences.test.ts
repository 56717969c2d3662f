import { expect, test } from "bun:test";

import { Fences } from "../../../../host/generation/scope/fences.ts";
import type { Locks } from "../../../../host/generation/scope/scope.ts";

function fencesOf(): { readonly fences: Fences; readonly held: Set<string> } {
  const held = new Set(["main", "other"]);
  const locks: Locks = {
    main: "main",
    of: () => ({ lock: "main" }),
    problems: () => [],
    safelyHeld: (lock) => held.has(lock),
    heldSince: () => 0,
  };
  return { fences: new Fences(locks), held };
}

test("the cloud may write while each lock that has been opened is held, and a controller while its own is", () => {
  const { fences, held } = fencesOf();
  const all = () => [fences.cloud, fences.of("main"), fences.of("other")].map(({ closed }) => closed);
  expect(all()).toEqual([true, true, true]);
  fences.open("main");
  held.delete("other");
  expect(all()).toEqual([false, false, true]);
  held.add("other");
  fences.open("other");
  expect(all()).toEqual([false, false, false]);
  held.delete("other");
  expect(all()).toEqual([true, false, true]);
  expect(fences.anyOpen).toBe(true);
});

test("the end of a generation closes the fence of its cloud and those of all its locks, and cuts off their writes", () => {
  const { fences } = fencesOf();
  for (const lock of ["main", "other"]) fences.open(lock);
  fences.close();
  fences.open("main");
  for (const fence of [fences.cloud, fences.of("main"), fences.of("other")])
    expect([fence.closed, fence.signal.aborted]).toEqual([true, true]);
  expect(fences.anyOpen).toBe(false);
});
