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
  delivery.bring(["a", "b", "c"].map((name) => ({ type: "added", object: { metadata: { name } } })));
  await over.promise;
  expect(waiting).toEqual([2, 1, 0]);
});
