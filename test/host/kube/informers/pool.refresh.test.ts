import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { getEventListeners } from "node:events";

import { kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import type { GenerationInformers } from "../../../../host/kube/informers/share.ts";
import { rejection } from "../../../kit/rejection.ts";
import { status, widgets } from "../stub-api.ts";
import { PoolRig, widget } from "./pool-rig.ts";

let rig: PoolRig;
beforeEach(async () => {
  rig = await PoolRig.start();
  rig.api.put(widgets, widget("a", 1));
});
afterEach(() => rig[Symbol.asyncDispose]());

const never = new AbortController().signal;

/** Refreshes what may be older than now, or than `since`, and resolves to the time that it took. */
async function refresh(share: GenerationInformers, since?: number): Promise<number> {
  await rig.clock.advance(1);
  const began = rig.clock.monotonic();
  let done = false;
  const refreshing = share.refreshed(since ?? began, never).then(() => (done = true));
  await rig.soon("the caches are refreshed", () => done, 200);
  await refreshing;
  return rig.clock.monotonic() - began;
}

const warnings = (): number => rig.lines().filter(({ level }) => level === "warn").length;

describe("a refresh", () => {
  test("lists at once where a reflector pauses after failures, and tries again soon where that fails", async () => {
    const { share, store } = await rig.watch();
    await rig.api.stop();
    const failures = (): number => rig.lines().filter(({ msg }) => msg.startsWith("waiting for the API server")).length;
    await rig.soon("pauses have become long", () => failures() >= 6, 5000);
    const before = failures();
    await rig.soon("a pause has just begun", () => failures() > before);
    const refreshing = refresh(share);
    await eventually("the list has failed", () => failures() > before + 1);
    await rig.api.listen();
    rig.api.put(widgets, widget("a", 2));
    expect(await refreshing).toBeLessThan(5000);
    expect(store.get("ns/a")?.spec?.size).toBe(2);
  });

  test("reads again in place of a list that was sent before it and hangs", async () => {
    rig.api.streamingLists = "supported";
    const { share, store, informer } = rig.begin();
    rig.api.intercept = () => "hang";
    await eventually("the list is sent", () => rig.api.reads.length === 1);
    rig.api.intercept = undefined;
    await refresh(share);
    await eventually("it has synced", () => informer.hasSynced());
    expect(store.get("ns/a")?.spec?.size).toBe(1);
    await rig.watching();
    expect(rig.api.reads).toEqual(["STREAM", "STREAM", "WATCH 101"]);
  });

  test("lists again although the watch has delivered a change since: its bytes may have waited in a buffer", async () => {
    const { share, store } = await rig.watch();
    await rig.clock.advance(1);
    const since = rig.clock.monotonic();
    rig.unseen(widget("b"));
    await rig.clock.advance(1);
    rig.api.put(widgets, widget("a", 2));
    await eventually("the change arrives", () => store.get("ns/a")?.spec?.size === 2);
    await refresh(share, since);
    expect(store.size).toBe(2);
  });

  test("keeps nothing of a watch that ends for it, and continues from the list", async () => {
    const { share, store } = await rig.watch();
    await rig.clock.advance(1);
    const refreshing = share.refreshed(rig.clock.monotonic(), never);
    for (let size = 2; size < 40; size++) rig.api.put(widgets, widget("a", size));
    rig.unseen(widget("b"));
    await refreshing;
    await rig.watching();
    rig.api.put(widgets, widget("c"));
    await eventually("the change arrives", () => store.get("ns/c") !== undefined);
    expect(store.size).toBe(3);
    expect(rig.lists).toBe(2);
  });

  test("sends one list per kind, however often it is requested for the same time, and is not a failure", async () => {
    const { share } = await rig.watch();
    const other = rig.pool.share();
    other.of(widgets);
    await rig.clock.advance(1);
    const since = rig.clock.monotonic();
    await Promise.all([share.refreshed(since, never), other.refreshed(since, never), share.refreshed(since, never)]);
    await rig.clock.advance(60_000);
    await share.refreshed(since, never);
    expect(rig.lists).toBe(2);
    expect(warnings()).toBe(0);
  });

  test("reads nothing that other shares use alone", async () => {
    const { share } = await rig.watch();
    const other = rig.pool.share();
    other.of(kinds.Lease);
    await other.synced();
    await refresh(share);
    const leases = rig.api.requests.filter(({ path, query }) => path.endsWith("leases") && !query.has("watch"));
    expect(leases).toHaveLength(1);
  });

  test("does not wait for a kind that has never been readable, and waits for one that was", async () => {
    const { share } = await rig.watch();
    rig.api.intercept = ({ path }) => (path.endsWith("leases") ? status(403, "Forbidden", "no") : undefined);
    share.of(kinds.Lease);
    await eventually("it is refused", () => warnings() === 1);
    await refresh(share);
    expect(share.stale(rig.clock.monotonic() + 1)).toEqual(["widgets.test.io"]);

    rig.api.intercept = () => status(403, "Forbidden", "no");
    const waiting = new AbortController();
    const refreshing = rejection(share.refreshed(rig.clock.monotonic() + 1, waiting.signal));
    await rig.clock.advance(60_000);
    expect(share.stale(rig.clock.monotonic())).toEqual(["widgets.test.io"]);
    waiting.abort(new Error("too long"));
    expect(await refreshing).toBe("too long");
    expect(getEventListeners(waiting.signal, "abort")).toHaveLength(0);
  });

  test("a refresh of a share that was released waits for nothing", async () => {
    const { share } = await rig.watch();
    share.release();
    await share.refreshed(Number.POSITIVE_INFINITY, never);
    expect(rig.lists).toBe(1);
  });
});

describe("a refresh of a large store", () => {
  beforeEach(async () => {
    await rig[Symbol.asyncDispose]();
    rig = await PoolRig.start(4, 1);
    rig.api.put(widgets, widget("a", 1));
  });

  /** Watches, until the watch has brought something. */
  async function busy() {
    const watched = await rig.watch();
    rig.api.put(widgets, widget("a", 2));
    await eventually("the change arrives", () => watched.store.get("ns/a")?.spec?.size === 2);
    await rig.clock.advance(1);
    return watched;
  }

  test("sends no list: it ends with the next change of the watch", async () => {
    const { share, store } = await busy();
    rig.api.put(kinds.Lease, { metadata: { name: "other", namespace: "ns" } });
    const since = rig.clock.monotonic();
    const refreshing = share.refreshed(since, never);
    await eventually("the version is read", () => rig.api.reads.includes("VERSION"));
    expect(share.stale(since)).toEqual(["widgets.test.io"]);
    rig.api.put(widgets, widget("b"));
    await refreshing;
    expect([store.size, share.stale(since)]).toEqual([2, []]);
    expect(rig.api.reads).toEqual(["LIST", "WATCH 101", "VERSION"]);
    expect(rig.api.watches).toBe(1);
  });

  test("lists again when the watch lacks a change and brings nothing further", async () => {
    const { share, store } = await busy();
    rig.unseen(widget("b"));
    const refreshing = share.refreshed(rig.clock.monotonic(), never);
    await eventually("the version is read", () => rig.api.reads.includes("VERSION"));
    await rig.clock.advance(250);
    await refreshing;
    await rig.watching();
    expect(store.size).toBe(2);
    expect(rig.api.reads).toEqual(["LIST", "WATCH 101", "VERSION", "LIST", "WATCH 103"]);
    expect(warnings()).toBe(0);
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
