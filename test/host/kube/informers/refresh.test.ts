import { afterEach, beforeEach, describe, expect, test } from "bun:test";

import { eventually } from "cloud-controller-host/sdk/testing";

import { widgets } from "../stub-api.ts";
import { PoolRig, widget } from "./pool-rig.ts";

let rig: PoolRig;
beforeEach(async () => {
  rig = await PoolRig.start();
  rig.api.put(widgets, widget("a", 1));
});
afterEach(() => rig[Symbol.asyncDispose]());

/** Resolves to the time that the refresh took. */
async function refreshed(): Promise<number> {
  const began = rig.clock.monotonic();
  let done = false;
  const refresh = rig.pool.refresh().then(() => (done = true));
  await rig.soon("the caches are refreshed", () => done, 200);
  await refresh;
  return rig.clock.monotonic() - began;
}

describe("a refresh", () => {
  test("lists at once where a reflector pauses after failures", async () => {
    const { store } = await rig.watch();
    await rig.api.stop();
    const failures = (): number => rig.lines().filter(({ msg }) => msg.startsWith("waiting for the API server")).length;
    for (let passed = 0; passed < 120_000; passed += 1000) {
      await rig.clock.advance(1000);
      await Bun.sleep(1);
    }
    const before = failures();
    await rig.soon("a pause has just begun", () => failures() > before);
    await rig.api.listen();
    rig.api.put(widgets, widget("a", 2));
    expect(await refreshed()).toBeLessThan(5000);
    expect(store.get("ns/a")?.spec?.size).toBe(2);
  });

  test("reads again in place of a list that was sent before it, and of one that hangs", async () => {
    rig.api.streamingLists = "supported";
    rig.api.intercept = () => "hang";
    const { store } = rig.begin();
    await eventually("the list is sent", () => rig.api.reads.length === 1);
    rig.api.intercept = undefined;
    await refreshed();
    expect(store.get("ns/a")?.spec?.size).toBe(1);
    await rig.watching();
    expect(rig.api.reads).toEqual(["STREAM", "STREAM", "WATCH 101"]);
  });

  test("lists again what has been silent for longer than 5 s", async () => {
    const { store } = await rig.watch();
    await rig.clock.advance(6000);
    rig.unseen(widget("a", 2));
    await refreshed();
    expect(store.get("ns/a")?.spec?.size).toBe(2);
  });

  test("drops what a watch had received before it", async () => {
    const { store } = await rig.watch();
    await rig.clock.advance(6000);
    rig.unseen(widget("b", 1));
    rig.api.put(widgets, widget("a", 2));
    await refreshed();
    expect(store.size).toBe(2);
  });
});

test("a share that is taken again within the grace period has a watch that stays", async () => {
  const { share } = await rig.watch();
  share.release();
  await rig.clock.advance(5000);
  const { store } = await rig.watch();
  await rig.clock.advance(60_000);
  rig.api.put(widgets, widget("a", 3));
  await eventually("the change arrives", () => store.get("ns/a")?.spec?.size === 3);
});
