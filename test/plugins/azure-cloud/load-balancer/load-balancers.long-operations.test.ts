import { afterEach, describe, expect, test } from "bun:test";
import { setImmediate } from "node:timers/promises";

import { keyOf, type Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import type { Failure } from "../../../../plugins/azure-cloud/simulator/faults.ts";
import { errorOf } from "../../../kit/rejection.ts";
import { rawClient } from "../raw-client.ts";
import { nodeOf } from "../world.ts";
import { expectConverged } from "./azure-state.ts";
import { type Cluster, fast, openCluster, serviceOf } from "./cluster.ts";

const internal = (name: string): Service =>
  serviceOf(name, { annotations: { "azure-load-balancer-internal": "true" } });
const changed = (service: Service): Service => ({
  ...service,
  spec: { ...service.spec, ports: [{ name: "x", protocol: "TCP", port: 90, nodePort: 31_090 }] },
});

const realSetTimeout = globalThis.setTimeout;
afterEach(() => void (globalThis.setTimeout = realSetTimeout));

/** The limit of ten minutes of an operation passes in half a second, or in another time. */
function shortenLimits(limitMs = 500): void {
  const shortened = (work: () => void, ms?: number) => realSetTimeout(work, (ms ?? 0) >= 500_000 ? limitMs : ms);
  globalThis.setTimeout = Object.assign(shortened, realSetTimeout);
}

/** Makes operations on a member last until `end`, and its node leave. */
function prolong(cluster: Cluster, member: string) {
  const { simulator, logged } = cluster.world;
  let isLong = true;
  let poll = "";
  simulator.prolongOperations((id) => isLong && id.endsWith(member));
  const [node] = cluster.nodes;
  if (node !== undefined) cluster.lose(node);
  return {
    node,
    async polled(): Promise<void> {
      await eventually("the operation is polled", () => simulator.log.at(-1)?.path.includes("/operations/") === true);
      poll = simulator.log.at(-1)?.path ?? "";
    },
    async abandoned(): Promise<void> {
      await eventually("it is not waited for any more, and its Service is planned", () => {
        const messages = logged.map(({ message }) => message).join();
        return /trying again.*Verified/u.test(messages);
      });
      simulator.clearLog();
    },
    async end(): Promise<void> {
      isLong = false;
      const send = await rawClient(simulator);
      await send("GET", poll);
    },
  };
}

interface End {
  readonly failure?: Failure;
  /** Of the Service that waits; undefined where it is planned again and succeeds. */
  readonly error: unknown;
}

const ends: Readonly<Record<string, End>> = {
  fails: {
    failure: { status: 500, code: "InternalServerError", stage: "operation" },
    error: expect.objectContaining({ code: "InternalServerError" }),
  },
  "is canceled": { failure: { status: 409, code: "Canceled", stage: "operation" }, error: undefined },
  "never ends": { error: expect.objectContaining({ code: "OperationTimeout" }) },
};

/** What is created, for whom, and who needs something else meanwhile. */
const creations = [
  ["a public IP", /publicIPAddresses\/kubernetes-a/u, serviceOf("web"), internal("other")],
  ["a load balancer", /loadBalancers\/kubernetes-internal$/u, internal("web"), serviceOf("other")],
] as const;

describe.each(creations)("%s whose creation takes ten minutes", (what, path, web, other) => {
  for (const [end, { failure, error }] of Object.entries(ends))
    test(`${what} whose creation takes ten minutes and then ${end} delays and fails no other Service, and is there after the next attempt`, async () => {
      await using cluster = await openCluster(1);
      const { simulator } = cluster.world;
      const generation = await cluster.start({}, fast(100));
      await cluster.ensure(generation, other);
      if (failure !== undefined) simulator.failNext({ method: "PUT", path }, failure);
      else shortenLimits();
      const operation = simulator.hold({ method: "GET", path: "/operations/" });
      const ensured = errorOf(cluster.ensure(generation, web));
      await eventually("the operation is polled", () => operation.waiting() > 0);
      await cluster.ensure(generation, changed(other));
      if (failure !== undefined) operation.release();
      expect(await ensured).toEqual(error);
      operation.release();
      await cluster.ensure(generation, web);
      expect(cluster.services.get(keyOf(web))?.status?.loadBalancer?.ingress).toHaveLength(1);
      expectConverged(cluster);
      await cluster.remove(generation, web);
      expectConverged(cluster);
    });
});

test("a node that comes back while an operation of a former process takes its instance out of the pool is in it again, although another Service is refused", async () => {
  await using cluster = await openCluster(3);
  const { simulator } = cluster.world;
  const web = serviceOf("web");
  const first = await cluster.start({}, fast(100));
  await cluster.ensure(first, web);
  expectConverged(cluster);
  const operation = prolong(cluster, "/virtualmachines/0");
  await cluster.ensure(first, web);
  await eventually("its instance leaves the pool", () => simulator.operations().length === 1);
  await operation.polled();
  first.crash();
  cluster.hidden.clear();
  const refused = serviceOf("refused", { annotations: { "azure-load-balancer-tcp-idle-timeout": "1" } });
  const second = await cluster.start({}, fast(100));
  expect(await errorOf(cluster.ensure(second, refused))).toBeDefined();
  simulator.clearLog();
  await cluster.ensure(second, web);
  expect(cluster.writes()).toEqual([]);
  await operation.end();
  await eventually("its instance is written", () => cluster.writes().includes("PUT virtualMachines/0"), 20_000);
  await eventually("the operation has ended", () => simulator.operations().length === 0, 20_000);
  await cluster.ensure(second, web);
  await setImmediate();
  cluster.services.delete(keyOf(refused));
  expectConverged(cluster);
  expect(cluster.world.logged.map(({ message }) => message)).not.toContainEqual(
    expect.stringContaining("trying again"),
  );
}, 60_000);

test("a node that comes back while an operation of more than ten minutes takes its instance out of the pool is in it again", async () => {
  await using cluster = await openCluster(3);
  const { simulator } = cluster.world;
  const web = serviceOf("web");
  const generation = await cluster.start({}, fast(100));
  await cluster.ensure(generation, web);
  shortenLimits(1_000);
  const operation = prolong(cluster, "/virtualmachines/0");
  await cluster.ensure(generation, web);
  await operation.polled();
  if (operation.node !== undefined) cluster.restore(operation.node);
  await cluster.ensure(generation, web);
  await operation.abandoned();
  await operation.end();
  await eventually("its instance is written", () => cluster.writes().includes("PUT virtualMachines/0"), 20_000);
  await eventually("the operation has ended", () => simulator.operations().length === 0, 20_000);
  await setImmediate();
  expectConverged(cluster);
}, 60_000);

test("a node that comes back while an operation whose poll was refused takes its instance out of the pool is in it again", async () => {
  await using cluster = await openCluster(3);
  const { simulator } = cluster.world;
  const web = serviceOf("web");
  const generation = await cluster.start({}, fast(100));
  await cluster.ensure(generation, web);
  const operation = prolong(cluster, "/virtualmachines/0");
  simulator.failNext({ method: "GET", path: "/operations/" }, { status: 403, code: "AuthorizationFailed" });
  expect(await errorOf(cluster.ensure(generation, web))).toMatchObject({ code: "AuthorizationFailed" });
  await operation.polled();
  if (operation.node !== undefined) cluster.restore(operation.node);
  await cluster.ensure(generation, web);
  simulator.clearLog();
  const isLookedAt = (): boolean => simulator.log.some(({ path }) => path.endsWith("/loadBalancers/kubernetes"));
  await eventually("the load balancer is looked at a minute after the write", isLookedAt);
  await operation.end();
  await eventually("its instance is written", () => cluster.writes().includes("PUT virtualMachines/0"), 20_000);
  await eventually("the operation has ended", () => simulator.operations().length === 0, 20_000);
  await setImmediate();
  expectConverged(cluster);
}, 60_000);

test.each([
  ["operations fail", { status: 500, code: "InternalServerError", stage: "operation" }],
  ["writes are refused", { status: 403, code: "AuthorizationFailed" }],
] as const)(
  "an instance whose %s is not followed: nothing is read or written before its Service is retried",
  async (_what, fault) => {
    await using cluster = await openCluster(2);
    const { simulator } = cluster.world;
    const generation = await cluster.start({}, fast(25));
    simulator.failNext({ method: "PUT", path: "/virtualMachines/0" }, { ...fault, times: 1_000 });
    const { code } = fault;
    expect(await errorOf(cluster.ensure(generation, serviceOf("web")))).toMatchObject({ code });
    await errorOf(cluster.ensure(generation, serviceOf("web")));
    simulator.clearLog();
    // Two minutes pass.
    await Bun.sleep(5_000);
    // The models of scale sets are looked at after one was written.
    expect(simulator.log.filter(({ path }) => !path.endsWith("/virtualMachineScaleSets"))).toEqual([]);
  },
  60_000,
);

/** A cluster of standalone VMs with an interface each. */
async function openStandalone(...addresses: readonly string[]): Promise<Cluster> {
  const cluster = await openCluster(0);
  const group = "/subscriptions/sub0/resourceGroups/rg0/providers";
  for (const [index, address] of addresses.entries()) {
    const id = `${group}/Microsoft.Network/networkInterfaces/nic${index}`;
    const subnet = { id: `${group}/Microsoft.Network/virtualNetworks/vnet0/subnets/subnet0` };
    const properties = { primary: true, privateIPAddress: address, privateIPAddressVersion: "IPv4", subnet };
    cluster.world.simulator.put(id, {
      location: "here",
      properties: { ipConfigurations: [{ name: "main", properties }] },
    });
    const vm = cluster.world.simulator.put(`${group}/Microsoft.Compute/virtualMachines/vm${index}`, {
      properties: { networkProfile: { networkInterfaces: [{ id, properties: { primary: true } }] } },
    });
    const node = nodeOf(`vm${index}`, { providerID: `azure://${vm.id}` });
    cluster.nodes.push({ ...node, status: { addresses: [{ type: "InternalIP", address }] } });
  }
  return cluster;
}

test("an operation of more than ten minutes on a network interface is followed, and all Services are planned with new reads when it has ended", async () => {
  await using cluster = await openStandalone("10.240.0.71", "10.240.0.72");
  const { simulator } = cluster.world;
  const web = serviceOf("web");
  const generation = await cluster.start({ vmType: "standard" }, fast(100));
  await cluster.ensure(generation, web);
  shortenLimits(1_000);
  const operation = prolong(cluster, "/networkinterfaces/nic0");
  await cluster.ensure(generation, web);
  await operation.polled();
  await operation.abandoned();
  await operation.end();
  const isRead = (path: RegExp): boolean => simulator.log.some((one) => one.method === "GET" && path.test(one.path));
  await eventually("the load balancer is read again", () => isRead(/loadBalancers\/kubernetes$/u), 20_000);
  expect([isRead(/networkInterfaces\/nic0$/u), cluster.writes()]).toEqual([true, []]);
}, 60_000);

test("a network interface whose operations fail is not followed: nothing is read or written before its Service is retried", async () => {
  await using cluster = await openStandalone("10.240.0.71", "10.240.0.72");
  const { simulator } = cluster.world;
  const generation = await cluster.start({ vmType: "standard" }, fast(25));
  const failure = { status: 500, code: "InternalServerError", stage: "operation", times: 1_000 } as const;
  simulator.failNext({ method: "PUT", path: "/networkInterfaces/nic0" }, failure);
  expect(await errorOf(cluster.ensure(generation, serviceOf("web")))).toMatchObject({ code: "InternalServerError" });
  simulator.clearLog();
  // Two minutes pass.
  await Bun.sleep(5_000);
  expect(simulator.log).toEqual([]);
}, 60_000);

test("a node that comes back while a write without a reply takes its instance out of the pool is in it again", async () => {
  await using cluster = await openCluster(3, { operationUnpolledMs: 500 });
  const { simulator } = cluster.world;
  const web = serviceOf("web");
  const generation = await cluster.start({}, fast(100));
  await cluster.ensure(generation, web);
  const operation = prolong(cluster, "/virtualmachines/0");
  const put = { method: "PUT", path: "/virtualMachines/0" };
  simulator.failNext(put, { status: 500, stage: "connection" });
  const ended = cluster.ensure(generation, web);
  await eventually("its instance leaves the pool", () => simulator.operations().length === 1);
  simulator.failNext(put, { status: 503, times: 3 });
  await eventually("its repetition fails", () => simulator.log.at(-1)?.status === 503);
  if (operation.node !== undefined) cluster.restore(operation.node);
  await ended;
  await cluster.ensure(generation, web);
  const failures = () => simulator.log.filter(({ status }) => status === 503).length;
  await eventually("all have failed", () => failures() === 3);
  simulator.clearLog();
  // A minute passes.
  await Bun.sleep(600);
  expect(cluster.writes()).toEqual([]);
  simulator.prolongOperations(() => false);
  await eventually("its instance is written", () => cluster.writes().includes("PUT virtualMachines/0"), 20_000);
  await eventually("the operation has ended", () => simulator.operations().length === 0, 20_000);
  await setImmediate();
  expectConverged(cluster);
}, 60_000);

test("a write of a load balancer without a reply is followed: a Service that has changed back meanwhile has its former port", async () => {
  await using cluster = await openCluster(1);
  const { simulator } = cluster.world;
  const web = serviceOf("web");
  const generation = await cluster.start({}, fast(100));
  await cluster.ensure(generation, web);
  const put = { method: "PUT", path: "/loadBalancers/kubernetes" };
  simulator.failNext(put, { status: 503, times: 3 });
  const ended = errorOf(cluster.ensure(generation, changed(web)));
  const failures = () => simulator.log.filter(({ status }) => status === 503).length;
  await eventually("three attempts have failed", () => failures() === 3);
  simulator.failNext(put, { status: 500, stage: "connection" });
  simulator.setReadLag(500);
  expect(await ended).toMatchObject({ code: "Unreachable" });
  simulator.clearLog();
  await cluster.ensure(generation, web);
  // Reads do not show the write yet.
  const written = "PUT loadBalancers/kubernetes";
  expect(cluster.writes()).not.toContain(written);
  await eventually("the load balancer is written", () => cluster.writes().includes(written), 20_000);
  await eventually("the write has ended", () => simulator.operations().length === 0, 20_000);
  await setImmediate();
  expectConverged(cluster);
}, 60_000);
