import { expect, test } from "bun:test";

import { labels, type Node } from "cloud-controller-host/sdk";

import { Returns } from "./returns.ts";

const minuteMs = 60_000;

function scene() {
  const clock = { now: 0 };
  const returns = new Returns(() => clock.now);
  const node = (type: string, uid: string, providerID?: string): void =>
    returns.nodeChanged(type, {
      metadata: { name: "node1", uid },
      spec: providerID === undefined ? {} : { providerID },
    });
  return { clock, returns, node };
}

test("a node that comes back has settled three minutes after it has its provider ID, however long that takes", () => {
  const { clock, returns, node } = scene();
  node("ADDED", "first");
  expect(returns.hasSettled("first")).toBe(true);
  node("DELETED", "first");
  node("ADDED", "second");
  clock.now = 10 * minuteMs;
  expect(returns.hasSettled("second")).toBe(false);
  node("MODIFIED", "second");
  node("MODIFIED", "second", "azure:///1");
  clock.now = 12 * minuteMs;
  node("MODIFIED", "second", "azure:///1");
  expect([returns.hasSettled("second"), returns.settled]).toEqual([false, 0]);
  clock.now = 13 * minuteMs + 1;
  expect([returns.hasSettled("second"), returns.settled]).toEqual([true, 1]);
});

test("a node that is no longer excluded from load balancers has settled three minutes later", () => {
  const { clock, returns } = scene();
  const node = (...names: readonly string[]): Node => ({
    metadata: { name: "node1", uid: "first", labels: Object.fromEntries(names.map((name) => [name, ""])) },
    spec: { providerID: "azure:///1" },
  });
  returns.nodeChanged("MODIFIED", node(labels.excludeFromLoadBalancers), node());
  returns.nodeChanged(
    "MODIFIED",
    node("other", labels.excludeFromLoadBalancers),
    node(labels.excludeFromLoadBalancers),
  );
  expect([returns.hasSettled("first"), returns.lastOf("first")]).toEqual([true, undefined]);
  clock.now = minuteMs;
  returns.nodeChanged("MODIFIED", node(), node(labels.excludeFromLoadBalancers));
  expect([returns.hasSettled("first"), returns.lastOf("first")]).toEqual([false, minuteMs]);
  clock.now = 4 * minuteMs + 1;
  expect(returns.hasSettled("first")).toBe(true);
});

test("a Service that wants what it wanted within three minutes has settled three minutes later, and any other at once", () => {
  const { clock, returns } = scene();
  returns.wishChanged("web", "public", "internal");
  returns.wishChanged("other", "public", "internal");
  expect(returns.hasSettled("web")).toBe(true);
  clock.now = 2 * minuteMs;
  returns.wishChanged("web", "internal", "public");
  expect(returns.hasSettled("web")).toBe(false);
  clock.now = 3 * minuteMs;
  returns.wishChanged("other", "internal", "public");
  expect(returns.hasSettled("other")).toBe(true);
  clock.now = 5 * minuteMs + 1;
  expect(returns.hasSettled("web")).toBe(true);
});
