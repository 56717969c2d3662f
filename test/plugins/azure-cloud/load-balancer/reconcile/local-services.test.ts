import { describe, expect, test } from "bun:test";
import { setImmediate } from "node:timers/promises";

import type { EndpointSlice, Informer, InformerHandler, KindRef, KubeObject, Service } from "cloud-controller-host/sdk";
import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import { objectAt, objectsAt, stringAt } from "../../../../../plugins/azure-cloud/json.ts";
import { LocalServices } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/local-services.ts";
import type { Reconciled } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/wanted.ts";
import { errorOf } from "../../../../kit/rejection.ts";
import { type Cluster, type Generation, openCluster, serviceOf } from "../cluster.ts";

const config = {
  loadBalancerBackendPoolConfigurationType: "nodeIP",
  multipleStandardLoadBalancerConfigurations: [{ name: "kubernetes", primaryVMSet: "vmss0" }],
};
const local = serviceOf("web", { spec: { externalTrafficPolicy: "Local", healthCheckNodePort: 32_000 } });

const withNamespace = (service: Service, namespace: string): Service => ({
  ...service,
  metadata: { ...service.metadata, namespace },
});

/** Addresses in a pool, by default that of the local Service. */
function addressesIn({ world }: Cluster, name = "default-web"): readonly string[] {
  const balancer = world.simulator.get("/providers/Microsoft.Network/loadBalancers/kubernetes");
  const pools = objectsAt(balancer?.properties, "backendAddressPools");
  const pool = pools.find((one) => stringAt(one, "name") === name);
  return objectsAt(objectAt(pool, "properties"), "loadBalancerBackendAddresses").map(
    (address) => stringAt(objectAt(address, "properties"), "ipAddress") ?? "",
  );
}

/** Runs the loops of a process until it is disposed of. */
function runLoops({ balancers }: Generation): AsyncDisposable {
  const stop = new AbortController();
  const ended = balancers.run(stop.signal);
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await ended;
    },
  };
}

/** A running process that serves the local Service, whose endpoint is on the first node. */
async function serving(cluster: Cluster): Promise<AsyncDisposable & { readonly generation: Generation }> {
  cluster.setEndpoints(local, ["vmss0000000"]);
  const generation = await cluster.start(config);
  await cluster.ensure(generation, local);
  return { generation, ...runLoops(generation) };
}

describe("the pool of a local Service with several load balancers", () => {
  test("follows its endpoints from node to node, and costs nothing while their nodes stay the same", async () => {
    await using cluster = await openCluster(3);
    await using host = await serving(cluster);
    expect(addressesIn(cluster)).toEqual(["10.240.0.4"]);
    const reconciled = (): number =>
      cluster.world.measured.filter((line) => line.startsWith("cloudprovider_azure_services_reconciled_total")).length;
    cluster.world.simulator.clearLog();
    cluster.setEndpoints(local, ["vmss0000000", "vmss0000000"]);
    await Bun.sleep(20);
    expect(cluster.writes()).toEqual([]);
    expect(reconciled()).toBe(1);
    cluster.setEndpoints(local, ["vmss0000001", "vmss0000002"]);
    await eventually("the pool has the new nodes", () => addressesIn(cluster).join() === "10.240.0.5,10.240.0.6");
    await eventually("it is reported", () => host.generation.events.includes("web LoadBalancerBackendPoolUpdated"));
  });

  test("follows its endpoints with the nodes of the latest sync, also of another Service, which no pool loses by it", async () => {
    await using cluster = await openCluster(3);
    const [late] = cluster.nodes.splice(2);
    if (late === undefined) throw new Error("the cluster has three nodes");
    await using host = await serving(cluster);
    cluster.nodes.push(late);
    await cluster.ensure(host.generation, serviceOf("other"));
    const all = ["10.240.0.4", "10.240.0.5", "10.240.0.6"];
    expect(addressesIn(cluster, "kubernetes")).toEqual(all);
    cluster.setEndpoints(local, ["vmss0000002"]);
    await eventually("the pool has the new node", () => addressesIn(cluster).join() === "10.240.0.6");
    expect(addressesIn(cluster, "kubernetes")).toEqual(all);
  });

  test("has the nodes of both Services whose namespaces and names make the same pool name", async () => {
    await using cluster = await openCluster(3);
    const spec = { externalTrafficPolicy: "Local", healthCheckNodePort: 32_000 };
    const [first, second] = [serviceOf("b-c", { spec }), withNamespace(serviceOf("c", { spec }), "default-b")];
    const pool = "default-b-c";
    cluster.setEndpoints(first, ["vmss0000000"]);
    const generation = await cluster.start(config);
    await cluster.ensure(generation, first);
    expect(addressesIn(cluster, pool)).toEqual(["10.240.0.4"]);
    await cluster.ensure(generation, second);
    // The slices of a new Service come later than itself.
    expect(addressesIn(cluster, pool)).toEqual(["10.240.0.4", "10.240.0.5", "10.240.0.6"]);
    cluster.setEndpoints(second, ["vmss0000001"]);
    await cluster.ensure(generation, second);
    expect(addressesIn(cluster, pool)).toEqual(["10.240.0.4", "10.240.0.5"]);
    await using _ = runLoops(generation);
    cluster.setEndpoints(first, ["vmss0000002"]);
    await eventually("the pool follows the first", () => addressesIn(cluster, pool).join() === "10.240.0.5,10.240.0.6");
    await Promise.all([cluster.ensure(generation, first), cluster.ensure(generation, second)]);
    expect(addressesIn(cluster, pool)).toEqual(["10.240.0.5", "10.240.0.6"]);
    await cluster.ensure(generation, withNamespace(serviceOf("c"), "default-b"));
    await cluster.ensure(generation, first);
    expect(addressesIn(cluster, pool)).toEqual(["10.240.0.6"]);
  });

  test("follows its endpoints while its Service is refused, whose rules stay", async () => {
    await using cluster = await openCluster(3);
    await using host = await serving(cluster);
    const rules = (): number =>
      cluster.world.simulator.resources().flatMap((one) => objectsAt(one.properties, "loadBalancingRules")).length;
    expect(rules()).toBe(1);
    const annotations = { "service.beta.kubernetes.io/azure-load-balancer-tcp-idle-timeout": "1" };
    const refused = { ...local, metadata: { ...local.metadata, annotations } };
    expect(String(await errorOf(cluster.ensure(host.generation, refused)))).toContain(
      "is not an integer from 4 to 100",
    );
    expect(addressesIn(cluster)).toEqual(["10.240.0.4"]);
    cluster.setEndpoints(local, ["vmss0000001", "vmss0000002"]);
    await eventually("the pool has the new nodes", () => addressesIn(cluster).join() === "10.240.0.5,10.240.0.6");
    expect(rules()).toBe(1);
  });

  test("is left alone once its Service is deleted, and reported when ARM refuses it", async () => {
    await using cluster = await openCluster(2);
    await using host = await serving(cluster);
    cluster.world.simulator.failNext({ method: "PUT", path: "loadBalancers/kubernetes" }, { status: 400 });
    cluster.setEndpoints(local, ["vmss0000001"]);
    await eventually("it is reported", () =>
      host.generation.events.includes("web LoadBalancerBackendPoolUpdateFailed"),
    );
    await eventually("it is tried again", () => addressesIn(cluster).join() === "10.240.0.5");
    await cluster.remove(host.generation, local);
    cluster.world.simulator.clearLog();
    cluster.setEndpoints(local, ["vmss0000000"]);
    await Bun.sleep(20);
    expect(cluster.writes()).toEqual([]);
  });
});

describe("endpoint slices of a local Service", () => {
  /** A slice of the Service with endpoints on the nodes. */
  const sliceOf = (name: string, ...nodeNames: readonly string[]): EndpointSlice => ({
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name, namespace: "default", labels: { "kubernetes.io/service-name": "web" } },
    addressType: "IPv4",
    endpoints: nodeNames.map((nodeName) => ({ addresses: ["10.0.0.1"], nodeName })),
  });

  function follow({
    current = (service: Service): Service | undefined => service,
    result = (_name: string): Promise<Reconciled> => Promise.resolve({ status: undefined, writes: 0 }),
  } = {}) {
    const clock = manualClock();
    const handlers = new Set<Required<InformerHandler<EndpointSlice>>>();
    const informers = {
      of: <T extends KubeObject>(kind: KindRef<T>): Informer<T> => ({
        store: { get: () => undefined, list: () => [], size: 0 },
        handle(handler) {
          const isOf = (object: KubeObject): object is T => object.kind === kind.kind;
          const own: Required<InformerHandler<EndpointSlice>> = {
            added: (slice) => isOf(slice) && handler.added?.(slice),
            updated: (before, after) => isOf(before) && isOf(after) && handler.updated?.(before, after),
            deleted: (slice) => isOf(slice) && handler.deleted?.(slice),
          };
          handlers.add(own);
          return { remove: () => void handlers.delete(own) };
        },
        hasSynced: () => true,
      }),
    };
    const refreshed: string[] = [];
    const events: string[] = [];
    const locals = new LocalServices({
      context: { clock, events: { event: (_service, _type, reason) => void events.push(reason) }, informers },
      intervalMs: 30_000,
      current,
      refresh(service) {
        const name = service.metadata?.name ?? "";
        refreshed.push(name);
        return result(name);
      },
    });
    const stop = new AbortController();
    const running = locals.run(stop.signal);
    /** Names of the Services that are refreshed in the interval after the change. */
    const refreshes = async (
      change: (handler: Required<InformerHandler<EndpointSlice>>) => void,
    ): Promise<readonly string[]> => {
      refreshed.length = 0;
      await eventually("it waits for the next interval", () => clock.sleepers === 1);
      for (const handler of handlers) change(handler);
      await clock.advance(30_000);
      return [...refreshed];
    };
    return { locals, handlers, refreshes, events, stop: () => (stop.abort(), running) };
  }

  test("change its pool when they are created, move to other nodes or are deleted, all in an interval together", async () => {
    const { locals, handlers, refreshes, events, stop } = follow();
    locals.ensured(local);
    expect(await refreshes((handler) => handler.added(sliceOf("a", "node-0")))).toEqual(["web"]);
    expect(await refreshes((handler) => handler.updated(sliceOf("a", "node-0"), sliceOf("a", "node-1")))).toEqual([
      "web",
    ]);
    expect(await refreshes((handler) => handler.updated(sliceOf("a", "b", "c"), sliceOf("a", "c", "b", "c")))).toEqual(
      [],
    );
    const both = (handler: Required<InformerHandler<EndpointSlice>>): void => {
      handler.deleted(sliceOf("a"));
      handler.deleted(sliceOf("b"));
    };
    expect(await refreshes(both)).toEqual(["web"]);
    expect(await refreshes(() => undefined)).toEqual([]);
    await stop();
    // The pool was found unchanged each time.
    expect(events).toEqual([]);
    expect(handlers.size).toBe(0);
  });

  test("change nothing while its load balancer was not ensured, or once it is no longer local", async () => {
    const { locals, refreshes, stop } = follow();
    expect(await refreshes((handler) => handler.added(sliceOf("a", "node-0")))).toEqual([]);
    locals.ensured(local);
    locals.ensured(serviceOf("web"));
    expect(await refreshes((handler) => handler.deleted(sliceOf("a", "node-0")))).toEqual([]);
    await stop();
  });

  test("change its pool once its load balancer exists, if they have changed while an ensure that planned without them ended", async () => {
    const { locals, refreshes, stop } = follow();
    expect(await refreshes((handler) => handler.added(sliceOf("a", "node-0")))).toEqual([]);
    locals.ensured(local);
    expect(await refreshes(() => undefined)).toEqual(["web"]);
    locals.ensured(local);
    expect(await refreshes(() => undefined)).toEqual([]);
    locals.deleted(local);
    expect(await refreshes((handler) => handler.deleted(sliceOf("a", "node-0")))).toEqual([]);
    expect(await refreshes(() => undefined)).toEqual([]);
    locals.ensured(local);
    // An ensure that takes longer than an interval has seen them.
    expect(await refreshes(() => undefined)).toEqual([]);
    await stop();
  });

  test("change nothing once the Service is gone from the API server, and are not reported as failed", async () => {
    const { locals, refreshes, events, stop } = follow({ current: () => undefined });
    locals.ensured(local);
    expect(await refreshes((handler) => handler.deleted(sliceOf("a", "node-0")))).toEqual([]);
    expect(events).toEqual([]);
    await stop();
  });

  test("change its pool while that of another Service is being written for long, and that one's afterwards", async () => {
    const slow = Promise.withResolvers<Reconciled>();
    const done = { status: undefined, writes: 0 };
    const { locals, refreshes, stop } = follow({
      result: (name) => (name === "web" ? slow.promise : Promise.resolve(done)),
    });
    const other = serviceOf("other", { spec: { externalTrafficPolicy: "Local" } });
    const sliceOfOther = (...nodeNames: readonly string[]): EndpointSlice => ({
      ...sliceOf("o", ...nodeNames),
      metadata: { name: "o", namespace: "default", labels: { "kubernetes.io/service-name": "other" } },
    });
    for (const service of [local, other]) locals.ensured(service);
    expect(await refreshes((handler) => handler.added(sliceOf("a", "node-0")))).toEqual(["web"]);
    const both = (handler: Required<InformerHandler<EndpointSlice>>): void => {
      handler.added(sliceOfOther("node-1"));
      handler.updated(sliceOf("a", "node-0"), sliceOf("a", "node-1"));
    };
    expect(await refreshes(both)).toEqual(["other"]);
    slow.resolve(done);
    expect(await refreshes(() => undefined)).toEqual(["web"]);
    expect(await refreshes(() => undefined)).toEqual([]);
    await stop();
  });

  test("are waited for when the process stops", async () => {
    const slow = Promise.withResolvers<Reconciled>();
    const { locals, refreshes, stop } = follow({ result: () => slow.promise });
    locals.ensured(local);
    expect(await refreshes((handler) => handler.added(sliceOf("a", "node-0")))).toEqual(["web"]);
    let hasStopped = false;
    const stopping = stop().then(() => void (hasStopped = true));
    for (const _ of [1, 2, 3]) await setImmediate();
    expect(hasStopped).toBe(false);
    slow.resolve({ status: undefined, writes: 0 });
    await stopping;
  });

  test("are waited for before another process serves the Service, and change nothing from then on, even if that failed", async () => {
    const underway = Promise.withResolvers<never>();
    const { locals, refreshes, stop } = follow({ result: () => underway.promise });
    locals.ensured(local);
    expect(await refreshes((handler) => handler.added(sliceOf("a", "node-0")))).toEqual(["web"]);
    let hasLeft = false;
    const leaving = locals.left(local).then(() => void (hasLeft = true));
    for (const _ of [1, 2, 3]) await setImmediate();
    expect(hasLeft).toBe(false);
    underway.reject(new Error("refused"));
    await leaving;
    expect(await refreshes((handler) => handler.updated(sliceOf("a", "node-0"), sliceOf("a", "node-1")))).toEqual([]);
    await stop();
  });
});
