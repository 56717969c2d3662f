import { afterEach, describe, expect, test } from "bun:test";
import { setImmediate } from "node:timers/promises";

import { ApiError } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { body, end, event, ReflectorRig } from "./reflector-rig.ts";

let rig: ReflectorRig;
afterEach(() => rig[Symbol.asyncDispose]());

/** A reflector with two objects at version 10, whose watch has brought the second one. */
async function watching(options: ConstructorParameters<typeof ReflectorRig>[0] = { catchUpFrom: 2 }) {
  rig = new ReflectorRig(options);
  await rig.reply(new Response(event("ADDED", "a", 5) + end(7)));
  const watch = body(rig.signal());
  await rig.reply(watch.response);
  watch.write(event("ADDED", "b", 10));
  await eventually("the watch has brought it", () => rig.store.size === 2);
  await rig.clock.advance(100);
  return watch;
}

/** Requests that follow those of `watching`. */
const further = (): readonly string[] => rig.sentSoFar().slice(2);

/** The reply to the read of a version. */
const versionIs = (resourceVersion?: string): Response =>
  Response.json({ kind: "PartialObjectMetadataList", metadata: { resourceVersion }, items: [] });

/** Requests that nothing be older than now, and moves time by 10 ms. */
async function request(): Promise<number> {
  const since = rig.clock.monotonic();
  rig.reflector.relist(since);
  await rig.clock.advance(10);
  return since;
}

async function bring(watch: ReturnType<typeof body>, text: string): Promise<void> {
  watch.write(text);
  await setImmediate();
}

describe("proving a large store fresh", () => {
  test("cancels the read of a proof that began before the time that is asked for now", async () => {
    const watch = await watching();
    await request();
    const former = rig.signal();
    const since = await request();
    expect(further()).toEqual(["VERSION", "VERSION"]);
    expect([former?.aborted, rig.signal()?.aborted]).toEqual([true, false]);
    await rig.reply(versionIs("12"));
    await bring(watch, event("MODIFIED", "a", 12));
    expect(rig.reflector.freshAt).toBe(since);
  });

  test("takes a read of one object and a change of the version that it returned", async () => {
    const watch = await watching({ catchUpFrom: 2, labelSelector: "a=b" });
    const since = await request();
    expect(further()).toEqual(["VERSION"]);
    expect(rig.last?.query).toEqual({ labelSelector: "a=b", fieldSelector: undefined, limit: "1" });
    expect(rig.last?.accept).toContain("PartialObjectMetadataList");
    await rig.reply(versionIs("12"));
    expect(rig.reflector.freshAt).toBe(0);
    const { steps } = rig;
    await bring(watch, event("MODIFIED", "a", 12));
    expect(rig.reflector.freshAt).toBe(since);
    expect(rig.steps).toBe(steps + 2);
    await rig.clock.advance(10_000);
    expect(further()).toEqual(["VERSION"]);
  });

  test("ignores changes that are older than the version that was read, and accepts later ones", async () => {
    const watch = await watching();
    const since = await request();
    await rig.reply(versionIs("100"));
    await bring(watch, event("MODIFIED", "a", 99));
    expect(rig.reflector.freshAt).toBe(0);
    await bring(watch, event("MODIFIED", "a", 101));
    expect(rig.reflector.freshAt).toBe(since);
  });

  test("accepts a bookmark of the version that was read", async () => {
    const watch = await watching();
    const since = await request();
    await rig.reply(versionIs("12"));
    await bring(watch, event("BOOKMARK", "", 12));
    expect(rig.reflector.freshAt).toBe(since);
  });

  test("ends with the reply to the read if the watch has come that far by then", async () => {
    const watch = await watching();
    const first = await request();
    await bring(watch, event("MODIFIED", "a", 13));
    await rig.reply(versionIs("12"));
    expect(rig.reflector.freshAt).toBe(first);
    const second = await request();
    await rig.reply(versionIs("13"));
    expect(rig.reflector.freshAt).toBe(second);
    expect(further()).toEqual(["VERSION", "VERSION"]);
  });

  test("dates the store to the sending of the read, not to its reply", async () => {
    const watch = await watching();
    const since = await request();
    await rig.clock.advance(100);
    await rig.reply(versionIs("12"));
    await bring(watch, event("MODIFIED", "a", 12));
    expect(rig.reflector.freshAt).toBe(since);
  });

  test("continues across a watch that the server ends and that is resumed", async () => {
    const watch = await watching();
    const since = await request();
    await rig.reply(versionIs("12"));
    watch.close();
    await setImmediate();
    expect(further()).toEqual(["VERSION", "WATCH 10"]);
    const next = body(rig.signal());
    await rig.reply(next.response);
    await bring(next, event("MODIFIED", "a", 12));
    expect(rig.reflector.freshAt).toBe(since);
    expect(further()).toHaveLength(2);
  });
});

describe("a second request during a proof", () => {
  test("sends another read if it is for a later time, and the first read then proves nothing", async () => {
    const watch = await watching();
    await request();
    await rig.reply(versionIs("12"));
    const later = await request();
    expect(further()).toEqual(["VERSION", "VERSION"]);
    await bring(watch, event("MODIFIED", "a", 12));
    expect(rig.reflector.freshAt).toBe(0);
    await rig.clock.advance(235);
    expect(further()).toEqual(["VERSION", "VERSION"]);
    await rig.reply(versionIs("14"));
    await bring(watch, event("MODIFIED", "a", 14));
    expect(rig.reflector.freshAt).toBe(later);
  });

  test("sends nothing if it is for the same or an earlier time", async () => {
    await watching();
    const since = await request();
    rig.reflector.relist(since);
    rig.reflector.relist(since - 1);
    await setImmediate();
    expect(further()).toEqual(["VERSION"]);
  });
});

describe("a large store", () => {
  test("is listed again when its watch has not caught up within 250 ms", async () => {
    const watch = await watching();
    await request();
    await rig.reply(versionIs("12"));
    await bring(watch, event("MODIFIED", "a", 11));
    await rig.clock.advance(239);
    expect(further()).toEqual(["VERSION"]);
    await rig.clock.advance(1);
    expect(further()).toEqual(["VERSION", "STREAM"]);
    await rig.reply(new Response(event("ADDED", "a", 12) + end(12)));
    expect([rig.reflector.freshAt, rig.store.size]).toEqual([350, 1]);
    expect(rig.lines().map(({ msg }) => msg)).toEqual([
      "Listing widgets.test.io again: its watch has not caught up within 250 ms",
    ]);
  });

  test("is listed again when the read is not answered within 250 ms, and the read is canceled", async () => {
    await watching();
    await request();
    const read = rig.signal();
    await rig.clock.advance(240);
    expect(read?.aborted).toBe(true);
    expect(further()).toEqual(["VERSION", "STREAM"]);
  });

  test.each([
    ["is refused", new ApiError(403, "Forbidden", "forbidden")],
    ["fails", new Error("connection reset")],
  ])("is listed again immediately when the read %s", async (_, error) => {
    await watching();
    await request();
    await rig.fail(error);
    expect(further()).toEqual(["VERSION", "STREAM"]);
  });

  test.each([
    ["no version", undefined],
    ["a version that cannot be compared", "x12"],
    ["an older version, as of a server that was restored from a backup", "9"],
  ])("is listed again immediately when the read returns %s", async (_, version) => {
    await watching();
    await request();
    await rig.reply(versionIs(version));
    expect(further()).toEqual(["VERSION", "STREAM"]);
  });

  test("is listed again when its watch brings versions that cannot be compared", async () => {
    const watch = await watching();
    await request();
    await rig.reply(versionIs("12"));
    await bring(watch, event("MODIFIED", "a", "x12"));
    expect(rig.reflector.freshAt).toBe(0);
    await rig.clock.advance(240);
    expect(further()).toEqual(["VERSION", "STREAM"]);
  });

  test("is listed again immediately when its watch breaks during the proof: it would be resumed after a pause", async () => {
    const watch = await watching();
    await request();
    await rig.reply(versionIs("12"));
    watch.fail(new Error("connection reset"));
    await setImmediate();
    expect(further()).toEqual(["VERSION", "STREAM"]);
    await rig.reply(new Response(end(12)));
    await rig.clock.advance(10_000);
    expect(further()).toEqual(["VERSION", "STREAM", "WATCH 12"]);
  });

  test("is listed again immediately during a pause after a failure", async () => {
    const watch = await watching();
    watch.fail(new Error("connection reset"));
    await setImmediate();
    await request();
    expect(further()).toEqual(["STREAM"]);
  });

  test("is listed again in place of a list that was sent before", async () => {
    await watching();
    await request();
    await rig.clock.advance(240);
    expect(further()).toEqual(["VERSION", "STREAM"]);
    await rig.clock.advance(1);
    await request();
    expect(further()).toEqual(["VERSION", "STREAM", "STREAM"]);
  });

  test("is listed again immediately when its watch has brought nothing for a second", async () => {
    await watching();
    await rig.clock.advance(901);
    await request();
    expect(further()).toEqual(["STREAM"]);
  });

  test("has at least as many objects as the option says; a smaller one is listed immediately", async () => {
    await watching({ catchUpFrom: 3 });
    await request();
    expect(further()).toEqual(["STREAM"]);
  });

  test("has at least a thousand objects by default", async () => {
    for (const [count, read] of [
      [999, "STREAM"],
      [1000, "VERSION"],
    ] as const) {
      await using other = new ReflectorRig();
      const objects = Array.from({ length: count }, (_, index) => event("ADDED", `w${index}`, 5));
      await other.reply(new Response(objects.join("") + end(7)));
      // A long list takes several turns of the event loop.
      await eventually("the watch that follows the list", () => other.sentSoFar().length === 2);
      const watch = body(other.signal());
      await other.reply(watch.response);
      await bring(watch, event("MODIFIED", "w0", 8));
      await other.clock.advance(1);
      other.reflector.relist(other.clock.monotonic());
      await setImmediate();
      expect(other.sentSoFar().slice(2)).toEqual([read]);
    }
  });
});

test("a reflector that ends while its store is being proven fresh cancels the read, and begins no other", async () => {
  await watching();
  await request();
  const read = rig.signal();
  await rig.end();
  expect(read?.aborted).toBe(true);
  await request();
  expect(further()).toEqual(["VERSION"]);
  expect(rig.clock.sleepers).toBe(0);
});
