import { expect, test } from "bun:test";

import { VirtualNetwork } from "./network.ts";
import { VirtualRuntime } from "./virtual-runtime.ts";

const count = 100;

test("a process keeps nothing of the requests that were answered or failed", async () => {
  const runtime = new VirtualRuntime(1);
  const network = new VirtualNetwork(runtime);
  network.serve(80, () => new Response("hello"));
  const send = (port: number): WeakRef<AbortSignal> => {
    const { signal } = new AbortController();
    void network.fetch(`http://host:${port}/`, { signal }).then((reply) => reply.text(), String);
    return new WeakRef(signal);
  };
  const sent = [80, 81].map((port) => Array.from({ length: count }, () => send(port)));
  await runtime.timeline.runUntil(1_000, () => true);
  Bun.gc(true);
  await runtime.timeline.runUntil(2_000, () => true);
  Bun.gc(true);
  for (const signals of sent)
    expect(signals.filter((signal) => signal.deref() !== undefined).length).toBeLessThan(count / 4);
});
