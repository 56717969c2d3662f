import { describe, expect, test } from "bun:test";
import { isIP } from "node:net";

import { InstanceNotFoundError, type Instances, type LoadBalancers, type Routes } from "cloud-controller-host/sdk";
import { manualClock, type MemoryCloud, memoryCloud } from "cloud-controller-host/sdk/testing";

const node = { metadata: { name: "node0" } };
const service = { metadata: { namespace: "default", name: "web", uid: "11-22" } };

function instancesOf(memory: MemoryCloud): Instances {
  const { instances } = memory.cloud;
  if (instances === undefined) throw new Error("no instances");
  return instances;
}
function balancersOf(memory: MemoryCloud): LoadBalancers {
  const { loadBalancers } = memory.cloud;
  if (loadBalancers === undefined) throw new Error("no load balancers");
  return loadBalancers;
}
function routesOf(memory: MemoryCloud): Routes {
  const { routes } = memory.cloud;
  if (routes === undefined) throw new Error("no routes");
  return routes;
}

test("an instance exists while it is in the state, and returns its fields", async () => {
  const memory = memoryCloud({ name: "fake" });
  const instances = instancesOf(memory);
  expect(await instances.instanceExists(node)).toBe(false);
  await expect(instances.instanceMetadata(node)).rejects.toBeInstanceOf(InstanceNotFoundError);
  memory.machines.set("node0", { zone: "z1", shutdown: true });
  expect(await instances.instanceExists(node)).toBe(true);
  expect(await instances.instanceShutdown(node)).toBe(true);
  expect(await instances.instanceMetadata(node)).toEqual({
    providerID: "fake://node0",
    instanceType: "",
    nodeAddresses: [],
    zone: "z1",
    region: "",
  });
});

test("an omitted capability is undefined", () => {
  const { cloud } = memoryCloud({ without: ["routes", "nodeMasks"] });
  expect(Object.keys(cloud).toSorted()).toEqual(["hasClusterID", "instances", "loadBalancers", "name"]);
});

test("a load balancer records the nodes of its last update", async () => {
  const memory = memoryCloud();
  const balancers = balancersOf(memory);
  const status = await balancers.ensureLoadBalancer("c", service, [node]);
  await balancers.updateLoadBalancer("c", service, []);
  expect(memory.balancers.get("default/web")).toEqual({ name: "a1122", clusterName: "c", nodes: [], status });
  await balancers.ensureLoadBalancerDeleted("c", service);
  expect(await balancers.getLoadBalancer("c", service)).toBeUndefined();
  await expect(balancers.updateLoadBalancer("c", service, [])).rejects.toThrow("has no load balancer");
});

test("a thousand load balancers have distinct, valid addresses", async () => {
  const balancers = balancersOf(memoryCloud());
  const addresses = new Set<string>();
  for (let index = 0; index < 1000; index++) {
    const status = await balancers.ensureLoadBalancer("c", { metadata: { name: `web-${index}` } }, []);
    addresses.add(status?.ingress?.[0]?.ip ?? "");
  }
  expect(addresses.size).toBe(1000);
  expect([...addresses].filter((address) => isIP(address) !== 4)).toEqual([]);
});

test("creating a route with an existing name fails", async () => {
  const memory = memoryCloud();
  const route = { name: "", targetNode: "node0", destinationCIDR: "10.0.0.0/24" };
  await routesOf(memory).createRoute("c", "hint", route);
  expect([...memory.routes.keys()]).toEqual(["c-node0-10.0.0.0/24"]);
  await expect(routesOf(memory).createRoute("c", "hint", route)).rejects.toThrow("already exists");
});

describe("scripting", () => {
  test("a scripted failure applies the given number of times, and only to its target", async () => {
    const memory = memoryCloud();
    memory.machines.set("node0", {});
    memory.machines.set("node1", {});
    memory.fail("instanceExists", new Error("busy"), { times: 1, target: "node0" });
    const instances = instancesOf(memory);
    expect(await instances.instanceExists({ metadata: { name: "node1" } })).toBe(true);
    await expect(instances.instanceExists(node)).rejects.toThrow("busy");
    expect(await instances.instanceExists(node)).toBe(true);
  });

  test("an interceptor may replace the result of a call", async () => {
    const memory = memoryCloud();
    const interception = memory.intercept("instanceMetadata", async () => undefined);
    expect(await instancesOf(memory).instanceMetadata(node)).toBeUndefined();
    interception.remove();
    await expect(instancesOf(memory).instanceMetadata(node)).rejects.toBeInstanceOf(InstanceNotFoundError);
  });

  test("held calls wait until they are released, and are visible meanwhile", async () => {
    const memory = memoryCloud();
    const hold = memory.hold("instanceExists");
    const call = instancesOf(memory).instanceExists(node);
    await Promise.resolve();
    expect([hold.waiting, memory.calls[0]?.ended]).toEqual([1, false]);
    hold.release();
    expect(await call).toBe(false);
    expect([hold.waiting, memory.calls[0]?.ended]).toEqual([0, true]);
  });

  test("a held call ends when its signal aborts, unless it is stubborn", async () => {
    const memory = memoryCloud();
    const aborter = new AbortController();
    memory.hold("instanceExists");
    const hold = memory.hold("instanceShutdown", { stubborn: true });
    const heeding = instancesOf(memory).instanceExists(node, { signal: aborter.signal });
    const stubborn = instancesOf(memory).instanceShutdown(node, { signal: aborter.signal });
    aborter.abort(new Error("stop"));
    await expect(heeding).rejects.toThrow("stop");
    expect(hold.waiting).toBe(1);
    hold.release();
    await expect(stubborn).rejects.toThrow("stop");
  });

  test("every call takes the cloud's latency on its clock", async () => {
    const clock = manualClock();
    const memory = memoryCloud({ latency: { clock, ms: 10 } });
    const call = instancesOf(memory).instanceExists(node);
    await clock.advance(9);
    expect(memory.calls[0]?.ended).toBe(false);
    await clock.advance(1);
    expect(await call).toBe(false);
  });

  test("every call rejects after disposal", async () => {
    const memory = memoryCloud();
    await memory.cloud[Symbol.asyncDispose]();
    expect(memory.disposed).toBe(true);
    await expect(instancesOf(memory).instanceExists(node)).rejects.toThrow("after its disposal");
  });
});
