import { expect, test } from "bun:test";

import { VirtualNetwork } from "./network.ts";
import { VirtualRuntime } from "./virtual-runtime.ts";

const count = 100;

test("a process keeps nothing of the requests that were answered or failed", async () => {
  const runtime = new VirtualRuntime(1);
  const network = new VirtualNetwork(runtime);
  network.serve(8080, () => new Response("hello"));
  const send = (port: number): WeakRef<AbortSignal> => {
    const { signal } = new AbortController();
    void network.fetch(`http://host:${port}/`, { signal }).then((reply) => reply.text(), String);
    return new WeakRef(signal);
  };
  const sent = [8080, 8081].map((port) => Array.from({ length: count }, () => send(port)));
  await runtime.timeline.runUntil(1_000, () => true);
  Bun.gc(true);
  await runtime.timeline.runUntil(2_000, () => true);
  Bun.gc(true);
  for (const signals of sent)
    expect(signals.filter((signal) => signal.deref() !== undefined).length).toBeLessThan(count / 4);
});

test("a request that is canceled on its way is carried out as late as is decided, or never", async () => {
  const runtime = new VirtualRuntime(1);
  const network = new VirtualNetwork(runtime);
  const arrived: [path: string, at: number][] = [];
  network.serve(8080, ({ url }) => {
    arrived.push([new URL(url).pathname, runtime.timeline.now]);
    return new Response();
  });
  network.observer = {
    fate: () => ({ delayMs: 10, replyDelayMs: 10 }),
    sent: () => undefined,
    canceled: ({ path }) => (path === "/late" ? 500 : undefined),
    arrived: () => undefined,
    done: () => undefined,
    held: () => 0,
    passed: (_exchange, part) => ({ parts: [part] }),
  };
  const canceled = new AbortController();
  const send = (path: string, signal?: AbortSignal) =>
    network.fetch(`http://host:8080${path}`, { ...(signal && { signal }) }).then(String, String);
  const replies = [send("/late", canceled.signal), send("/never", canceled.signal), send("/other")];
  runtime.timeline.after(5, () => canceled.abort("canceled"));
  await runtime.timeline.runUntil(1_000, () => true);
  expect(arrived).toEqual([
    ["/other", 10],
    ["/late", 510],
  ]);
  expect((await Promise.all(replies)).slice(0, 2)).toEqual(["canceled", "canceled"]);
});
