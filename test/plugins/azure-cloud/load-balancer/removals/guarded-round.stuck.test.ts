import { expect, test } from "bun:test";

import { ApiError, type Informers } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import type { Plan, Write } from "../../../../../plugins/azure-cloud/load-balancer/model/plan-model.ts";
import { Drifts } from "../../../../../plugins/azure-cloud/load-balancer/removals/drifts.ts";
import { GuardedRounds } from "../../../../../plugins/azure-cloud/load-balancer/removals/guarded-round.ts";
import { RemovalGuard } from "../../../../../plugins/azure-cloud/removal-guard/guard.ts";
import { memoryLeases } from "../../../../host/process/leader-election/memory-leases.ts";
import { loggerInto } from "../../world.ts";
import { intentOf, plannerConfigOf } from "../fixtures.ts";
import { nodesNamed, world } from "../world.ts";

const nothing = () => ({ inc: () => undefined, observe: () => undefined, set: () => undefined });
const none: Informers = {
  of: () => ({
    store: { get: () => undefined, list: () => [], size: 0 },
    handle: () => ({ remove: () => undefined }),
    hasSynced: () => true,
  }),
};
const unanswered = (): Promise<never> => Promise.reject(new ApiError(503, "ServiceUnavailable", "no answer"));

/** A round whose plan removes all members of a pool, whatever nodes it is given. */
async function plannedFor(services: readonly string[]) {
  const end = new AbortController();
  const context = {
    clock: manualClock(),
    signal: end.signal,
    log: loggerInto([]),
    metrics: { counter: nothing, histogram: nothing, gauge: nothing },
    events: { event: () => undefined },
    informers: none,
    client: { ...memoryLeases().client, get: unanswered, list: unanswered },
  };
  const guard = new RemovalGuard(context, { maxRemovals: 10, maxPercent: 20, windowMs: 600_000 });
  const rounds = new GuardedRounds(context, { guard, drifts: new Drifts(context) }, plannerConfigOf());
  const nodes = nodesNamed(...Array.from({ length: 12 }, (_, index) => `node-${index}`));
  const id = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/loadBalancers/kubernetes";
  const pool = {
    name: "kubernetes",
    loadBalancerBackendAddresses: nodes.map(({ status }) => ({ ipAddress: status?.addresses?.[0]?.address ?? "" })),
  };
  const write: Write = {
    kind: "put-load-balancer",
    id,
    resourceGroup: "rg0",
    name: "kubernetes",
    services,
    body: { id },
  };
  const planned: Plan = {
    stages: [{ name: "load-balancers", writes: [write] }],
    results: new Map(),
    nodeEvents: new Map(),
  };
  const observed = { ...world({}), nodes, loadBalancers: [{ id, name: "kubernetes", backendAddressPools: [pool] }] };
  const asked: number[] = [];
  const found = await rounds.plan({ intents: [intentOf({ name: "web" })], observed }, (intents) => {
    asked.push(intents.length);
    return { planned: intents.length === 0 ? { ...planned, stages: [] } : planned };
  });
  end.abort();
  return { asked, found, warnings: guard.warnings };
}

const warning = expect.stringContaining("12 of 12 members of backend pool kubernetes");

test("a plan that removes members although their nodes are put back, for no Service of the round, is made without Services", async () => {
  const { asked, found, warnings } = await plannedFor([]);
  expect(asked).toEqual([1, 1, 1, 1, 0]);
  expect([found.intents, found.round.planned.stages, found.held.size]).toEqual([[], [], 0]);
  expect(warnings.map(({ text }) => text)).toEqual([warning]);
});

test("a plan that removes members although their nodes are put back leaves out the Services that it is for", async () => {
  const { asked, found } = await plannedFor(["default/web"]);
  expect(asked).toEqual([1, 1, 1, 1, 0]);
  expect([...found.held]).toEqual([["default/web", expect.objectContaining({ message: warning })]]);
});
