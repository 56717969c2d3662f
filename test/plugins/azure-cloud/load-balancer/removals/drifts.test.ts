import { expect, setDefaultTimeout, test } from "bun:test";

import { eventually } from "cloud-controller-host/sdk/testing";

import { objectsAt } from "../../../../../plugins/azure-cloud/json.ts";
import { jumpingClock, openCluster, serviceOf } from "../cluster.ts";

setDefaultTimeout(120_000);

const id = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/loadBalancers/kubernetes";

/** Replaces the rules of the load balancer, as a person would. */
async function setUp() {
  const cluster = await openCluster(1);
  const { clock, jump } = jumpingClock();
  const generation = await cluster.start({ disableAPICallCache: true }, clock);
  await cluster.ensure(generation, serviceOf("web"));
  const rules = () => objectsAt(cluster.world.simulator.get(id)?.properties, "loadBalancingRules");
  const setIdle = (minutes: number): void => {
    const stored = cluster.world.simulator.get(id);
    if (stored === undefined) throw new Error("missing: load balancer");
    const changed = rules().map((rule) => ({
      ...rule,
      properties: { ...Object(rule["properties"]), idleTimeoutInMinutes: minutes },
    }));
    cluster.world.simulator.put(id, { ...stored, properties: { ...stored.properties, loadBalancingRules: changed } });
  };
  const drifts = () => cluster.records.filter(({ operation }) => operation === "drift");
  const events = () => generation.events.filter((event) => event.endsWith("AzureResourceChanged"));
  return { cluster, generation, drifts, events, setIdle, jump };
}

test("a change that another writer made to a rule is recorded with its fields, repaired, and reported once per hour", async () => {
  const { cluster, generation, drifts, events, setIdle, jump } = await setUp();
  await using _ = cluster;
  expect(drifts()).toEqual([]);
  setIdle(9);
  await cluster.ensure(generation, serviceOf("web"));
  await cluster.ensure(generation, serviceOf("web"));
  expect(drifts().map(({ resource, repaired }) => [resource, repaired])).toEqual([
    [id, false],
    [id, true],
  ]);
  const [found] = drifts();
  expect(JSON.stringify(found?.change?.before)).toContain('"idleTimeoutInMinutes":4');
  expect(JSON.stringify(found?.change?.after)).toContain('"idleTimeoutInMinutes":9');
  expect(events()).toEqual(["web AzureResourceChanged"]);

  setIdle(11);
  await cluster.ensure(generation, serviceOf("web"));
  expect(events()).toHaveLength(1);
  jump(3_600_000);
  setIdle(12);
  await cluster.ensure(generation, serviceOf("web"));
  expect(events()).toHaveLength(2);
});

test("writes of this process, and changes of what is not ours, are not drift", async () => {
  const { cluster, generation, drifts } = await setUp();
  await using _ = cluster;
  for (const name of ["a", "b", "web"]) await cluster.ensure(generation, serviceOf(name));
  const stored = cluster.world.simulator.get(id);
  if (stored === undefined) throw new Error("missing: load balancer");
  cluster.world.simulator.put(id, { ...stored, tags: { team: "net" } });
  await cluster.remove(generation, serviceOf("a"));
  await cluster.ensure(generation, serviceOf("b"));
  expect(drifts()).toEqual([]);
});

test("what a write of this process has changed is not drift for a read that comes before its reply", async () => {
  const { cluster, generation, drifts } = await setUp();
  await using _ = cluster;
  const { simulator } = cluster.world;
  const reply = simulator.hold({ method: "PUT", path: /\/loadBalancers\/kubernetes$/u }, "response");
  const first = cluster.ensure(generation, serviceOf("a"));
  await eventually("its load balancer is written", () => reply.waiting() === 1);
  simulator.clearLog();
  const second = cluster.ensure(generation, serviceOf("b"));
  await eventually("a public IP is written after the read", () => cluster.writes().length > 0);
  reply.release();
  await Promise.all([first, second]);
  expect(drifts()).toEqual([]);
});
