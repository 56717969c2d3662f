import { expect, test } from "bun:test";
import { setImmediate } from "node:timers/promises";

import { ApiError } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import type { ApiRequest, Transport } from "../../../../host/kube/connection/transport.ts";
import { DeliveryLoop } from "../../../../host/kube/informers/delivery.ts";
import { LogOnce } from "../../../../host/kube/informers/log-once.ts";
import { SharedInformer } from "../../../../host/kube/informers/shared-informer.ts";
import { capturedLog } from "../captured-log.ts";
import { type Widget, widgets } from "../stub-api.ts";

const widget = (name: string, version: number) => ({
  apiVersion: "test.io/v1",
  kind: "Widget",
  metadata: { name, namespace: "ns", resourceVersion: String(version) },
});
const listed = { apiVersion: "test.io/v1", kind: "WidgetList", metadata: { resourceVersion: "1" }, items: [] };

/** An informer whose API server sends what a test lets it send, and ends a watch when a test lets it end. */
function setUp() {
  const { log } = capturedLog();
  const clock = manualClock();
  const watching = Promise.withResolvers<ReadableStreamDefaultController<Uint8Array>>();
  const ends = Promise.withResolvers<void>();
  const send = async ({ query, signal }: ApiRequest): Promise<Response> => {
    if (query?.["watch"] === undefined) return Response.json(listed);
    if (query["sendInitialEvents"] !== undefined) throw new ApiError(422, "Invalid", "sendInitialEvents is forbidden");
    const { promise, reject } = Promise.withResolvers<Response>();
    signal?.addEventListener("abort", () => void ends.promise.then(() => reject(new Error("ended"))), { once: true });
    const body = new ReadableStream<Uint8Array>({ start: (controller) => watching.resolve(controller) });
    return query["resourceVersion"] === "1" ? new Response(body) : promise;
  };
  const transport: Transport = { url: "https://stub", userAgent: "test", close: () => undefined, send };
  const queued: number[] = [];
  const informer = new SharedInformer<Widget>({
    loop: new DeliveryLoop(),
    kind: widgets,
    selection: {},
    transport,
    clock,
    log,
    metrics: { queued: (items) => queued.push(items), processed: () => undefined, stored: () => undefined },
    unreachable: new LogOnce(log, "it answers"),
  });
  const change = async (name: string, version: number): Promise<void> => {
    const line = `${JSON.stringify({ type: "ADDED", object: widget(name, version) })}\n`;
    (await watching.promise).enqueue(new TextEncoder().encode(line));
    while (informer.version !== String(version)) await setImmediate();
  };
  const endWatch = async (): Promise<void> => (await watching.promise).close();
  return { informer, clock, queued, change, endWatch, end: () => ends.resolve() };
}

test("an informer calls back once when a condition holds, and never after that was canceled", async () => {
  const { informer, change } = setUp();
  let [met, canceled] = [0, 0];
  informer.when(
    () => informer.version !== "",
    () => (met += 1),
  );
  const cancel = informer.when(
    () => informer.version === "3",
    () => (canceled += 1),
  );
  await change("a", 2);
  cancel();
  await change("b", 3);
  expect([met, canceled]).toEqual([1, 0]);
});

test("an informer counts a change as queued from the moment that it is stored", async () => {
  const { informer, change, queued } = setUp();
  // Longer than a handler may hold the event loop, which is left to others only while more is queued.
  informer.handle({ added: () => Bun.sleepSync(20) }, 0);
  await change("a", 2);
  await setImmediate();
  await setImmediate();
  expect(queued).toEqual([1, 0]);
});

test("a handler is brought all objects again at its period, which is at least a second, until it is removed", async () => {
  const { informer, clock, change } = setUp();
  await change("a", 2);
  let brought = 0;
  const registration = informer.handle({ updated: () => (brought += 1) }, 1);
  const after = async (ms: number): Promise<number> => {
    await clock.advance(ms);
    return brought;
  };
  expect([await after(999), await after(1), await after(1_000)]).toEqual([0, 1, 2]);
  const sleepers = clock.sleepers;
  registration.remove();
  await setImmediate();
  expect(clock.sleepers).toBe(sleepers - 1);
  expect(await after(5_000)).toBe(2);
});

test("an informer that is closed has ended only when its last request has", async () => {
  const { informer, change, endWatch, end } = setUp();
  await change("a", 2);
  await endWatch();
  await setImmediate();
  let closed = false;
  const closing = informer.close().then(() => (closed = true));
  await setImmediate();
  expect(closed).toBeFalse();
  end();
  await closing;
});
