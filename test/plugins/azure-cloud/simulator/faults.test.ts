import { describe, expect, test } from "bun:test";

import { type Failure, Faults, type RequestMatcher } from "../../../../plugins/azure-cloud/simulator/faults.ts";
import { hurriedClock } from "../../../kit/clocks.ts";
import { Random } from "../../../kit/random.ts";
import { expectConverged } from "../load-balancer/azure-state.ts";
import { openCluster, serviceOf } from "../load-balancer/cluster.ts";
import { Scenario } from "../load-balancer/scenario.ts";

const write = /loadBalancers|publicIPAddresses|networkSecurityGroups|virtualMachines/u;
const puts: RequestMatcher = { method: "PUT", path: write };
/** Not the metadata and tokens that a process starts with. */
const arm: RequestMatcher = { path: "/providers/" };
const superseded = "CanceledAndSupersededDueToAnotherOperation";

interface Fault {
  readonly name: string;
  readonly matcher: RequestMatcher;
  readonly failure: Failure;
}

/** Every way in which ARM fails that a write must survive. */
const faults: readonly Fault[] = [
  { name: "throttling", matcher: arm, failure: { status: 429, headers: { "retry-after": "0" } } },
  { name: "a failing service", matcher: arm, failure: { status: 503 } },
  { name: "conflicts of etags", matcher: puts, failure: { status: 412 } },
  {
    name: "another operation in progress",
    matcher: puts,
    failure: { status: 409, code: "AnotherOperationInProgress" },
  },
  {
    name: "operations that fail late",
    matcher: puts,
    failure: { status: 500, code: "InternalServerError", stage: "operation" },
  },
  {
    name: "operations that another one replaces",
    matcher: puts,
    failure: { status: 409, code: superseded, stage: "operation" },
  },
  { name: "lost answers to writes that were carried out", matcher: puts, failure: { status: 503, stage: "response" } },
  { name: "connections that break after a write", matcher: puts, failure: { status: 500, stage: "connection" } },
  { name: "rejections", matcher: puts, failure: { status: 400, code: "InvalidRequestFormat" } },
  { name: "deletions refused for now", matcher: { method: "DELETE" }, failure: { status: 409, code: "Conflict" } },
];

/** Syncs until nothing fails, as the service controller does by its queue. `wait` is called between two attempts. */
async function syncUntilDone(
  scenario: Scenario,
  generation: Parameters<Scenario["sync"]>[0],
  wait: () => void = () => undefined,
): Promise<number> {
  for (let attempt = 1; attempt <= 20; attempt++) {
    if ((await scenario.sync(generation)).length === 0) return attempt;
    wait();
  }
  throw new Error(`20 attempts were not enough; the last: ${String((await scenario.sync(generation))[0])}`);
}

test("a disturbance refuses requests, and carries none of them out", () => {
  const all = new Faults();
  all.disturb(503, 60_000);
  all.failFor({ path: "/loadBalancers/" }, 500, 60_000);
  expect(all.take("request", "PUT", "/loadBalancers/kubernetes")).toMatchObject({ status: 503 });
  for (const stage of ["operation", "response", "connection"] as const)
    expect(all.take(stage, "PUT", "/loadBalancers/kubernetes")).toBeUndefined();
});

test.each([
  [401, "ExpiredAuthenticationToken"],
  [503, "ServiceUnavailable"],
  [504, "GatewayTimeout"],
])("a lasting failure with %d has ARM's code %s", (status, code) => {
  const all = new Faults();
  all.failFor({ method: "PUT", path: "/loadBalancers/" }, status, 60_000);
  expect(all.take("request", "PUT", "/loadBalancers/kubernetes")).toMatchObject({ status, code });
});

describe("load balancers converge after", () => {
  for (const { name, matcher, failure } of faults)
    test(name, async () => {
      const random = new Random(7);
      await using cluster = await openCluster(3, { operationPolls: failure.stage === "operation" ? 1 : 0 });
      const scenario = new Scenario(cluster, random);
      for (let round = 0; round < 4; round++) {
        scenario.change(4);
        cluster.world.simulator.failNext(matcher, { ...failure, times: 3 });
        await syncUntilDone(scenario, await cluster.start());
        cluster.world.simulator.clearFailures();
        await syncUntilDone(scenario, await cluster.start());
        expect(scenario.settled).toBe(true);
        expectConverged(cluster);
      }
    });

  test("reads that lag behind the writes", async () => {
    const random = new Random(8);
    await using cluster = await openCluster(3);
    const scenario = new Scenario(cluster, random);
    const generation = await cluster.start({ disableAPICallCache: true });
    for (let round = 0; round < 4; round++) {
      cluster.world.simulator.setReadLag(20);
      scenario.change(4);
      await scenario.sync(generation);
      cluster.world.simulator.setReadLag(0);
      await syncUntilDone(scenario, await cluster.start());
      expectConverged(cluster);
    }
  });

  for (const seed of [101, 202, 303])
    test(`all of these in a mixture (seed ${seed})`, async () => {
      const random = new Random(seed);
      // Of an operation whose polls fail, the load balancers see the end only in its resource, which they read until then.
      await using cluster = await openCluster(3, { operationPolls: 1, operationUnpolledMs: 1_000 });
      const scenario = new Scenario(cluster, random);
      let jumpedMs = 0;
      const clock = { ...hurriedClock(100), monotonic: () => performance.now() + jumpedMs };
      const generation = await cluster.start({}, clock);
      for (let round = 0; round < 10; round++) {
        scenario.change(3);
        for (let index = 0; index < 4; index++) {
          const { matcher, failure } = random.pick(faults) ?? { matcher: arm, failure: { status: 503 } };
          cluster.world.simulator.failNext(matcher, failure);
        }
        await scenario.sync(generation);
      }
      cluster.world.simulator.clearFailures();
      // What a write has created, but no read shows, is waited for, for a minute.
      await syncUntilDone(scenario, generation, () => void (jumpedMs += 60_000));
      expect(scenario.settled).toBe(true);
      expectConverged(cluster);
    }, 120_000);
});

/** upstream: the repositories of public IPs and load balancers. */
const reported = [
  { reason: "CreateOrUpdatePublicIPAddress", method: "PUT", path: /publicIPAddresses/u },
  { reason: "DeletePublicIPAddress", method: "DELETE", path: /publicIPAddresses/u },
  { reason: "DeleteLoadBalancer", method: "DELETE", path: /loadBalancers/u },
] as const;

for (const { reason, ...matcher } of reported)
  test(`a write that ARM rejects is reported on its Service alone as ${reason}`, async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start();
    const [web, other] = [
      serviceOf("web"),
      serviceOf("other", { annotations: { "azure-load-balancer-internal": "true" } }),
    ];
    await cluster.ensure(generation, other);
    if (matcher.method === "DELETE") await cluster.ensure(generation, web);
    cluster.world.simulator.failNext(matcher, { status: 400, code: "InvalidRequestFormat" });
    const work = matcher.method === "PUT" ? cluster.ensure(generation, web) : cluster.remove(generation, web);
    await expect(work).rejects.toThrow("InvalidRequestFormat");
    await work.catch(() => undefined);
    expect(generation.events).toEqual([`web ${reason}`]);
  }, 120_000);

describe("a process that may not write any more", () => {
  test("sends no request that changes something after the fence has closed, whatever was in flight", async () => {
    const random = new Random(9);
    await using cluster = await openCluster(3);
    const scenario = new Scenario(cluster, random);
    for (let round = 0; round < 10; round++) {
      scenario.change(6);
      const generation = await cluster.start();
      cluster.world.simulator.setLatency(4);
      const work = scenario.sync(generation);
      await Bun.sleep(random.between(0, 30));
      generation.crash();
      cluster.world.simulator.clearLog();
      await work;
      await Bun.sleep(10);
      cluster.world.simulator.setLatency(0);
      while (cluster.world.simulator.underway() > 0) await Bun.sleep(1);
      cluster.world.simulator.clearLog();
      await Bun.sleep(10);
      expect(cluster.writes()).toEqual([]);
    }
  });
});
