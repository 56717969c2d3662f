import { heapStats } from "bun:jsc";
import { describe, expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";
import * as fc from "fast-check";

import { DelayedAdds } from "../../../../host/kube/queue/delayed-adds.ts";

describe("delayed adds", () => {
  test("become ready at the earliest time that each key was added for, in order", async () => {
    const add = fc.record({
      key: fc.constantFrom("a", "b", "c", "d", "e", "f", "g", "h"),
      delayMs: fc.integer({ min: 1, max: 1000 }),
      passMs: fc.nat(80),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(add, { maxLength: 60 }), async (adds) => {
        const clock = manualClock();
        const expected = new Map<string, number>();
        const wrong: string[] = [];
        let ready = 0;
        const delayed = new DelayedAdds(clock, (key) => {
          ready += 1;
          if (expected.get(key) !== clock.monotonic()) wrong.push(`${key} at ${clock.monotonic()}`);
          expected.delete(key);
        });
        for (const { key, delayMs, passMs } of adds) {
          const at = clock.monotonic() + delayMs;
          expected.set(key, Math.min(at, expected.get(key) ?? at));
          delayed.add(key, delayMs);
          await clock.advance(0);
          for (let passed = 0; passed < passMs; passed++) await clock.advance(1);
        }
        for (let passed = 0; passed <= 1000; passed++) await clock.advance(1);
        expect([wrong, expected.size, clock.sleepers]).toEqual([[], 0, 0]);
        expect(ready > 0).toBe(adds.length > 0);
      }),
      { seed: 11, numRuns: 30 },
    );
  });

  test("delayed adds of one key that waits for long and for short again and again take the room of one entry", async () => {
    const clock = manualClock();
    let ready = 0;
    const delayed = new DelayedAdds(clock, () => void ready++);
    const objects = (): number => {
      Bun.gc(true);
      return heapStats().objectTypeCounts["Object"] ?? 0;
    };
    delayed.add("other", 10_000_000);
    const before = objects();
    for (let round = 0; round < 5000; round++) {
      delayed.add("node-1", 3_600_000);
      delayed.add("node-1", 5);
      await clock.advance(5);
    }
    expect(ready).toBe(5000);
    expect(objects() - before).toBeLessThan(500);
    delayed.stop();
  });

  test("are dropped by a stop, and none is accepted after it", async () => {
    const clock = manualClock();
    let ready = 0;
    const delayed = new DelayedAdds(clock, () => void ready++);
    delayed.add("a", 10);
    delayed.stop();
    delayed.add("b", 10);
    await clock.advance(100);
    expect([ready, clock.sleepers]).toEqual([0, 0]);
  });
});
