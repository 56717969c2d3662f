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
  });
  const began = performance.now();
  delivery.bring([{ type: "added", object: { metadata: { name: "a" } } }]);
  expect(await took.promise).toBeWithin(20, performance.now() - began + 1);
});
