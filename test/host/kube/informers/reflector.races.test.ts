import { afterEach, beforeEach, describe, expect, jest, test } from "bun:test";
import { setImmediate } from "node:timers/promises";

import { ApiError, CodedError } from "cloud-controller-host/sdk";

import { body, end, event, ReflectorRig } from "./reflector-rig.ts";

let rig: ReflectorRig;
beforeEach(() => void (rig = new ReflectorRig()));
afterEach(async () => {
  jest.useRealTimers();
  await rig[Symbol.asyncDispose]();
});

describe("a reflector that is to list again", () => {
  test("drops what its watch brings at that moment", async () => {
    const { reflector, store, clock, sentSoFar, reply } = rig;
    await reply(new Response(event("ADDED", "a", 5) + end(7)));
    const watch = body();
    await reply(watch.response);
    await clock.advance(1);
    watch.write(event("ADDED", "late", 9));
    reflector.relist(clock.monotonic());
    await setImmediate();
    expect(sentSoFar()).toEqual(["STREAM", "WATCH 7", "STREAM"]);
    expect(store.get("ns/late")).toBeUndefined();
  });

  test("does not take a list for fresh that was sent before and is answered after", async () => {
    const { reflector, clock, sentSoFar, reply } = rig;
    await clock.advance(1000);
    const since = clock.monotonic();
    await clock.advance(1000);
    await reply(new Response(end(7)));
    expect(reflector.freshAt).toBe(0);
    reflector.relist(since);
    await setImmediate();
    expect(sentSoFar()).toEqual(["STREAM", "WATCH 7", "STREAM"]);
    await reply(new Response(end(8)));
    expect(reflector.freshAt).toBe(2000);
    reflector.relist(since);
    await setImmediate();
    expect(sentSoFar()).toEqual(["STREAM", "WATCH 7", "STREAM", "WATCH 8"]);
  });

  test("lets a list continue that was sent after the time in question", async () => {
    const { reflector, clock, sentSoFar, reply } = rig;
    await clock.advance(1000);
    reflector.relist(0);
    await setImmediate();
    expect(sentSoFar()).toEqual(["STREAM"]);
    await reply(new Response(end(7)));
    expect(reflector.freshAt).toBe(0);
  });

  test("lists again at once when the list that was sent after the time in question has failed", async () => {
    const { reflector, sentSoFar } = rig;
    await rig.fail(new ApiError(500, "InternalError", "it fails"));
    reflector.relist(0);
    await setImmediate();
    expect(sentSoFar()).toEqual(["STREAM", "STREAM"]);
  });
});

test("a watch that was refused counts as working once one has lasted, though it brought nothing", async () => {
  const { reflector, clock, sentSoFar, reply } = rig;
  await reply(new Response(end(7)));
  await rig.fail(new ApiError(403, "Forbidden", "widgets is forbidden"));
  expect(reflector.refusal?.status).toBe(403);
  while (sentSoFar().length < 3) await clock.advance(1000);
  const watch = body(rig.signal());
  await reply(watch.response);
  await clock.advance(1000);
  watch.close();
  await setImmediate();
  expect(sentSoFar()).toEqual(["STREAM", "WATCH 7", "WATCH 7", "WATCH 7"]);
  expect(reflector.refusal).toBeUndefined();
});

test("a watch that brings a change now and then is not given up, however long it lasts", async () => {
  const { clock, sentSoFar, reply } = rig;
  await reply(new Response(end(7)));
  const watch = body(rig.signal());
  await reply(watch.response);
  for (let change = 1; change <= 5; change++) {
    await clock.advance(100_000);
    watch.write(event("MODIFIED", "a", 7 + change));
    await setImmediate();
  }
  expect(sentSoFar()).toEqual(["STREAM", "WATCH 7"]);
});

test("an outage in which no watch can be opened ends, in the log, with the first watch that is", async () => {
  const { clock, lines, sentSoFar, reply } = rig;
  await reply(new Response(end(7)));
  await rig.fail(new CodedError("ApiServerUnreachable", "cannot reach the API server"));
  while (sentSoFar().length < 3) await clock.advance(1000);
  expect(sentSoFar()).toEqual(["STREAM", "WATCH 7", "WATCH 7"]);
  const isOver = (): boolean => lines().some(({ msg }) => msg === "over");
  expect(isOver()).toBe(false);
  await reply(body(rig.signal()).response);
  expect(isOver()).toBe(true);
});

describe("a streaming list", () => {
  const microtasks = async (): Promise<void> => {
    for (let turn = 0; turn < 50; turn++) await Promise.resolve();
  };

  test("may take minutes while objects arrive", async () => {
    jest.useFakeTimers();
    const { store, sentSoFar, reply, signal } = rig;
    const list = body(signal());
    const replied = reply(list.response);
    await microtasks();
    for (let object = 0; object < 5; object++) {
      jest.advanceTimersByTime(40_000);
      list.write(event("ADDED", `w${object}`, object + 1));
      await microtasks();
    }
    list.write(end(9));
    await microtasks();
    jest.useRealTimers();
    await replied;
    expect([store.size, sentSoFar()]).toEqual([5, ["STREAM", "WATCH 9"]]);
  });

  test("a streaming list in which nothing arrives for a minute is given up and tried again", async () => {
    jest.useFakeTimers();
    const { sentSoFar, reply, signal, clock } = rig;
    const replied = reply(body(signal()).response);
    await microtasks();
    jest.advanceTimersByTime(60_000);
    await microtasks();
    jest.useRealTimers();
    await replied;
    await clock.advance(2000);
    expect(sentSoFar()).toEqual(["STREAM", "STREAM"]);
  });
});
