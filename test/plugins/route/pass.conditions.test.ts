import { describe, expect, test } from "bun:test";

import type { NodeCondition } from "cloud-controller-host/sdk";

import { updateNetworkingCondition } from "../../../plugins/route/pass.ts";
import { aNode } from "./objects.ts";
import { conditionOf, makeParts, type Parts } from "./parts.ts";

const { signal } = new AbortController();
const type = "NetworkUnavailable";
const created = { type, status: "False", reason: "RouteCreated", message: "RouteController created a route" };
const missing = { type, status: "True", reason: "NoRouteCreated", message: "RouteController failed to create a route" };
const foreign = (status: string, reason: string): NodeCondition => ({ type, status, reason, message: "theirs" });

const rows: readonly (readonly [string, NodeCondition | undefined, boolean, NodeCondition | undefined])[] = [
  ["No existing condition, routes created - should update", undefined, true, created],
  ["No existing condition, routes not created - should update", undefined, false, missing],
  ["Existing condition with same status and reason (RouteCreated) - should not update", created, true, undefined],
  [
    "Existing condition with same status but different reason (CalicoIsUp) - should update",
    foreign("False", "CalicoIsUp"),
    true,
    created,
  ],
  [
    "Existing condition with Status=False but different reason - should update when routes created",
    foreign("False", "ExternalCNI"),
    true,
    created,
  ],
  [
    "Existing condition with Status=True and different reason - should update when routes not created",
    foreign("True", "SomeOtherReason"),
    false,
    missing,
  ],
  [
    "Existing condition with Status=False, transitioning to routes not created - should update",
    created,
    false,
    missing,
  ],
  ["Existing condition with Status=True and NoRouteCreated reason - should not update", missing, false, undefined],
];

const update = async (parts: Parts, existing: NodeCondition | undefined, routed: boolean): Promise<void> => {
  const node = { ...aNode("node-1", []), status: { conditions: existing === undefined ? [] : [existing] } };
  await updateNetworkingCondition({ ...parts, signal }, parts.seen(node), routed);
};

describe("the condition NetworkUnavailable", () => {
  test.each(rows)("%s", async (_name, existing, routed, wanted) => {
    await using parts = await makeParts();
    await update(parts, existing, routed);
    expect(parts.cluster.writes()).toHaveLength(wanted === undefined ? 0 : 1);
    expect(conditionOf(parts.cluster, "node-1")).toMatchObject(wanted ?? existing ?? {});
  });
});

test("a condition of another writer is taken over when the route exists", async () => {
  await using parts = await makeParts();
  await update(parts, foreign("False", "CalicoIsUp"), true);
  expect(conditionOf(parts.cluster, "node-1")).toMatchObject(created);
});

test("a conflict is retried, five attempts in all", async () => {
  await using parts = await makeParts();
  parts.cluster.api.faults.add({ match: { verb: "patch" }, effect: { status: 409 }, times: 4 });
  const written = update(parts, undefined, true);
  while (parts.cluster.sent({ status: 200 }).length === 0) {
    await parts.clock.advance(200);
    await new Promise((resolve) => void setTimeout(resolve, 1));
  }
  await written;
  expect(parts.cluster.sent({ status: 409 })).toHaveLength(4);
  expect(conditionOf(parts.cluster, "node-1")).toMatchObject(created);
});
