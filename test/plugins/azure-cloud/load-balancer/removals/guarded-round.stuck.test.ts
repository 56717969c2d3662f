import { expect, test } from "bun:test";

import { ApiError, defaultLoadBalancerName, type Informers, keyOf, type Node } from "cloud-controller-host/sdk";
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

const id = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/loadBalancers/kubernetes";
const nodes = nodesNamed(...Array.from({ length: 12 }, (_, index) => `node-${index}`));
const pool = {
  name: "kubernetes",
  loadBalancerBackendAddresses: nodes.map(({ status }) => ({ ipAddress: status?.addresses?.[0]?.address ?? "" })),
};

/** A plan that leaves nothing of the load balancer but a rule that needs its pool. */
function emptied(services: readonly string[]): Plan {
  const write: Write = {
    kind: "put-load-balancer",
    id,
    resourceGroup: "rg0",
    name: "kubernetes",
    services,
    body: { id, loadBalancingRules: [{ backendAddressPool: { id: `${id}/backendAddressPools/kubernetes` } }] },
  };
  return { stages: [{ name: "load-balancers", writes: [write] }], results: new Map(), nodeEvents: new Map() };
}

const unchanged: Plan = { ...emptied([]), stages: [] };

/** Rounds in which the API server confirms nothing. */
function openRounds() {
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
  return { rounds, guard, end: () => end.abort() };
}

/** A round whose plan removes all members of a pool, whatever nodes it is given. */
async function plannedFor(services: readonly string[]) {
  const { rounds, guard, end } = openRounds();
  const observed = { ...world({}), nodes, loadBalancers: [{ id, name: "kubernetes", backendAddressPools: [pool] }] };
  const asked: number[] = [];
  const found = await rounds.plan({ intents: [intentOf({ name: "web" })], observed }, (intents) => {
    asked.push(intents.length);
    return { planned: intents.length === 0 ? unchanged : emptied(services) };
  });
  end();
  return { asked, found, warnings: guard.warnings };
}

const warning = expect.stringContaining("12 of 12 members of backend pool kubernetes");

test("a round is empty if its plan removes members although their nodes are put back, for no Service of the round", async () => {
  const { asked, found, warnings } = await plannedFor([]);
  expect(asked).toEqual([1, 1, 1, 1, 0]);
  expect([found.intents, found.round.planned.stages, found.held.size]).toEqual([[], [], 0]);
  expect(warnings.map(({ text }) => text)).toEqual([warning]);
});

test("a round leaves out the Services whose plan removes members although their nodes are put back", async () => {
  const { asked, found } = await plannedFor(["default/web"]);
  expect(asked).toEqual([1, 1, 1, 1, 0]);
  expect([...found.held]).toEqual([["default/web", expect.objectContaining({ message: warning })]]);
});

test("nodes that are missing from the list without a confirmation are put back into the next plan, for Services and as observed", async () => {
  const { rounds, end } = openRounds();
  const namesOf = (list: readonly Node[]): readonly string[] => list.map(({ metadata }) => metadata?.name ?? "");
  const listed = pool.loadBalancerBackendAddresses.map((one, index) => ({ ...one, name: `node-${index}` }));
  const balancer = { id, name: "kubernetes", backendAddressPools: [{ ...pool, loadBalancerBackendAddresses: listed }] };
  const found = await rounds.plan(
    { intents: [intentOf({ name: "web" })], observed: { ...world({}), nodes: [], loadBalancers: [balancer] } },
    ([intent]) => ({ planned: intent?.nodes.length === nodes.length ? unchanged : emptied(["default/web"]) }),
  );
  end();
  expect(found.held.size).toBe(0);
  expect(namesOf(found.intents[0]?.nodes ?? [])).toEqual(namesOf(nodes));
  expect(namesOf(found.observed.nodes)).toEqual(namesOf(nodes));
});

test("Services whose frontends would go without a confirmation are left out, and another one of the same write is not", async () => {
  const { rounds, end } = openRounds();
  const uidOf = (index: number): string => `${index}`.padEnd(32, "a");
  const losing = nodes.map((_, index) => intentOf({ name: `s${index}`, uid: uidOf(index) }));
  const intents = [...losing, intentOf({ name: "web" })];
  const frontendIPConfigurations = losing.map(({ service }) => ({ name: defaultLoadBalancerName(service) }));
  const observed = { ...world({}), loadBalancers: [{ id, name: "kubernetes", frontendIPConfigurations }] };
  const writers = intents.map(({ service }) => keyOf(service));
  const found = await rounds.plan({ intents, observed }, (left) => ({
    planned: left.length === 1 ? unchanged : emptied(writers),
  }));
  end();
  expect([...found.held.keys()].toSorted()).toEqual(losing.map(({ service }) => keyOf(service)).toSorted());
  expect(found.intents.map(({ service }) => keyOf(service))).toEqual(["default/web"]);
});
