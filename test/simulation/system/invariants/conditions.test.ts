import { expect, test } from "bun:test";

import { Conditions } from "./conditions.ts";

const minuteMs = 60_000;
const status = "/api/v1/namespaces/default/services/web/status";
const condition = JSON.stringify({ status: { conditions: [{ type: "LoadBalancerReady", status: "True" }] } });

function watch() {
  const world = { now: 0 };
  return { world, conditions: new Conditions(world) };
}

const write = (path = status, body = condition, method = "PATCH") => ({ method, path, body });

test("a write of a condition that has failed is due until one has succeeded, and for six minutes at most", () => {
  const { world, conditions } = watch();
  expect(conditions.areDue).toBe(false);
  conditions.done(write(`${status}?fieldManager=x`), true);
  world.now = 5 * minuteMs;
  expect(conditions.areDue).toBe(true);
  conditions.done(write(), true);
  world.now = 11 * minuteMs - 1;
  expect(conditions.areDue).toBe(true);
  world.now = 11 * minuteMs;
  expect(conditions.areDue).toBe(false);
  conditions.done(write(), true);
  conditions.done(write(), false);
  expect(conditions.areDue).toBe(false);
});

test("a write of a condition whose reply is lost is due, although the server has carried it out", () => {
  const { conditions } = watch();
  const request = write();
  conditions.lost(request);
  conditions.done(request, false);
  expect(conditions.areDue).toBe(true);
  conditions.done(write(), false);
  expect(conditions.areDue).toBe(false);
});

test("the condition of one Service is due whatever becomes of that of another", () => {
  const { conditions } = watch();
  conditions.done(write(), true);
  conditions.done(write("/api/v1/namespaces/default/services/other/status"), false);
  expect(conditions.areDue).toBe(true);
});

test.each([
  ["of an address", write(status, JSON.stringify({ status: { loadBalancer: {} } }))],
  ["of a Service itself", write("/api/v1/namespaces/default/services/web")],
  ["of a node", write("/api/v1/nodes/web/status")],
  ["by another method", write(status, condition, "GET")],
])("what fails besides a write of a condition is not due: %s", (_what, request) => {
  const { conditions } = watch();
  conditions.lost(request);
  conditions.done(request, true);
  expect(conditions.areDue).toBe(false);
});
