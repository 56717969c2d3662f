import { expect, test } from "bun:test";
import { setImmediate } from "node:timers/promises";

import { manualClock } from "cloud-controller-host/sdk/testing";
import * as fc from "fast-check";

import { createWorkQueue } from "../../../../host/kube/queue/work-queue.ts";
import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { capturedLog } from "../captured-log.ts";

const seed = 20_240_611;

const key = fc.constantFrom("a", "b", "c", "d");
const step = fc.oneof(
  fc.record({ do: fc.constant("add" as const), key }),
  fc.record({ do: fc.constant("addAfter" as const), key, ms: fc.integer({ min: 0, max: 30 }) }),
  fc.record({ do: fc.constant("addRateLimited" as const), key }),
  fc.record({ do: fc.constant("advance" as const), ms: fc.integer({ min: 1, max: 20 }) }),
  fc.record({ do: fc.constant("finish" as const), at: fc.nat(3), fails: fc.boolean() }),
  fc.record({ do: fc.constant("turn" as const) }),
);

interface InHand {
  readonly key: string;
  readonly end: (fails: boolean) => void;
}

test(`no key is ever in two hands and no added key is lost, in any interleaving (seed ${seed})`, async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 3 }), fc.array(step, { maxLength: 60 }), async (workers, steps) => {
      const clock = manualClock();
      const { log } = capturedLog();
      const limits = [{ type: "exponential", baseMs: 1, maxMs: 8 }] as const;
      const queue = createWorkQueue("q", { clock, log, limits, metrics: new MetricsRegistry().root });
      const stop = new AbortController();
      const inFlight: InHand[] = [];
      const inTwoHands: string[] = [];
      const begun = new Map<string, number>();
      /** For each key, how many times it had been begun when it was last added: it must be begun once more. */
      const owed = new Map<string, number>();
      const owe = (added: string): void => void owed.set(added, begun.get(added) ?? 0);
      const sync = (taken: string): Promise<void> => {
        if (inFlight.some((hand) => hand.key === taken)) inTwoHands.push(taken);
        begun.set(taken, (begun.get(taken) ?? 0) + 1);
        return new Promise((resolve, reject) => {
          inFlight.push({ key: taken, end: (fails) => (fails ? reject(new Error("fails")) : resolve()) });
        });
      };
      const work = queue.process({ workers, signal: stop.signal, sync, failed: () => undefined });

      for (const action of steps) {
        if (action.do === "advance") await clock.advance(action.ms);
        else if (action.do === "turn") await setImmediate();
        else if (action.do === "finish") {
          const [hand] = inFlight.splice(action.at, 1);
          if (action.fails && hand !== undefined) owe(hand.key);
          hand?.end(action.fails);
        } else {
          owe(action.key);
          if (action.do === "add") queue.add(action.key);
          else if (action.do === "addAfter") queue.addAfter(action.key, action.ms);
          else queue.addRateLimited(action.key);
        }
        expect(inFlight.length).toBeLessThanOrEqual(workers);
      }

      for (let round = 0; round < 200; round++) {
        for (const hand of inFlight.splice(0)) hand.end(false);
        await clock.advance(10);
        if (inFlight.length === 0 && queue.length === 0 && clock.sleepers === 0) break;
      }
      for (const [added, before] of owed) expect(begun.get(added) ?? 0).toBeGreaterThan(before);
      expect(inTwoHands).toEqual([]);
      expect(clock.sleepers).toBe(0);
      stop.abort();
      await work;
      queue.shutDown();
    }),
    { seed, numRuns: 150 },
  );
});
