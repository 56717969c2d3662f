import { heapStats } from "bun:jsc";
import { describe, expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";
import * as fc from "fast-check";

import { SharedRead, SharedReads } from "../../../../../plugins/azure-cloud/arm/reads/shared-read.ts";

/** A read whose answers are given by hand; each answer is the number of the read. */
function readByHand(ttlMs = 60_000) {
  const clock = manualClock();
  const inFlight: PromiseWithResolvers<void>[] = [];
  let begun = 0;
  const read = new SharedRead({
    clock,
    ttlMs,
    async read() {
      const number = ++begun;
      const gate = Promise.withResolvers<void>();
      inFlight.push(gate);
      await gate.promise;
      return { number };
    },
  });
  const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
  return {
    clock,
    read,
    begun: () => begun,
    turn,
    answer: async (): Promise<void> => {
      await turn();
      await turn();
      inFlight.shift()?.resolve();
      await turn();
    },
  };
}

describe("a shared read", () => {
  test("serves all callers that request it before it starts, and cached lookups while it runs", async () => {
    const { read, answer, turn, begun } = readByHand();
    const before = [read.get("fresh"), read.get("cached"), read.get("fresh")];
    await turn();
    const during = read.get("cached");
    await answer();
    expect(await Promise.all([...before, during])).toEqual([
      { number: 1 },
      { number: 1 },
      { number: 1 },
      { number: 1 },
    ]);
    expect(begun()).toBe(1);
  });

  test("serves callers of one turn that come one after another", async () => {
    const { read, answer, begun } = readByHand();
    const first = read.get("fresh");
    for (let step = 0; step < 5; step++) await Promise.resolve();
    const second = read.get("fresh");
    await answer();
    expect(await Promise.all([first, second])).toEqual([{ number: 1 }, { number: 1 }]);
    expect(begun()).toBe(1);
  });

  test("a shared read that is forgotten while it is in flight answers no caller after that, whether of all items or of one", async () => {
    const { read, answer, turn, begun } = readByHand();
    const running = read.get("cached");
    await turn();
    await turn();
    expect(begun()).toBe(1);
    read.forget();
    const after = [read.get("cached"), read.find("cached", (value) => value)];
    await answer();
    await answer();
    expect(await running).toEqual({ number: 1 });
    expect(await Promise.all(after)).toEqual([{ number: 2 }, { number: 2 }]);
    expect(begun()).toBe(2);
  });

  test("is valid for its TTL from the start of the read, however long that took", async () => {
    const { clock, read, answer, turn, begun } = readByHand(60_000);
    const first = read.get("cached");
    await turn();
    await turn();
    await clock.advance(20_000);
    await answer();
    await first;
    await clock.advance(39_999);
    expect(await read.get("cached")).toEqual({ number: 1 });
    await clock.advance(1);
    const second = read.get("cached");
    await answer();
    expect(await second).toEqual({ number: 2 });
    expect(begun()).toBe(2);
  });

  test("fresh lookups during a read share the next one", async () => {
    const { read, answer, turn, begun } = readByHand();
    const first = read.get("fresh");
    await turn();
    await turn();
    const later = [read.get("fresh"), read.get("fresh")];
    await answer();
    expect(await first).toEqual({ number: 1 });
    await answer();
    expect(await Promise.all(later)).toEqual([{ number: 2 }, { number: 2 }]);
    expect(begun()).toBe(2);
  });

  test("begins at most one read per second for items that held results lack", async () => {
    const { clock, read, answer, turn, begun } = readByHand();
    const first = read.get("cached");
    await answer();
    await first;
    const lookups = [1, 2, 3].map(() => read.find("newer", ({ number }) => (number > 1 ? number : undefined)));
    for (let turns = 0; turns < 20; turns++) await turn();
    await clock.advance(999);
    for (let turns = 0; turns < 20; turns++) await turn();
    expect(begun()).toBe(1);
    await clock.advance(1);
    await answer();
    expect(await Promise.all(lookups)).toEqual([2, 2, 2]);
    expect(begun()).toBe(2);
  });

  test("a lookup that misses takes the result of a read in flight before it starts another", async () => {
    const { clock, read, answer, turn, begun } = readByHand();
    const first = read.get("cached");
    await answer();
    await first;
    await clock.advance(5_000);
    read.prefetch("newer");
    await turn();
    await turn();
    const found = read.find("newer", ({ number }) => (number > 1 ? number : undefined));
    await answer();
    expect(await found).toBe(2);
    expect(begun()).toBe(2);
  });

  test("stores the result of a write, not that of a read that started before it", async () => {
    const { read, answer, turn, begun } = readByHand();
    const before = read.get("cached");
    await turn();
    await turn();
    read.replace({ number: 70 });
    await answer();
    expect(await before).toEqual({ number: 1 });
    expect(await read.get("cached")).toEqual({ number: 70 });
    expect(begun()).toBe(1);
  });

  test("a prefetch starts a read only when none is held or in flight, and its failure is not unhandled", async () => {
    const failing = new SharedRead<number>({
      clock: manualClock(),
      ttlMs: 60_000,
      read: () => Promise.reject(new Error("no answer")),
    });
    failing.prefetch("cached");
    expect(await failing.get("cached").catch(String)).toBe("Error: no answer");
    const { read, answer, turn, begun } = readByHand();
    read.prefetch("cached");
    read.prefetch("cached");
    await turn();
    read.prefetch("cached");
    await answer();
    read.prefetch("cached");
    await turn();
    await turn();
    expect(begun()).toBe(1);
    expect(await read.get("cached")).toEqual({ number: 1 });
  });

  test("a prefetch for an item that the held result lacks waits until that is a second old", async () => {
    const { clock, read, answer, turn, begun } = readByHand();
    const first = read.get("cached");
    await answer();
    await first;
    read.prefetch("newer");
    await turn();
    await clock.advance(999);
    await turn();
    expect(begun()).toBe(1);
    await clock.advance(1);
    await turn();
    expect(begun()).toBe(2);
  });

  test("starts no read for an item that the held result has", async () => {
    const { read, answer, begun } = readByHand();
    const first = read.get("cached");
    await answer();
    await first;
    expect(await read.find("newer", ({ number }) => number)).toBe(1);
    expect(await read.find("cached", () => undefined)).toBeUndefined();
    expect(begun()).toBe(1);
  });

  test("never answers a fresh lookup from a read that began before it", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.constantFrom("ask", "answer", "turn"), { maxLength: 30 }), async (steps) => {
        const { read, answer, turn, begun } = readByHand();
        const lookups: Promise<boolean>[] = [];
        for (const step of steps) {
          if (step === "answer") await answer();
          else if (step === "turn") await turn();
          else {
            const before = begun();
            lookups.push(read.get("fresh").then(({ number }) => number > before));
          }
        }
        for (let rest = 0; rest < 3; rest++) await answer();
        return (await Promise.all(lookups)).every(Boolean);
      }),
      { seed: 20260820, numRuns: 200 },
    );
  });
});

describe("a list that is read in parts", () => {
  /** Parts are handed out, and the list is ended, by hand; the object handed out grows, as that of a list does. */
  function listByHand() {
    const lists: { readonly part: (item: string) => void; readonly end: () => void; readonly fail: () => void }[] = [];
    const read = new SharedRead<Set<string>>({
      clock: manualClock(),
      ttlMs: 60_000,
      async read(publish) {
        const items = new Set<string>();
        const gate = Promise.withResolvers<void>();
        const fail = (): void => gate.reject(new Error("the list failed"));
        lists.push({ part: (item) => publish(items.add(item)), end: gate.resolve, fail });
        await gate.promise;
        return items;
      },
    });
    const turns = async (): Promise<void> => {
      for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => void setImmediate(resolve));
    };
    const find = (item: string, freshness: "cached" | "newer" | "fresh" = "cached") => {
      const lookup = { answer: "none yet" };
      void read
        .find(freshness, (items) => (items.has(item) ? item : undefined))
        .then(
          (found) => (lookup.answer = found ?? "absent"),
          (error: unknown) => (lookup.answer = String(error)),
        );
      return lookup;
    };
    return { read, lists, turns, find };
  }

  test.each(["cached", "newer"] as const)(
    "answers a %s lookup as soon as the item's part is there",
    async (freshness) => {
      const { lists, turns, find } = listByHand();
      const lookups = ["a", "b", "c"].map((item) => find(item, freshness));
      const answers = (): readonly string[] => lookups.map(({ answer }) => answer);
      await turns();
      lists[0]?.part("a");
      await turns();
      expect(answers()).toEqual(["a", "none yet", "none yet"]);
      const late = find("a", freshness);
      await turns();
      expect(late.answer).toBe("a");
      lists[0]?.part("b");
      await turns();
      expect(answers()).toEqual(["a", "b", "none yet"]);
      expect(lists).toHaveLength(1);
    },
  );

  test("says that an item is absent only once the whole list is there, without another read", async () => {
    const { lists, turns, find } = listByHand();
    const lookup = find("c");
    await turns();
    lists[0]?.part("a");
    await turns();
    expect(lookup.answer).toBe("none yet");
    lists[0]?.end();
    await turns();
    expect(lookup.answer).toBe("absent");
    expect(lists).toHaveLength(1);
  });

  test("a list that is read in parts that fails is an error for those that still wait, and is not kept", async () => {
    const { lists, turns, find } = listByHand();
    const lookups = [find("a"), find("b")];
    await turns();
    lists[0]?.part("a");
    await turns();
    lists[0]?.fail();
    await turns();
    expect(lookups.map(({ answer }) => answer)).toEqual(["a", "Error: the list failed"]);
    const again = find("a");
    await turns();
    expect(again.answer).toBe("none yet");
    expect(lists).toHaveLength(2);
  });

  test("a list that is read in parts that fails when every lookup has been answered leaves no rejection unhandled", async () => {
    const { lists, turns, find } = listByHand();
    const lookup = find("a");
    await turns();
    lists[0]?.part("a");
    await turns();
    expect(lookup.answer).toBe("a");
    lists[0]?.fail();
    // A rejection that nothing handles would fail this test.
    await turns();
    expect(find("a").answer).toBe("none yet");
  });

  test("answers no fresh lookup before it ends", async () => {
    const { lists, turns, find } = listByHand();
    const first = find("a");
    const fresh = find("a", "fresh");
    await turns();
    lists[0]?.part("a");
    await turns();
    expect([first.answer, fresh.answer]).toEqual(["a", "none yet"]);
    lists[0]?.end();
    await turns();
    expect(fresh.answer).toBe("a");
  });

  test("answers no lookup once a write has outdated it", async () => {
    const { read, lists, turns, find } = listByHand();
    find("z");
    await turns();
    lists[0]?.part("a");
    read.forget();
    const lookup = find("a");
    await turns();
    lists[0]?.part("b");
    const other = find("b");
    await turns();
    expect([lookup.answer, other.answer]).toEqual(["none yet", "none yet"]);
  });

  test("answers the lookups of items that it lacks although it ends right after its only part", async () => {
    const read = new SharedRead<Set<string>>({
      clock: manualClock(),
      ttlMs: 0,
      read(publish) {
        const items = new Set(["a"]);
        publish(items);
        return Promise.resolve(items);
      },
    });
    const find = (item: string) => read.find("cached", (items) => (items.has(item) ? item : undefined));
    for (let round = 0; round < 3; round++)
      expect(await Promise.all([find("a"), find("b"), find("a")])).toEqual(["a", undefined, "a"]);
  });

  test("keeps nothing of lookups that have ended, although no part of it was handed out", async () => {
    const read = new SharedRead({
      clock: manualClock(),
      ttlMs: 0,
      read: () => Promise.resolve({ item: "a" }),
    });
    const promises = (): number => {
      Bun.gc(true);
      return heapStats().objectTypeCounts["Promise"] ?? 0;
    };
    const before = promises();
    for (let round = 0; round < 20; round++)
      await Promise.all(Array.from({ length: 100 }, () => read.find("cached", ({ item }) => item)));
    expect(promises() - before).toBeLessThan(1_000);
  });
});

test("shared reads by key are created once per key", async () => {
  const made: string[] = [];
  const reads = new SharedReads((key) => {
    made.push(key);
    return new SharedRead({ clock: manualClock(), ttlMs: 60_000, read: () => Promise.resolve(key) });
  });
  expect(await Promise.all([reads.of("a").get("cached"), reads.of("b").get("cached")])).toEqual(["a", "b"]);
  expect(reads.of("a")).toBe(reads.of("a"));
  expect(made).toEqual(["a", "b"]);
});

test("shared reads by key keep nothing of a key that is dropped, and read it again", async () => {
  let count = 0;
  const reads = new SharedReads(
    () => new SharedRead({ clock: manualClock(), ttlMs: 60_000, read: () => Promise.resolve(++count) }),
  );
  const former = reads.of("a");
  expect([await former.get("cached"), await reads.of("a").get("cached")]).toEqual([1, 1]);
  reads.drop("a");
  expect(reads.of("a")).not.toBe(former);
  expect(await reads.of("a").get("cached")).toBe(2);
});
