import { expect, test } from "bun:test";

import { RetryAfterError } from "cloud-controller-host/sdk";

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

const turn = () => Bun.sleep(1);

test("a window starts 32 writes, and the next one when one has ended", async () => {
  const { window } = open();
  const { ends, write } = pending();
  void window.each(Array.from({ length: 100 }), write);
  await turn();
  expect(ends).toHaveLength(32);
  ends[3]?.(new Error("rejected"));
  await turn();
  expect(ends).toHaveLength(33);
});

test("writes that do not end take no place of those that are started later", async () => {
  const { window } = open();
  const [stuck, later] = [pending(), pending()];
  void window.each(Array.from({ length: 40 }), stuck.write);
  void window.each(Array.from({ length: 40 }), later.write);
  await turn();
  expect([stuck.ends.length, later.ends.length]).toEqual([32, 32]);
});

test("a window grows by one after as many writes as it has places, up to 128", async () => {
  const { window, write } = open();
  await write(32);
  expect(window.places).toBe(32);
  await write(1);
  expect(window.places).toBe(33);
  await write(20_000);
  expect(window.places).toBe(128);
});

test("a window grows only while ARM has plenty of tokens, and shrinks to 4 while they are scarce", async () => {
  const { about, window, write } = open();
  about.headroom = 0.4;
  await write(200);
  expect(window.places).toBe(32);
  about.headroom = 0.2;
  await write(2);
  expect(window.places).toBe(30);
  await write(200);
  expect(window.places).toBe(4);
});

test("a 429 halves a window once, however many writes it refuses until ARM accepts the next one", async () => {
  const { about, window, write } = open();
  await write(20, throttled(7));
  expect(window.places).toBe(16);
  about.now = 6_999;
  await write(20, throttled(7));
  await write(100);
  expect(window.places).toBe(16);
  about.now = 13_999;
  await write(1, throttled(1));
  expect(window.places).toBe(8);
});

test("a write that fails for another reason leaves a window as it is", async () => {
  const { window, write } = open();
  await write(500, new Error("ARM rejects the instance"));
  expect(window.places).toBe(32);
});
