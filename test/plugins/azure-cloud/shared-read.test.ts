import { describe, expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";
import * as fc from "fast-check";

import { SharedRead } from "../../../plugins/azure-cloud/instances/shared-read.ts";

/** A read whose answers are given by hand; each answer is the number of the read. */
function readByHand(ttlMs = 60_000) {
  const clock = manualClock();
  const underway: PromiseWithResolvers<void>[] = [];
  let begun = 0;
  const read = new SharedRead({
    clock,
    ttlMs,
    async read() {
      const number = ++begun;
      const gate = Promise.withResolvers<void>();
      underway.push(gate);
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
      underway.shift()?.resolve();
      await turn();
    },
  };
}

describe("a shared read", () => {
  test("serves everybody who asks before it begins, and those who take a cached answer while it runs", async () => {
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

  test("a fresh question asked while it runs is answered by the next one, which all such questions share", async () => {
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

  test("what is missing in a held answer is looked for in a newer one, begun once a second at most", async () => {
    const { clock, read, answer, turn, begun } = readByHand();
    const first = read.get("cached");
    await answer();
    await first;
    const looked = [1, 2, 3].map(() => read.find("newer", ({ number }) => (number > 1 ? number : undefined)));
    await turn();
    expect(begun()).toBe(1);
    await clock.advance(1_000);
    await answer();
    expect(await Promise.all(looked)).toEqual([2, 2, 2]);
    expect(begun()).toBe(2);
  });

  test("what is found in a held answer starts nothing", async () => {
    const { read, answer, begun } = readByHand();
    const first = read.get("cached");
    await answer();
    await first;
    expect(await read.find("newer", ({ number }) => number)).toBe(1);
    expect(await read.find("cached", () => undefined)).toBeUndefined();
    expect(begun()).toBe(1);
  });

  test("never answers a fresh question from a read that began before it", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.constantFrom("ask", "answer", "turn"), { maxLength: 30 }), async (steps) => {
        const { read, answer, turn, begun } = readByHand();
        const asked: Promise<boolean>[] = [];
        for (const step of steps) {
          if (step === "answer") await answer();
          else if (step === "turn") await turn();
          else {
            const before = begun();
            asked.push(read.get("fresh").then(({ number }) => number > before));
          }
        }
        for (let rest = 0; rest < 3; rest++) await answer();
        return (await Promise.all(asked)).every(Boolean);
      }),
      { seed: 20260820, numRuns: 200 },
    );
  });
});
