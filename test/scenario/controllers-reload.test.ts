import { expect, setDefaultTimeout, test } from "bun:test";

import {
  controllerNames,
  isUninitialized,
  kinds,
  type KubeEvent,
  type Node,
  type Service,
} from "cloud-controller-host/sdk";
import type { CloudMethod } from "cloud-controller-host/sdk/testing";

import { serveCloud, type ServedCloud } from "../kit/cloud-server.ts";
import { startControllers } from "../kit/controllers-host.ts";
import type { HostProcess } from "../kit/host-process.ts";
import { HostLab } from "../kit/host-under-test.ts";
import { joinNode, loseMachine, nodeName } from "../kit/kubelet.ts";
import { describeOnReal, writesAmong } from "../kit/platform.ts";
import {
  addressesOf,
  balancedService,
  cleanupFinalizer,
  deleteService,
  finalizersOf,
  patchService,
} from "../kit/services.ts";

setDefaultTimeout(180_000);

const count = 40;
const names = Array.from({ length: count }, (_, index) => nodeName(index + 1));

/**
 * A cloud so slow that a reload falls into the midst of its calls, in whichever half, and above all into those of these
 * methods.
 */
async function slowCloud(...slowest: readonly CloudMethod[]): Promise<ServedCloud> {
  const cloud = await serveCloud({ delay: () => ({ beforeMs: 150, afterMs: 150 }) });
  for (const method of slowest)
    cloud.memory.intercept(method, async ({ proceed }) => {
      await Bun.sleep(500);
      return await proceed();
    });
  return cloud;
}

describeOnReal("a reload in the midst of", (platform) => {
  const lab = new HostLab(platform);

  /** Reloads up to four times, each as soon as the cloud is at work, and then lets the last generation finish. */
  async function reloadUntil(host: HostProcess, cloud: ServedCloud, over: () => Promise<boolean>): Promise<void> {
    for (let times = 0; times < 4; times++) {
      await host.eventually("the cloud is at work", async () => cloud.underWay > 0 || (await over()));
      if (times >= 2 && cloud.underWay === 0) break;
      const { generation } = await host.status();
      await cloud.touchConfig();
      await host.until("the next generation runs", (status) => status.generation > generation && status.running);
    }
    await host.eventually("it is over", over);
  }

  const sum = (what: string, { changes }: ServedCloud): readonly string[] =>
    changes.filter((change) => change.what === what).map(({ target }) => target);

  /** What the host has written, conflicts left out: each write as its verb, resource and name, and how often. */
  async function written(): Promise<Readonly<Record<string, number>>> {
    const done = writesAmong(await platform().requests()).filter(({ code }) => code !== 409);
    const groups = Map.groupBy(done, ({ verb, resource, name }) => `${verb} ${resource} ${name}`);
    return Object.fromEntries([...groups].map(([write, times]) => [write, times.length]));
  }

  test("nodes joining initializes each once, with one CIDR, one route and one event", async () => {
    const cloud = lab.use(await slowCloud("createRoute"));
    const host = await startControllers(lab, platform(), cloud);
    await host.until("it runs", ({ running }) => running);
    const joining = Promise.all(names.map((name) => joinNode(platform().admin, cloud.memory, name)));
    await reloadUntil(host, cloud, async () => {
      const nodes: readonly Node[] = await platform().admin.list(kinds.Node);
      return (
        nodes.length === count &&
        cloud.memory.routes.size === count &&
        nodes.every(
          (node) =>
            !isUninitialized(node) &&
            node.status?.conditions?.some(({ type, status }) => type === "NetworkUnavailable" && status === "False"),
        )
      );
    });
    await joining;

    expect(new Set(sum("route made", cloud)).size).toBe(count);
    expect(sum("route made", cloud)).toHaveLength(count);
    expect(sum("route removed", cloud)).toEqual([]);
    const writes = await written();
    for (const name of names)
      // Two patches: one initializes the node, one assigns its Pod CIDR.
      expect({ name, patches: writes[`patch nodes ${name}`], updates: writes[`update nodes ${name}`] }).toEqual({
        name,
        patches: 2,
        updates: undefined,
      });
    await host.eventually("each has its event", async () => {
      const events: readonly KubeEvent[] = await platform().admin.list(kinds.Event);
      return events.filter(({ reason, count: times }) => reason === "Synced" && times === 1).length === count;
    });
    expect(cloud.memory.callsOf("createRoute")).toHaveLength(count);
    expect(cloud.overlaps).toEqual([]);
  });

  const services = (): Promise<readonly Service[]> => platform().admin.list(kinds.Service, { namespace: "default" });
  const ours = async (): Promise<readonly Service[]> =>
    (await services()).filter(({ metadata }) => metadata?.name?.startsWith("web-"));

  /** Services that all have their load balancers, and the host that made them. */
  async function withServices(...slowest: readonly CloudMethod[]) {
    const cloud = lab.use(await slowCloud(...slowest));
    for (const name of names.slice(0, 2)) await joinNode(platform().admin, cloud.memory, name);
    const controllers = [controllerNames.serviceLB];
    const flags = ["--concurrent-service-syncs=16"];
    const host = await startControllers(lab, platform(), cloud, { controllers, flags });
    await host.until("it runs", ({ running }) => running);
    const coming = Promise.all(
      names.map((_, index) => platform().admin.create(kinds.Service, balancedService(`web-${index}`))),
    );
    return { cloud, host, coming };
  }

  const allServed = async ({ memory }: ServedCloud): Promise<boolean> => {
    const found = await ours();
    return (
      found.length === count &&
      found.every((service) => {
        const balancer = memory.balancers.get(`default/${service.metadata?.name}`);
        return balancer !== undefined && addressesOf(service).join() === balancer.status.ingress?.[0]?.ip;
      })
    );
  };

  test("Services being created creates each load balancer, finalizer and status once", async () => {
    const { cloud, host, coming } = await withServices("ensureLoadBalancer");
    await reloadUntil(host, cloud, () => allServed(cloud));
    await coming;
    expect(new Set(sum("balancer made", cloud)).size).toBe(count);
    expect(sum("balancer made", cloud)).toHaveLength(count);
    expect(sum("balancer removed", cloud)).toEqual([]);
    // One patch for the finalizer, one for the status; none of them is repeated by a later generation.
    expect(await written()).toEqual(
      Object.fromEntries(names.map((_, index) => [`patch services/status web-${index}`, 2])),
    );
    expect(cloud.overlaps).toEqual([]);
  });

  test("Services being deleted deletes each load balancer once, and removes each finalizer", async () => {
    const { cloud, host, coming } = await withServices("ensureLoadBalancerDeleted");
    await coming;
    await host.eventually("all are served", () => allServed(cloud));
    const going = Promise.all(
      (await ours()).map(({ metadata: { name = "" } = {} }, index) =>
        index % 2 === 0
          ? deleteService(platform().admin, name)
          : patchService(platform().admin, name, { spec: { type: "ClusterIP" } }),
      ),
    );
    await reloadUntil(host, cloud, async () => {
      const left = await ours();
      return (
        left.length === count / 2 &&
        left.every((service) => !finalizersOf(service).includes(cleanupFinalizer) && addressesOf(service).length === 0)
      );
    });
    await going;
    expect(cloud.memory.balancers.size).toBe(0);
    expect(new Set(sum("balancer removed", cloud)).size).toBe(count);
    expect(sum("balancer removed", cloud)).toHaveLength(count);
    expect(sum("balancer made", cloud)).toHaveLength(count);
    expect(cloud.overlaps).toEqual([]);
  });

  test("a change of nodes updates every load balancer", async () => {
    const { cloud, host, coming } = await withServices();
    await coming;
    await host.eventually("all are served", () => allServed(cloud));
    await joinNode(platform().admin, cloud.memory, "node-100");
    await platform().admin.delete(kinds.Node, { name: nodeName(1) });
    const wanted = [nodeName(2), "node-100"].toSorted().join();
    await reloadUntil(host, cloud, async () =>
      [...cloud.memory.balancers.values()].every(({ nodes }) => nodes.toSorted().join() === wanted),
    );
    expect(sum("balancer made", cloud)).toHaveLength(count);
    expect(cloud.overlaps).toEqual([]);
  });

  test("nodes leaving deletes those whose instance no longer exists, and no others", async () => {
    const cloud = lab.use(await slowCloud());
    for (const name of names) await joinNode(platform().admin, cloud.memory, name);
    const host = await startControllers(lab, platform(), cloud, {
      flags: ["--cloud-node-lifecycle-controller-max-missing-percent=100"],
    });
    await host.eventually("all have their route", () => cloud.memory.routes.size === count);
    const lost = names.filter((_, index) => index % 2 === 0);
    const going = Promise.all(lost.map((name) => loseMachine(platform().admin, cloud.memory, name)));
    const left = async (): Promise<readonly string[]> =>
      (await platform().admin.list(kinds.Node)).map(({ metadata }) => metadata?.name ?? "").toSorted();
    await reloadUntil(
      host,
      cloud,
      async () => (await left()).length === count / 2 && cloud.memory.routes.size === count / 2,
    );
    await going;
    expect(await left()).toEqual(names.filter((name) => !lost.includes(name)).toSorted());
    const deletions = Object.entries(await written()).filter(([write]) => write.startsWith("delete "));
    expect(Object.fromEntries(deletions)).toEqual(Object.fromEntries(lost.map((name) => [`delete nodes ${name}`, 1])));
    expect(new Set(sum("route removed", cloud)).size).toBe(count / 2);
    expect(sum("route removed", cloud)).toHaveLength(count / 2);
    expect(sum("route made", cloud)).toHaveLength(count);
    expect(cloud.overlaps).toEqual([]);
  });
});
