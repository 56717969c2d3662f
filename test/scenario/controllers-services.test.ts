import { expect, setDefaultTimeout, test } from "bun:test";

import { controllerNames, kinds, type Service } from "cloud-controller-host/sdk";

import { serveCloud, type ServedCloud } from "../kit/cloud-server.ts";
import { startControllers } from "../kit/controllers-host.ts";
import type { HostProcess } from "../kit/host-process.ts";
import { HostLab } from "../kit/host-under-test.ts";
import { joinNode } from "../kit/kubelet.ts";
import { describeOnReal, writesAmong } from "../kit/platform.ts";
import {
  addressesOf,
  balancedService,
  cleanupFinalizer,
  deleteService,
  finalizersOf,
  findService,
  patchService,
} from "../kit/services.ts";

setDefaultTimeout(180_000);

const foreign = "example.com/foreign";

describeOnReal("Services of type LoadBalancer", (platform) => {
  const lab = new HostLab(platform);
  const find = (name: string): Promise<Service | undefined> => findService(platform().admin, name);
  const make = (service: Service): Promise<Service> => platform().admin.create(kinds.Service, service);

  async function cluster() {
    const cloud = lab.use(await serveCloud());
    for (const name of ["node-1", "node-2"]) await joinNode(platform().admin, cloud.memory, name);
    const controllers = [controllerNames.serviceLB];
    return { cloud, host: await startControllers(lab, platform(), cloud, { controllers }) };
  }

  const served = (host: HostProcess, { memory }: ServedCloud, name: string): Promise<Service> =>
    host.eventually(`${name} has the address of its load balancer`, async () => {
      const address = memory.balancers.get(`default/${name}`)?.status.ingress?.[0]?.ip;
      const service = await find(name);
      return address !== undefined && addressesOf(service).join() === address && service;
    });

  const ensures = ({ memory }: ServedCloud, name: string): number =>
    memory.callsOf("ensureLoadBalancer").filter(({ target }) => target === `default/${name}`).length;

  /** Something that is certain to be worked on after all that was asked for before. */
  async function afterwards(host: HostProcess, cloud: ServedCloud): Promise<void> {
    await make(balancedService("afterwards"));
    await served(host, cloud, "afterwards");
  }

  test("Services of type LoadBalancer that are created get a load balancer with all nodes, its address, a finalizer and their events", async () => {
    const { cloud, host } = await cluster();
    await make(balancedService("web"));
    const service = await served(host, cloud, "web");
    expect(finalizersOf(service)).toEqual([cleanupFinalizer]);
    expect(cloud.memory.balancers.get("default/web")).toMatchObject({
      clusterName: "kubernetes",
      nodes: expect.arrayContaining(["node-1", "node-2"]),
    });
    await host.eventually("its events are there", async () => {
      const events = await platform().admin.list(kinds.Event);
      const reasons = events.filter(({ involvedObject }) => involvedObject.name === "web").map(({ reason }) => reason);
      return reasons.includes("EnsuringLoadBalancer") && reasons.includes("EnsuredLoadBalancer");
    });
    expect(ensures(cloud, "web")).toBe(1);
  });

  test("Services of type LoadBalancer that change are ensured again only if the change is relevant", async () => {
    const { cloud, host } = await cluster();
    await make(balancedService("web"));
    await make(balancedService("still"));
    const before = await served(host, cloud, "web");
    await served(host, cloud, "still");
    await patchService(platform().admin, "still", {
      metadata: { labels: { release: "2" } },
      spec: { selector: { app: "x" } },
    });
    await patchService(platform().admin, "web", { spec: { ports: [{ port: 8080, protocol: "TCP" }] } });
    await host.eventually("it is ensured with its new port", () =>
      cloud.memory
        .callsOf("ensureLoadBalancer")
        .some(({ target, args: [, service] }) => target === "default/web" && JSON.stringify(service).includes("8080")),
    );
    await afterwards(host, cloud);
    expect(ensures(cloud, "still")).toBe(1);
    expect(addressesOf(await find("web"))).toEqual(addressesOf(before));
    expect(cloud.changes.filter(({ target }) => target === "default/web")).toHaveLength(1);
  });

  test("Services of type LoadBalancer that flip their type lose the load balancer, finalizer and address, and get new ones when they flip back", async () => {
    const { cloud, host } = await cluster();
    await make(balancedService("web"));
    await served(host, cloud, "web");
    await patchService(platform().admin, "web", {
      metadata: { finalizers: [cleanupFinalizer, foreign] },
      spec: { type: "ClusterIP" },
    });
    await host.eventually("the load balancer is gone, and so is every trace of it", async () => {
      const service = await find("web");
      return (
        cloud.memory.balancers.size === 0 &&
        finalizersOf(service).join() === foreign &&
        addressesOf(service).length === 0
      );
    });
    await patchService(platform().admin, "web", { spec: { type: "LoadBalancer" } });
    const again = await served(host, cloud, "web");
    expect(finalizersOf(again).toSorted()).toEqual([foreign, cleanupFinalizer]);
    expect(cloud.changes.map(({ what }) => what)).toEqual(["balancer made", "balancer removed", "balancer made"]);
  });

  test("Services of type LoadBalancer that are deleted release their finalizer when their load balancer is deleted, whatever other finalizers remain", async () => {
    const { cloud, host } = await cluster();
    await make(balancedService("web"));
    await make({ ...balancedService("held"), metadata: { namespace: "default", name: "held", finalizers: [foreign] } });
    for (const name of ["web", "held"]) await served(host, cloud, name);
    const hold = cloud.memory.hold("ensureLoadBalancerDeleted");
    for (const name of ["web", "held"]) await deleteService(platform().admin, name);
    await host.eventually("both deletions are under way", () => hold.waiting === 2);
    expect(finalizersOf(await find("web"))).toContain(cleanupFinalizer);
    hold.release();
    await host.eventually("one is gone", async () => (await find("web")) === undefined);
    await host.eventually("the other is let go", async () => {
      const service = await find("held");
      return finalizersOf(service).join() === foreign && addressesOf(service).length === 0;
    });
    expect(cloud.memory.balancers.size).toBe(0);
    expect(cloud.memory.callsOf("ensureLoadBalancerDeleted")).toHaveLength(2);
  });

  test("Services of type LoadBalancer that are deleted without the finalizer leave no load balancer behind", async () => {
    const { cloud, host } = await cluster();
    await make(balancedService("web"));
    await served(host, cloud, "web");
    await patchService(platform().admin, "web", { metadata: { finalizers: null } });
    await deleteService(platform().admin, "web");
    await host.eventually("the load balancer is gone", () => cloud.memory.balancers.size === 0);
  });

  test("Services of type LoadBalancer with a loadBalancerClass, set at creation or later, are ignored", async () => {
    const { cloud, host } = await cluster();
    await make(balancedService("classed", { loadBalancerClass: "example.com/other" }));
    await make(balancedService("flipped"));
    await served(host, cloud, "flipped");
    await patchService(platform().admin, "flipped", { spec: { type: "ClusterIP" } });
    await host.eventually("its load balancer is gone", async () => finalizersOf(await find("flipped")).length === 0);
    const mark = await platform().mark();
    await patchService(platform().admin, "flipped", {
      spec: { type: "LoadBalancer", loadBalancerClass: "example.com/other" },
    });
    await afterwards(host, cloud);
    for (const name of ["classed", "flipped"]) await deleteService(platform().admin, name);
    await deleteService(platform().admin, "afterwards");
    await host.eventually("all Services are gone", async () => (await find("afterwards")) === undefined);
    expect(writesAmong(await platform().requests(mark)).filter(({ name }) => name !== "afterwards")).toEqual([]);
    expect(new Set(cloud.memory.calls.map(({ target }) => target))).toEqual(
      new Set(["default/flipped", "default/afterwards"]),
    );
    expect(ensures(cloud, "flipped")).toBe(1);
  });

  test("get one update per node that joins or leaves, and no other node updates", async () => {
    const { cloud, host } = await cluster();
    for (const name of ["one", "two", "three"]) await make(balancedService(name));
    for (const name of ["one", "two", "three"]) await served(host, cloud, name);
    await joinNode(platform().admin, cloud.memory, "node-3");
    const behind = (count: number) => () =>
      [...cloud.memory.balancers.values()].every(({ nodes }) => nodes.length === count);
    await host.eventually("the new node is behind all of them", behind(3));
    await platform().admin.patch(kinds.Node, { name: "node-3" }, "merge", { metadata: { labels: { mine: "1" } } });
    await platform().admin.delete(kinds.Node, { name: "node-1" });
    await host.eventually("the deleted node is behind none of them", behind(2));
    expect(cloud.memory.callsOf("updateLoadBalancer")).toHaveLength(6);
    expect(cloud.memory.callsOf("ensureLoadBalancer")).toHaveLength(3);
    expect(cloud.overlaps).toEqual([]);
  });
});
