import { afterEach, describe, expect, jest, test } from "bun:test";
import { setImmediate } from "node:timers/promises";

import { type ManualClock, manualClock } from "cloud-controller-host/sdk/testing";

import type { ApiRequest, Transport } from "../../../../host/kube/connection/transport.ts";
import { LogOnce } from "../../../../host/kube/informers/log-once.ts";
import { Reflector } from "../../../../host/kube/informers/reflector.ts";
import { ObjectStore } from "../../../../host/kube/informers/store.ts";
import { capturedLog } from "../captured-log.ts";
import { type Widget, widgets } from "../stub-api.ts";

interface Sent {
  readonly what: string;
  readonly signal: AbortSignal | undefined;
  readonly reply: (response: Response) => void;
}

/** A reflector whose requests are answered by the test, at moments that no network can be made to hit. */
function setUp() {
  const sent: Sent[] = [];
  const what = ({ query = {} }: ApiRequest): string =>
    query["sendInitialEvents"] ? "STREAM" : query["watch"] ? `WATCH ${query["resourceVersion"]}` : "LIST";
  const transport: Transport = {
    url: "https://test",
    userAgent: "test",
    close: () => undefined,
    send: (request) =>
      new Promise((resolve, reject) => {
        sent.push({ what: what(request), signal: request.signal, reply: resolve });
        request.signal?.addEventListener("abort", () => reject(request.signal?.reason), { once: true });
      }),
  };
  const clock: ManualClock = manualClock();
  const { log } = capturedLog();
  const store = new ObjectStore<Widget>();
  const reflector = new Reflector<Widget>({
    transport,
    clock,
    log,
    kind: widgets,
    selection: {},
    store,
    unreachable: new LogOnce(log, "over"),
    changed: () => undefined,
    synced: () => undefined,
  });
  const stop = new AbortController();
  const running = reflector.run(stop.signal);
  ending.push(async () => {
    stop.abort(new Error("the test is over"));
    await running;
  });
  const sentSoFar = (): readonly string[] => sent.map((each) => each.what);
  const reply = async (response: Response): Promise<void> => {
    sent.at(-1)?.reply(response);
    await setImmediate();
  };
  return { reflector, store, clock, sentSoFar, reply, signal: () => sent.at(-1)?.signal };
}

const ending: (() => Promise<void>)[] = [];
afterEach(async () => {
  jest.useRealTimers();
  for (const end of ending.splice(0)) await end();
});

const event = (type: string, name: string, version: number, annotations = {}): string => {
  const metadata = { name, namespace: "ns", resourceVersion: String(version), annotations };
  return `${JSON.stringify({ type, object: { kind: "Widget", metadata } })}\n`;
};
const end = (version: number): string => event("BOOKMARK", "", version, { "k8s.io/initial-events-end": "true" });

/** A body that the test writes piece by piece; without a signal its bytes are on the way already and no abort ends it. */
function body(signal?: AbortSignal) {
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  const stream = new ReadableStream<Uint8Array>({ start: (made) => void (controller = made) });
  signal?.addEventListener("abort", () => controller?.error(signal.reason), { once: true });
  return {
    response: new Response(stream),
    write: (text: string): void => controller?.enqueue(new TextEncoder().encode(text)),
  };
}

describe("a reflector that is to list again", () => {
  test("drops what its watch brings at that moment", async () => {
    const { reflector, store, clock, sentSoFar, reply } = setUp();
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
    const { reflector, clock, sentSoFar, reply } = setUp();
    await clock.advance(1000);
    const since = clock.monotonic();
    await clock.advance(1000);
    await reply(new Response(end(7)));
    expect(reflector.listedAt).toBe(0);
    reflector.relist(since);
    await setImmediate();
    expect(sentSoFar()).toEqual(["STREAM", "WATCH 7", "STREAM"]);
    await reply(new Response(end(8)));
    expect(reflector.listedAt).toBe(2000);
    reflector.relist(since);
    await setImmediate();
    expect(sentSoFar()).toEqual(["STREAM", "WATCH 7", "STREAM", "WATCH 8"]);
  });

  test("lets a list continue that was sent after the time in question", async () => {
    const { reflector, clock, sentSoFar, reply } = setUp();
    await clock.advance(1000);
    reflector.relist(0);
    await setImmediate();
    expect(sentSoFar()).toEqual(["STREAM"]);
    await reply(new Response(end(7)));
    expect(reflector.listedAt).toBe(0);
  });
});

describe("a streaming list", () => {
  const microtasks = async (): Promise<void> => {
    for (let turn = 0; turn < 50; turn++) await Promise.resolve();
  };

  test("may take minutes while objects arrive", async () => {
    jest.useFakeTimers();
    const { store, sentSoFar, reply, signal } = setUp();
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
    const { sentSoFar, reply, signal, clock } = setUp();
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
