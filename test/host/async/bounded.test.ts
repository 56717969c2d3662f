import { describe, expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { bounded, type Bounds } from "../../../host/async/bounded.ts";
import { OutstandingWork } from "../../../host/async/outstanding-work.ts";

function world<T>(more: Partial<Bounds<T>> = {}) {
  const clock = manualClock();
  const outstanding = new OutstandingWork(clock);
  const bounds: Bounds<T> = {
    kind: "init",
    name: "init of a",
    clock,
    outstanding,
    limitMs: 1_000,
    hint: "--limit",
    ...more,
  };
  return { clock, outstanding, bounds };
}
const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

describe("bounded work", () => {
  test("is in the ledger from its start until it settles, and results in its value or its error", async () => {
    const { outstanding, bounds } = world<string>();
    const work = Promise.withResolvers<string>();
    const waiting = bounded(bounds, () => work.promise);
    expect(outstanding.entries).toMatchObject([{ kind: "init", name: "init of a" }]);
    work.resolve("done");
    expect(await waiting).toBe("done");
    await expect(bounded(bounds, () => Promise.reject(new Error("boom")))).rejects.toThrow("boom");
    await turn();
    expect(outstanding.entries).toEqual([]);
  });

  test("bounded work over its limit is refused by name, stays in the ledger, and its late result is undone", async () => {
    const undone: string[] = [];
    const { clock, outstanding, bounds } = world<string>({ late: (value) => void undone.push(value) });
    const work = Promise.withResolvers<string>();
    const waiting = bounded(bounds, () => work.promise).catch((error: unknown) => error);
    await clock.advance(1_000);
    expect(await waiting).toMatchObject({
      code: "WorkTimeout",
      message: "init of a did not return within 1 s (--limit)",
    });
    expect(outstanding.entries).toHaveLength(1);
    work.resolve("late");
    await turn();
    expect([undone, outstanding.entries]).toEqual([["late"], []]);
  });

  test("stays in the ledger while its late result is being undone", async () => {
    const undone = Promise.withResolvers<void>();
    const { clock, outstanding, bounds } = world<string>({ late: () => undone.promise });
    const work = Promise.withResolvers<string>();
    const waiting = bounded(bounds, () => work.promise).catch((error: unknown) => error);
    await clock.advance(1_000);
    await waiting;
    work.resolve("late");
    await turn();
    expect(outstanding.entries).toHaveLength(1);
    undone.resolve();
    await turn();
    expect(outstanding.entries).toEqual([]);
  });

  test("bounded work whose value comes in time is not undone", async () => {
    const undone: string[] = [];
    const { bounds } = world<string>({ late: (value) => void undone.push(value) });
    await bounded(bounds, () => "in time");
    await turn();
    expect(undone).toEqual([]);
  });

  test("is not begun under an aborted signal, and is left at once when it aborts", async () => {
    const stop = new AbortController();
    const { outstanding, bounds } = world<never>({ signal: stop.signal });
    const waiting = bounded(bounds, () => new Promise<never>(() => undefined));
    stop.abort(new Error("stopped"));
    await expect(waiting).rejects.toThrow("stopped");
    let begun = false;
    await expect(
      bounded(bounds, () => {
        begun = true;
        throw new Error("it was begun");
      }),
    ).rejects.toThrow("stopped");
    expect([begun, outstanding.entries.length]).toEqual([false, 1]);
  });
});

test("the ledger is waited for no longer than asked, and not at all when it is empty", async () => {
  const clock = manualClock();
  const outstanding = new OutstandingWork(clock);
  expect(await outstanding.settled(1_000)).toEqual([]);
  const work = Promise.withResolvers<void>();
  outstanding.add("run", "a", work.promise);
  const waiting = outstanding.settled(1_000);
  await clock.advance(1_000);
  expect((await waiting).map(({ name }) => name)).toEqual(["a"]);
  const again = outstanding.settled(1_000);
  work.resolve();
  expect(await again).toEqual([]);
  expect(clock.sleepers).toBe(0);
});
