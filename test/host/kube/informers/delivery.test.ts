import { expect, test } from "bun:test";

import { HandlerDelivery } from "../../../../host/kube/informers/delivery.ts";
import { capturedLog } from "../captured-log.ts";
import type { Widget } from "../stub-api.ts";

test("a delivery reports how long its handler took", async () => {
  const took = Promise.withResolvers<number>();
  const delivery = new HandlerDelivery<Widget>({
    handler: { added: () => Bun.sleepSync(20) },
    what: "widgets",
    log: capturedLog().log,
    delivered: took.resolve,
    turnEnds: () => undefined,
  });
  const began = performance.now();
  delivery.bring([{ type: "added", object: { metadata: { name: "a" } } }]);
  expect(await took.promise).toBeWithin(20, performance.now() - began + 1);
});

test("a delivery reports at the end of each turn how many changes wait", async () => {
  const waiting: number[] = [];
  const over = Promise.withResolvers<void>();
  const delivery: HandlerDelivery<Widget> = new HandlerDelivery<Widget>({
    handler: { added: () => Bun.sleepSync(6) },
    what: "widgets",
    log: capturedLog().log,
    delivered: () => undefined,
    turnEnds: () => {
      waiting.push(delivery.pending);
      if (delivery.pending === 0) over.resolve();
    },
  });
  // Also those that come while it is at work.
  for (const name of ["a", "b", "c"]) delivery.bring([{ type: "added", object: { metadata: { name } } }]);
  await over.promise;
  await Bun.sleep(20);
  expect(waiting).toEqual([2, 1, 0]);
});

test("a handler that always throws is logged five times, and then once per thousand changes, which all reach it", async () => {
  const { log, lines } = capturedLog();
  const over = Promise.withResolvers<void>();
  let calls = 0;
  const delivery = new HandlerDelivery<Widget>({
    handler: {
      added() {
        calls += 1;
        throw new Error("it fails");
      },
    },
    what: "widgets",
    log,
    delivered: () => undefined,
    turnEnds: () => void (delivery.pending === 0 && over.resolve()),
  });
  const object = { metadata: { name: "a", namespace: "ns" } };
  delivery.bring(Array.from({ length: 2_500 }, () => ({ type: "added", object })));
  await over.promise;
  expect(calls).toBe(2_500);
  expect(lines().map(({ errors }) => errors)).toEqual([1, 2, 3, 4, 5, 1_000, 2_000]);
});
