import { describe, expect, test } from "bun:test";

import { annotations, type Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { Takeovers } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/takeovers.ts";
import { errorOf } from "../../../../kit/rejection.ts";
import { azureState } from "../azure-state.ts";
import { type Cluster, jumpingClock, openCluster, serviceOf, type ServiceOptions } from "../cluster.ts";
import { plannerConfigOf } from "../fixtures.ts";

const servedBy = (name: string, lease: string) => {
  const service = serviceOf(name);
  return { ...service, metadata: { ...service.metadata, annotations: { [annotations.servedBy]: lease } } };
};

/** A cluster in which one deployment has served a Service, and another one is about to. */
async function served(mark: string) {
  const cluster = await openCluster(1);
  const { clock, jump } = jumpingClock();
  const web = serviceOf("web");
  const other = await cluster.start();
  await cluster.ensure(other, mark === "" ? serviceOf("others") : servedBy("others", mark));
  await cluster.ensure(other, web);
  return { cluster, other, web, jump, own: await cluster.start({}, clock) };
}

const readsOf = ({ world }: Cluster): number =>
  world.simulator.log.filter(({ method, path }) => method === "GET" && path.includes("/networkSecurityGroups")).length;

test.each([
  ["gets back what the other deployment has removed", 70_000, "another", true],
  ["costs no read as the process starts", 0, "another", false],
  ["costs no read where no deployment marks Services", 70_000, "", false],
])("a Service that comes from another deployment %s", async (_what, upMs, mark, isRead) => {
  const { cluster, other, web, jump, own } = await served(mark);
  await using _ = cluster;
  await cluster.ensure(own, serviceOf("own"));
  const { allowed, ...all } = azureState(cluster.world.simulator);
  await other.balancers.ensureLoadBalancerDeleted("kubernetes", web);
  jump(upMs);
  cluster.world.simulator.clearLog();
  await cluster.ensure(own, web);
  expect(readsOf(cluster) > 0).toBe(isRead);
  if (!isRead) return;
  const after = azureState(cluster.world.simulator);
  expect(after).toMatchObject(all);
  expect(after.allowed).toHaveLength(allowed.length);
});

test("a Service that has just been created costs no read although deployments share Services", async () => {
  const { cluster, jump, own } = await served("another");
  await using _ = cluster;
  await cluster.ensure(own, serviceOf("own"));
  jump(70_000);
  cluster.world.simulator.clearLog();
  await cluster.ensure(own, serviceOf("new"));
  const lists = cluster.world.simulator.log.filter(({ method, path }) => method === "GET" && path.endsWith("s"));
  // The models of scale sets are looked at a minute after a change.
  expect(lists.map(({ path }) => path).filter((path) => !path.endsWith("/virtualMachineScaleSets"))).toEqual([]);
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

describe("a Service that changes its type in the midst of its move from another deployment leaves no port open", () => {
  const servedWith = (lease: string, { annotations: more, spec }: ServiceOptions = {}): Service => {
    const service = serviceOf("web", { ...(more && { annotations: more }), ...(spec && { spec }) });
    const marks = { ...service.metadata?.annotations, [annotations.servedBy]: lease };
    return { ...service, metadata: { ...service.metadata, annotations: marks } };
  };
  const shard = (name: string) => ({ shard: name, shards: { own: name, isAlive: () => Promise.resolve(true) } });
  const nodeIPs = { loadBalancerBackendPoolConfigurationType: "nodeIP" };
  const theirs = { publicIPAllocationMethod: "Static", publicIPAddressVersion: "IPv4", ipAddress: "20.7.7.7" };
  const internal = {
    annotations: { "azure-load-balancer-internal": "true" },
    spec: { loadBalancerSourceRanges: ["10.0.0.0/8"] },
  };

  test.each<[string, ServiceOptions, ServiceOptions, string]>([
    ["of a user's public IP that it leaves", { annotations: { "azure-pip-name": "theirs" } }, {}, "kubernetes-b"],
    ["of an address of its spec that it leaves", { spec: { loadBalancerIP: "20.7.7.7" } }, {}, "kubernetes-b"],
    ["of a private address between the two frontends", internal, internal, "kubernetes-a-internal"],
  ])("a Service that changes its type as it moves to another deployment leaves no port open %s", async (...row) => {
    const [, before, after, balancer] = row;
    await using cluster = await openCluster(1);
    const { simulator } = cluster.world;
    const { clock, jump } = jumpingClock();
    const id = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/publicIPAddresses/theirs";
    simulator.put(id, { location: "eastus", sku: { name: "Standard" }, properties: theirs });
    const former = await cluster.start(nodeIPs, undefined, shard("a"));
    const own = await cluster.start(nodeIPs, clock, shard("b"));
    await cluster.ensure(former, servedBy("of-a", "a"));
    await cluster.ensure(own, servedBy("of-b", "b"));
    const { allowed } = azureState(simulator);
    await cluster.ensure(former, servedWith("a", before));
    expect(azureState(simulator).allowed).toHaveLength(3);
    await former.balancers.leaveLoadBalancer("kubernetes", servedWith("a", before));
    jump(70_000);
    const hold = simulator.hold({ method: "PUT", path: new RegExp(`/loadBalancers/${balancer}$`, "u") }, "response");
    const moved = servedWith("b", after);
    const ended = errorOf(cluster.ensure(own, moved));
    await eventually("it moves", () => hold.waiting() > 0);
    const left = { ...moved, spec: { ...moved.spec, type: "ClusterIP" } };
    cluster.change(left);
    hold.release();
    await ended;
    jump(70_000);
    await own.balancers.ensureLoadBalancerDeleted("kubernetes", left);
    expect(azureState(simulator).allowed).toEqual(allowed);
  });
});

describe("all of Azure is read again", () => {
  function takeovers(mark?: string) {
    const { clock, jump } = jumpingClock();
    const services = [serviceOf("own"), mark === undefined ? serviceOf("others") : servedBy("others", mark)];
    const forgotten = { times: 0 };
    const observer = { services: () => services, forget: () => void (forgotten.times += 1) };
    const rounds = { settled: () => undefined };
    const arrivals = new Takeovers({ context: { clock }, config: plannerConfigOf({}), observer, rounds });
    const times = (action: "ensure" | "delete", service: Service): number => {
      forgotten.times = 0;
      arrivals.arrived({ service, action });
      return forgotten.times;
    };
    return { times, jump, services, handler: arrivals.handler };
  }
  const web = (metadata: Service["metadata"] = {}, spec: Service["spec"] = {}): Service => {
    const service = serviceOf("web", { spec });
    return { ...service, metadata: { ...service.metadata, ...metadata } };
  };

  test("all of Azure is read again once for each Service that is deleted here, and not when its deletion is tried again", () => {
    const { times } = takeovers("another");
    const service = web();
    expect(times("delete", service)).toBe(1);
    expect(times("delete", service)).toBe(0);
    expect(times("delete", web())).toBe(1);
    expect(takeovers().times("delete", service)).toBe(0);
  });

  test("all of Azure is read again for a Service that comes after a minute, unless it was created within ten seconds", () => {
    const { times, jump, services, handler } = takeovers("another");
    services.push(web());
    handler.added?.(web({ uid: "listed" }));
    expect(times("ensure", serviceOf("own"))).toBe(0);
    jump(9_000);
    expect(times("ensure", web({ uid: "listed" }))).toBe(1);
    jump(51_000);
    handler.added?.(web({ uid: "new" }));
    expect(times("ensure", web())).toBe(1);
    jump(9_999);
    expect(times("ensure", web({ uid: "new" }))).toBe(0);
    expect(times("delete", web({ uid: "new" }))).toBe(1);
    jump(1);
    expect(times("ensure", web({ uid: "new" }))).toBe(1);
    handler.added?.(web({ uid: "gone" }));
    handler.deleted?.(web({ uid: "gone" }));
    expect(times("ensure", web({ uid: "gone" }))).toBe(1);
  });

  test.each([
    ["was there", web(), web(), 0],
    ["was not there, as it had another type", undefined, web(), 1],
    ["had another class", web({}, { loadBalancerClass: "example.com/other" }), web(), 1],
    ["had other labels", web({ labels: { a: "b" } }), web(), 1],
    ["had the mark of another deployment", web({ annotations: { [annotations.servedBy]: "another" } }), web(), 1],
    ["had another UID", web({ uid: "former" }), web(), 1],
  ])(
    "all of Azure is read again or not in the first minute for a Service that at first %s",
    (_what, before, service, reads) => {
      const { times, jump, services } = takeovers("another");
      if (before !== undefined) services.push(before);
      expect(times("ensure", serviceOf("own"))).toBe(0);
      jump(59_000);
      expect(times("ensure", service)).toBe(reads);
      expect(times("ensure", { ...service })).toBe(1);
    },
  );
});
