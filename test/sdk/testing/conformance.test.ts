import { expect, test } from "bun:test";

import { eventually } from "cloud-controller-host/sdk/testing";

import { errorOf } from "../../kit/rejection.ts";

/** The times between the end of a probe of this length and the next probe, in milliseconds. */
async function pausesOf(probeMs: number, probes: number): Promise<readonly number[]> {
  const pauses: number[] = [];
  let ended: number | undefined;
  await eventually("there were enough probes", async () => {
    if (ended !== undefined) pauses.push(performance.now() - ended);
    await Bun.sleep(probeMs);
    ended = performance.now();
    return pauses.length === probes;
  });
  return pauses;
}

test("a wait leaves nine times as long to what it waits for as its probe has taken, up to 100 ms", async () => {
  // Timers may fire within the millisecond before.
  expect(Math.min(...(await pausesOf(10, 10)))).toBeGreaterThan(88);
  // A busy machine prolongs a pause, not each of them.
  expect(Math.min(...(await pausesOf(100, 5)))).toBeLessThan(250);
  expect(Math.min(...(await pausesOf(0, 20)))).toBeLessThan(20);
});

test("a wait that is over names what was awaited, with the last error of its probe as the cause", async () => {
  const cause = new Error("the probe failed");
  const error = await errorOf(eventually("it works", () => Promise.reject(cause), 20));
  expect(error).toMatchObject({ message: "not within 0.02 s: it works", cause });
});
