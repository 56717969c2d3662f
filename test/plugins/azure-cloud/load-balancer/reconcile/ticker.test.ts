import { describe, expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { planningPace, Ticker } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/ticker.ts";

function fixture() {
  const clock = manualClock();
  const end = new AbortController();
  const atMs: number[] = [];
  let running = Promise.resolve();
  const ticker = new Ticker({ clock, signal: end.signal }, async () => {
    atMs.push(clock.monotonic());
    await running;
  });
  return { clock, end, atMs, ticker, hold: (work: Promise<void>) => void (running = work) };
}

describe("changes that come at about the same time", () => {
  test("lead to one tick, 5 ms after the last one", async () => {
    const { clock, atMs, ticker } = fixture();
    for (let change = 0; change < 4; change++) {
      ticker.soon();
      await clock.advance(4);
    }
    expect(atMs).toEqual([]);
    await clock.advance(100);
    expect(atMs).toEqual([17]);
  });

  test("lead to a tick after 50 ms at the latest", async () => {
    const { clock, atMs, ticker } = fixture();
    for (let change = 0; change < 20; change++) {
      ticker.soon();
      await clock.advance(4);
    }
    expect(atMs).toEqual([50]);
  });

  test("lead to one tick of a plan, 50 ms after the last one, and after 500 ms at the latest", async () => {
    const clock = manualClock();
    const atMs: number[] = [];
    const tick = () => Promise.resolve(void atMs.push(clock.monotonic()));
    const ticker = new Ticker({ clock, signal: new AbortController().signal }, tick, planningPace);
    ticker.soon();
    await clock.advance(40);
    ticker.soon();
    await clock.advance(100);
    expect(atMs).toEqual([90]);
    for (let change = 0; change < 20; change++) {
      ticker.soon();
      await clock.advance(40);
    }
    expect(atMs.slice(0, 2)).toEqual([90, 640]);
  });

  test("calls during a tick lead to one more tick, never to two at a time", async () => {
    const { clock, atMs, ticker, hold } = fixture();
    const work = Promise.withResolvers<void>();
    hold(work.promise);
    ticker.soon();
    await clock.advance(10);
    for (let change = 0; change < 3; change++) ticker.soon();
    await clock.advance(100);
    expect(atMs).toEqual([5]);
    work.resolve();
    await Bun.sleep(1);
    expect(atMs).toEqual([5, 110]);
  });
});

describe("a tick at a later time", () => {
  test("takes place then, unless an earlier one is asked for", async () => {
    const { clock, atMs, ticker } = fixture();
    ticker.after(1_000);
    ticker.after(2_000);
    ticker.after(500);
    await clock.advance(5_000);
    expect(atMs).toEqual([505, 1_005]);
    ticker.after(100);
    await clock.advance(1_000);
    expect(atMs).toEqual([505, 1_005, 5_105]);
  });

  test("is not asked for twice", async () => {
    const { clock, ticker } = fixture();
    for (let time = 0; time < 5; time++) ticker.after(1_000);
    expect(clock.sleepers).toBe(1);
    await clock.advance(2_000);
    expect(clock.sleepers).toBe(0);
  });

  test("is not waited for when the process stops: a last one takes place at once", async () => {
    const { clock, end, atMs, ticker } = fixture();
    ticker.after(10_000);
    await clock.advance(1_000);
    end.abort();
    await clock.advance(0);
    await Bun.sleep(1);
    expect(atMs[0]).toBe(1_000);
    const ticks = atMs.length;
    ticker.after(1_000);
    expect(clock.sleepers).toBe(0);
    await Bun.sleep(5);
    expect(atMs).toHaveLength(ticks);
  });
});

test("a stop of the process leads to a tick, at once", async () => {
  const { clock, end, atMs } = fixture();
  await clock.advance(1_000);
  end.abort();
  await Bun.sleep(1);
  expect(atMs).toEqual([1_000]);
});

describe("a time that may grow", () => {
  test("ends with one tick, however many wait for it", async () => {
    const { clock, atMs, ticker } = fixture();
    let endMs = 100;
    const leftMs = (): number => endMs - clock.monotonic();
    void ticker.afterAll(leftMs);
    let others = 0;
    void ticker.afterAll(() => (others += 1));
    await clock.advance(50);
    endMs = 200;
    await clock.advance(149);
    expect(atMs).toEqual([]);
    await clock.advance(100);
    expect([atMs, others]).toEqual([[205], 0]);
    void ticker.afterAll(() => 0);
    await clock.advance(100);
    expect(atMs).toHaveLength(2);
  });

  test("ends with the process", async () => {
    const { clock, end, atMs, ticker } = fixture();
    void ticker.afterAll(() => 60_000);
    await clock.advance(1_000);
    end.abort();
    await clock.advance(100);
    expect(atMs.every((at) => at < 2_000)).toBe(true);
    expect(atMs).not.toBeEmpty();
  });
});
