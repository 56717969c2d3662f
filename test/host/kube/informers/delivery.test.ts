import { expect, test } from "bun:test";

import { DeliveryLoop, HandlerDelivery } from "../../../../host/kube/informers/delivery.ts";
import { capturedLog } from "../captured-log.ts";
import type { Widget } from "../stub-api.ts";

test("a delivery reports how long its handler took", async () => {
  const took = Promise.withResolvers<number>();
  const delivery = new HandlerDelivery<Widget>({
    loop: new DeliveryLoop(),
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
    loop: new DeliveryLoop(),
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
    loop: new DeliveryLoop(),
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

/** A delivery of as many changes, each of which keeps its handler busy for so long. */
function busyDelivery(
  loop: DeliveryLoop,
  changes: number,
  ms: number,
  added: () => void,
): { readonly over: Promise<void> } {
  const over = Promise.withResolvers<void>();
  const delivery: HandlerDelivery<Widget> = new HandlerDelivery<Widget>({
    loop,
    handler: {
      added() {
        for (const until = performance.now() + ms; performance.now() < until;);
        added();
      },
    },
    what: "widgets",
    log: capturedLog().log,
    delivered: () => undefined,
    turnEnds: () => void (delivery.pending === 0 && over.resolve()),
  });
  delivery.bring(Array.from({ length: changes }, () => ({ type: "added", object: { metadata: { name: "a" } } })));
  return { over: over.promise };
}

test.each([
  { handlers: 6, changes: 50, ms: 1, withBudgetsOfTheirOwn: "ten turns" },
  { handlers: 25, changes: 1, ms: 6, withBudgetsOfTheirOwn: "one turn" },
])(
  "$handlers handlers that work for $changes × $ms ms share the turns of the event loop, and do not take $withBudgetsOfTheirOwn",
  async ({ handlers, changes, ms }) => {
    let [turns, told, isOver] = [0, 0, false];
    const count = (): void => {
      turns += 1;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    const loop = new DeliveryLoop();
    const deliveries = Array.from({ length: handlers }, () => busyDelivery(loop, changes, ms, () => void (told += 1)));
    await Promise.all(deliveries.map(({ over }) => over));
    isOver = true;
    expect(told).toBe(handlers * changes);
    expect(turns).toBeGreaterThan(20);
  },
);

test("a handler with many changes and one with few take turns", async () => {
  const loop = new DeliveryLoop();
  let told = 0;
  const many = busyDelivery(loop, 100, 1, () => void (told += 1));
  await busyDelivery(loop, 1, 1, () => undefined).over;
  expect(told).toBeLessThan(50);
  await many.over;
  expect(told).toBe(100);
});
