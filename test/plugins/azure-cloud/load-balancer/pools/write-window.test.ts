import { expect, test } from "bun:test";

import { RetryAfterError } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { WriteWindow } from "../../../../../plugins/azure-cloud/load-balancer/pools/write-window.ts";

/** A window with a manual clock and a budget, and writes with one result. */
function open() {
  const about = { now: 0, headroom: 1 };
  const window = new WriteWindow(
    { monotonic: () => about.now },
    {
      get headroom() {
        return about.headroom;
      },
    },
  );
  const write = (count: number, error?: unknown) =>
    window.each(Array.from({ length: count }), () => Promise.resolve(error));
  return { about, window, write };
}

const throttled = (seconds: number) => new RetryAfterError(seconds * 1000, "ARM throttles writes");

/** Writes that never end by themselves. */
function pending() {
  const ends: ((error?: unknown) => void)[] = [];
  return {
    ends,
    write: () => {
      const { promise, resolve } = Promise.withResolvers<unknown>();
      ends.push(resolve);
      return promise;
    },
  };
}

/** Waits until so many writes are in flight, and a moment longer. */
async function started(ends: readonly unknown[], count: number): Promise<void> {
  await eventually(`${count} writes have started`, () => ends.length >= count);
  await Bun.sleep(20);
  expect(ends).toHaveLength(count);
}

test("a window starts 64 writes, and the next one when one has ended", async () => {
  const { window } = open();
  const { ends, write } = pending();
  void window.each(Array.from({ length: 100 }), write);
  await started(ends, 64);
  ends[3]?.(new Error("rejected"));
  await started(ends, 65);
});

test("a call has ended when the last of its writes has", async () => {
  const { window } = open();
  const { ends, write } = pending();
  let isOver = false;
  const call = window.each([1, 2], write).then(() => (isOver = true));
  await started(ends, 2);
  ends[0]?.();
  await Bun.sleep(1);
  expect(isOver).toBe(false);
  ends[1]?.();
  expect(await call).toBe(true);
});

test("writes that do not end take no place of those that are started later", async () => {
  const { window } = open();
  const [stuck, later] = [pending(), pending()];
  void window.each(Array.from({ length: 80 }), stuck.write);
  void window.each(Array.from({ length: 80 }), later.write);
  await started(stuck.ends, 64);
  await started(later.ends, 64);
});

test("a window grows by one with each write up to 128, and once it has shrunk after as many writes as it has places", async () => {
  const { about, window, write } = open();
  await write(30);
  expect(window.places).toBe(94);
  await write(500);
  expect(window.places).toBe(128);
  await write(1, throttled(1));
  about.now = 1_000;
  await write(64);
  expect(window.places).toBe(64);
  await write(1);
  expect(window.places).toBe(65);
});

test("a window grows only while ARM has plenty of tokens, and shrinks to 4 while they are scarce", async () => {
  const { about, window, write } = open();
  about.headroom = 0.4;
  await write(200);
  expect(window.places).toBe(64);
  about.headroom = 0.2;
  await write(2);
  expect(window.places).toBe(62);
  await write(200);
  expect(window.places).toBe(4);
});

test("a 429 halves a window once, however many writes it refuses until ARM accepts the next one", async () => {
  const { about, window, write } = open();
  await write(20, throttled(7));
  await write(1, throttled(1));
  expect(window.places).toBe(32);
  about.now = 6_999;
  await write(20, throttled(7));
  await write(100);
  expect(window.places).toBe(32);
  about.now = 13_999;
  await write(1, throttled(1));
  expect(window.places).toBe(16);
});

test("a write that fails for another reason leaves a window as it is", async () => {
  const { window, write } = open();
  await write(500, new Error("ARM rejects the instance"));
  expect(window.places).toBe(64);
});

test("writes that take processor time to start leave turns of the event loop to others", async () => {
  const { window } = open();
  let turns = 0;
  const count = setInterval(() => (turns += 1), 0);
  await window.each(Array.from({ length: 20 }), () => {
    Bun.sleepSync(2);
    return Promise.resolve();
  });
  clearInterval(count);
  expect(turns).toBeGreaterThan(2);
});
