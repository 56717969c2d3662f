import { describe, expect, test } from "bun:test";
import { getEventListeners } from "node:events";

import { systemClock } from "../../../host/async/clock.ts";

describe("the system clock", () => {
  test("sleeps at least as long as asked", async () => {
    const before = systemClock.monotonic();
    await systemClock.sleep(20);
    expect(systemClock.monotonic() - before).toBeGreaterThanOrEqual(19);
  });

  test("ends a sleep when the signal aborts, without rejecting", async () => {
    const abort = new AbortController();
    const sleep = systemClock.sleep(3_600_000, abort.signal);
    abort.abort();
    expect(await sleep).toBeUndefined();
  });

  test("does not begin a sleep under an aborted signal", async () => {
    expect(await systemClock.sleep(3_600_000, AbortSignal.abort())).toBeUndefined();
  });

  test("leaves no listener on the signal once a sleep has ended", async () => {
    const abort = new AbortController();
    for (let i = 0; i < 20; i++) await systemClock.sleep(0, abort.signal);
    expect(getEventListeners(abort.signal, "abort")).toHaveLength(0);
  });

  test("does not end at once a sleep longer than a timer can hold", async () => {
    const abort = new AbortController();
    let ended = false;
    const sleep = systemClock.sleep(Number.MAX_SAFE_INTEGER, abort.signal).then(() => (ended = true));
    await systemClock.sleep(10);
    expect(ended).toBeFalse();
    abort.abort();
    await sleep;
  });
});
