import { expect, test } from "bun:test";

import type { KubeClient, KubeEvent, KubeObject } from "cloud-controller-host/sdk";
import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import { EventSink } from "../../../../host/kube/events/sink.ts";
import { capturedLog } from "../captured-log.ts";

const eventAbout = (name: string): KubeEvent => ({
  apiVersion: "v1",
  kind: "Event",
  metadata: { name, namespace: "default" },
  involvedObject: { kind: "Node", name },
});
const unused = (): never => {
  throw new Error("not used by the sink");
};

/** A sink whose requests end when the test lets them. */
function heldSink() {
  const pending: (() => void)[] = [];
  const client: KubeClient = {
    create: <T extends KubeObject>(_kind: unknown, object: T) =>
      new Promise<T>((resolve) => pending.push(() => resolve(object))),
    get: unused,
    list: unused,
    replace: unused,
    patch: unused,
    delete: unused,
    deleteCollection: unused,
    evict: unused,
  };
  const sink = new EventSink({
    client,
    clock: manualClock(),
    log: capturedLog(0).log,
    correlator: { correlate: (event) => ({ event, patch: undefined }) },
    dropped: () => undefined,
  });
  return { sink, pending };
}

test("sends a burst of events with less concurrency than a few, so that they stay behind other writes, and none before what it is about", async () => {
  const { sink, pending } = heldSink();
  for (let index = 0; index < 5; index++) expect(sink.offer(eventAbout(`n${index}`))).toBe(true);
  expect(pending).toEqual([]);
  const finish = async (count: number): Promise<void> => {
    for (const resolve of pending.splice(0, count)) resolve();
    await Bun.sleep(0);
  };
  await finish(0);
  expect(pending).toHaveLength(5);
  for (let index = 5; index < 200; index++) expect(sink.offer(eventAbout(`n${index}`))).toBe(true);
  await finish(5);
  expect(pending).toHaveLength(2);
  let sent = 5;
  while (sent < 149) {
    sent += pending.length;
    expect(pending.length).toBeLessThanOrEqual(2);
    await finish(pending.length);
  }
  await finish(2);
  await eventually("the rest is sent with full concurrency", () => pending.length === 8);
  while (pending.length > 0) await finish(pending.length);
  await sink.close();
});

test("writes no queued event once it is closed, and waits for the requests in flight", async () => {
  const { sink, pending } = heldSink();
  for (let index = 0; index < 20; index++) sink.offer(eventAbout(`n${index}`));
  await eventually("some are in flight", () => pending.length === 8);
  let isClosed = false;
  const closed = sink.close().then(() => (isClosed = true));
  await Bun.sleep(0);
  expect(isClosed).toBe(false);
  for (const resolve of pending.splice(0)) resolve();
  await closed;
  expect(pending).toEqual([]);
});
