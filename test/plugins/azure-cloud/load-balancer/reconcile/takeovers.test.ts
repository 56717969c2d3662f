import { describe, expect, test } from "bun:test";

import { annotations, type Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { Takeovers } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/takeovers.ts";
import { errorOf } from "../../../../kit/rejection.ts";
import { azureState } from "../azure-state.ts";
import { type Cluster, jumpingClock, openCluster, serviceOf } from "../cluster.ts";
import { plannerConfigOf } from "../fixtures.ts";

const servedBy = (name: string, lease: string) => {
  const service = serviceOf(name);
  return { ...service, metadata: { ...service.metadata, annotations: { [annotations.servedBy]: lease } } };
};

/** A cluster in which one deployment has served a Service, and another one is about to. */
async function served(mark: string, creationTimestamp = "2026-01-01T00:00:00Z") {
  const cluster = await openCluster(1);
  const { clock, jump } = jumpingClock();
  const before = serviceOf("web");
  const web = { ...before, metadata: { ...before.metadata, creationTimestamp } };
  const other = await cluster.start();
  await cluster.ensure(other, mark === "" ? serviceOf("others") : servedBy("others", mark));
  await cluster.ensure(other, web);
  return { cluster, other, web, jump, own: await cluster.start({}, clock) };
}

const readsOf = ({ world }: Cluster): number =>
  world.simulator.log.filter(({ method, path }) => method === "GET" && path.includes("/networkSecurityGroups")).length;

test.each([
  ["gets back what the other deployment has removed", 70_000, "2026-01-01T00:00:00Z", "another", true],
  ["costs no read as the process starts", 0, "2026-01-01T00:00:00Z", "another", false],
  ["costs no read if it has just been created", 70_000, "2100-01-01T00:00:00Z", "another", false],
  ["costs no read where no deployment marks Services", 70_000, "2026-01-01T00:00:00Z", "", false],
])("a Service that comes from another deployment %s", async (_what, upMs, creationTimestamp, mark, isRead) => {
  const { cluster, other, web, jump, own } = await served(mark, creationTimestamp);
  await using _ = cluster;
  await cluster.ensure(own, serviceOf("own"));
  const { allowed, ...all } = azureState(cluster.world.simulator);
  await cluster.remove(other, web);
  jump(upMs);
  cluster.world.simulator.clearLog();
  await cluster.ensure(own, web);
  expect(readsOf(cluster) > 0).toBe(isRead);
  if (!isRead) return;
  const after = azureState(cluster.world.simulator);
  expect(after).toMatchObject(all);
  expect(after.allowed).toHaveLength(allowed.length);
});

test("the Services with which a process begins that has stood by for long share the first reads", async () => {
  const { cluster, jump, web, own } = await served("another");
  await using _ = cluster;
  jump(70_000);
  cluster.world.simulator.clearLog();
  await cluster.ensure(own, serviceOf("own"));
  const first = readsOf(cluster);
  await cluster.ensure(own, web);
  expect(readsOf(cluster)).toBe(first);
});

test("a Service that another deployment has served leaves no security rule when it is deleted here", async () => {
  await using cluster = await openCluster(1);
  const other = await cluster.start();
  await cluster.ensure(other, servedBy("others", "another"));
  const own = await cluster.start();
  await cluster.ensure(own, serviceOf("own"));
  const { allowed } = azureState(cluster.world.simulator);
  await cluster.ensure(other, serviceOf("web"));
  expect(azureState(cluster.world.simulator).allowed.length).toBeGreaterThan(allowed.length);
  await cluster.remove(own, serviceOf("web"));
  expect(azureState(cluster.world.simulator).allowed).toEqual(allowed);
});

test("the last marked Service that another deployment has served leaves no security rule when it is deleted here", async () => {
  await using cluster = await openCluster(1);
  const other = await cluster.start();
  await cluster.ensure(other, serviceOf("others"));
  const own = await cluster.start({}, undefined, { shards: { own: "second", isAlive: () => Promise.resolve(true) } });
  await cluster.ensure(own, servedBy("own", "second"));
  cluster.services.delete("default/own");
  const { allowed } = azureState(cluster.world.simulator);
  await cluster.ensure(other, serviceOf("web"));
  const { status } = cluster.services.get("default/web") ?? {};
  const web = { ...servedBy("web", "second"), spec: { type: "ClusterIP" }, ...(status && { status }) };
  cluster.services.set("default/web", web);
  await cluster.remove(own, web);
  expect(azureState(cluster.world.simulator).allowed).toEqual(allowed);
});

test.each([
  ["is found by one that marks Services", { own: "second", isAlive: () => Promise.resolve(true) }, true],
  ["is not looked for by one that is alone", undefined, false],
])("a young Service of another deployment %s before any has a mark", async (_what, shards, isFound) => {
  await using cluster = await openCluster(1);
  const other = await cluster.start();
  await cluster.ensure(other, serviceOf("others"));
  const own = await cluster.start({}, undefined, shards && { shards });
  await cluster.ensure(own, shards ? servedBy("own", shards.own) : serviceOf("own"));
  cluster.services.delete("default/own");
  await cluster.ensure(other, serviceOf("web"));
  const status = await own.balancers.getLoadBalancer("kubernetes", serviceOf("web"));
  expect(status !== undefined).toBe(isFound);
});

test.each([
  ["a deletion", "delete", servedBy("web", "second")],
  ["an update", "ensure", serviceOf("web", { spec: { type: "ClusterIP" } })],
] as const)("%s that waits for reads writes nothing once its Service has left", async (_what, action, after) => {
  await using cluster = await openCluster(1);
  const own = await cluster.start({ disableAPICallCache: true });
  await cluster.ensure(own, serviceOf("web"));
  const { simulator } = cluster.world;
  simulator.clearLog();
  const hold = simulator.hold({ method: "GET", path: "/networkSecurityGroups/" }, "response");
  const changed = serviceOf("web", { spec: { ports: [{ protocol: "TCP", port: 81 }] } });
  const work =
    action === "delete"
      ? own.balancers.ensureLoadBalancerDeleted("kubernetes", serviceOf("web"))
      : own.balancers.ensureLoadBalancer("kubernetes", changed, cluster.nodes);
  const ended = errorOf(work);
  await eventually("it reads", () => hold.waiting() > 0);
  cluster.services.set("default/web", { ...cluster.services.get("default/web"), ...after });
  hold.release();
  expect(await ended).toMatchObject({ code: "Superseded" });
  expect(cluster.writes()).toEqual([]);
});

describe("all of Azure is read again", () => {
  function takeovers(mark?: string) {
    const { clock, jump } = jumpingClock();
    const services = [mark === undefined ? serviceOf("others") : servedBy("others", mark)];
    const forgotten = { times: 0 };
    const observer = { services: () => services, forget: () => void (forgotten.times += 1) };
    const arrivals = new Takeovers({ context: { clock }, config: plannerConfigOf({}), observer });
    const times = (...given: Parameters<Takeovers["arrived"]>): number => {
      forgotten.times = 0;
      arrivals.arrived(...given);
      return forgotten.times;
    };
    return { times, jump };
  }
  const created = (agoMs: number): Service => {
    const web = serviceOf("web");
    return { ...web, metadata: { ...web.metadata, creationTimestamp: new Date(Date.now() - agoMs).toISOString() } };
  };

  test("all of Azure is read again once for each Service that is deleted here, and not when its deletion is tried again", () => {
    const { times } = takeovers("another");
    const web = created(60_000);
    expect(times({ service: web, action: "delete" })).toBe(1);
    expect(times({ service: web, action: "delete" })).toBe(0);
    expect(times({ service: created(60_000), action: "delete" })).toBe(1);
    expect(times({ service: created(9_000), action: "delete" })).toBe(0);
    expect(takeovers().times({ service: web, action: "delete" })).toBe(0);
  });

  test("all of Azure is read again for a Service that comes a minute after the first one, unless it is new", () => {
    const { times, jump } = takeovers("another");
    expect(times({ service: created(100_000), action: "ensure" })).toBe(0);
    jump(59_000);
    expect(times({ service: created(100_000), action: "ensure" })).toBe(0);
    jump(1_000);
    expect(times({ service: created(100_000), action: "ensure" })).toBe(1);
    expect(times({ service: created(-60_000), action: "ensure" })).toBe(0);
  });
});
