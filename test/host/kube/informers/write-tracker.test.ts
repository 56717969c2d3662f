import { afterEach, beforeEach, describe, expect, test } from "bun:test";

import type { KubeClient } from "cloud-controller-host/sdk";
import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import { createClient } from "../../../../host/kube/connection/client.ts";
import { createTransport } from "../../../../host/kube/connection/transport.ts";
import { InformerPool } from "../../../../host/kube/informers/pool.ts";
import { WriteTracker } from "../../../../host/kube/informers/write-tracker.ts";
import { capturedLog } from "../captured-log.ts";
import { StubApi, type Widget, widgets } from "../stub-api.ts";

const ending: AsyncDisposableStack[] = [];
let api: StubApi;
beforeEach(async () => {
  api = await StubApi.start();
});
afterEach(async () => {
  await Promise.all(ending.splice(0).map((stack) => stack.disposeAsync()));
  await api.stop();
});

const a: Widget = { metadata: { name: "a", namespace: "ns" } };

/** A pool that watches one object, at version 101, and a client whose writes get the version that is given. */
async function setUp(writtenVersion: string) {
  api.put(widgets, a);
  const stack = new AsyncDisposableStack();
  ending.push(stack);
  const clock = manualClock();
  const transport = createTransport(api.access(), { userAgent: "test", qps: -1 });
  const pool = new InformerPool({ transport, clock, log: capturedLog(4).log });
  stack.defer(() => pool.close());
  const share = pool.share();
  share.of(widgets);
  await share.synced();
  await eventually("it watches", () => api.watches === 1);
  const metadata = { ...a.metadata, resourceVersion: writtenVersion };
  const body = { apiVersion: "test.io/v1", kind: "Widget", metadata };
  api.intercept = ({ method }) => (method === "GET" ? undefined : { status: 200, body });
  const client = pool.track(createClient(transport));
  const waiting = (): { readonly shown: boolean; readonly over: Promise<void> } => {
    const wait = { shown: false, over: Promise.resolve() };
    wait.over = pool.showWrites().then(() => void (wait.shown = true));
    return wait;
  };
  return { clock, client, waiting };
}

const writes: Readonly<Record<string, (client: KubeClient) => Promise<unknown>>> = {
  create: (client) => client.create(widgets, a),
  replace: (client) => client.replace(widgets, a),
  patch: (client) => client.patch(widgets, { name: "a", namespace: "ns" }, "merge", {}),
};

describe("what has been written", () => {
  for (const [verb, write] of Object.entries(writes))
    test(`what has been written by ${verb} is waited for until the watch has come to it`, async () => {
      const { client, waiting } = await setUp("103");
      await write(client);
      const wait = waiting();
      api.put(widgets, a);
      await Bun.sleep(50);
      expect(wait.shown).toBeFalse();
      api.put(widgets, a);
      await wait.over;
    });

  test("is waited for up to the newest version when replies come out of order", async () => {
    const { client, waiting } = await setUp("105");
    await writes["patch"]?.(client);
    const older = { apiVersion: "test.io/v1", kind: "Widget", metadata: { ...a.metadata, resourceVersion: "103" } };
    api.intercept = ({ method }) => (method === "GET" ? undefined : { status: 200, body: older });
    await writes["patch"]?.(client);
    const wait = waiting();
    for (let version = 102; version <= 104; version++) api.put(widgets, a);
    await Bun.sleep(50);
    expect(wait.shown).toBeFalse();
    api.put(widgets, a);
    await wait.over;
  });

  test("counts as observed by a watch whose version cannot be compared", async () => {
    const { client } = await setUp("105");
    const tracker = new WriteTracker();
    await writes["patch"]?.(tracker.track(client));
    expect(["104", "105", "opaque"].map((version) => tracker.isObserved(widgets, version))).toEqual([
      false,
      true,
      true,
    ]);
  });

  test("what has been written and is shown already is not waited for, nor is anything where nothing was written", async () => {
    const { client, waiting } = await setUp("101");
    await waiting().over;
    await writes["patch"]?.(client);
    await waiting().over;
  });

  test("is shown by a bookmark too, where the watch selects nothing of it", async () => {
    const { client, waiting } = await setUp("102");
    await writes["patch"]?.(client);
    const wait = waiting();
    api.bookmark(widgets);
    await wait.over;
  });

  test("is waited for a second and no longer: a watch may be broken", async () => {
    const { client, waiting, clock } = await setUp("900");
    await writes["patch"]?.(client);
    const wait = waiting();
    await clock.advance(900);
    expect(wait.shown).toBeFalse();
    await clock.advance(200);
    await wait.over;
  });

  test("what has been written under versions that are not numbers cannot be compared, and is not waited for", async () => {
    const { client, waiting } = await setUp("opaque-version");
    await writes["patch"]?.(client);
    await waiting().over;
  });
});
