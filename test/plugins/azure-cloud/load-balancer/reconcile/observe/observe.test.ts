import { describe, expect, test } from "bun:test";

import {
  annotations,
  type CloudContext,
  type Informer,
  type InformerHandler,
  keyOf,
  type KindRef,
  kinds,
  type KubeObject,
  type Node,
  type Service,
} from "cloud-controller-host/sdk";

import { networkResources } from "../../../../../../plugins/azure-cloud/arm/writes/network-resources.ts";
import { decodeConfig } from "../../../../../../plugins/azure-cloud/config/decode.ts";
import { parseJson } from "../../../../../../plugins/azure-cloud/json.ts";
import { plannerConfig } from "../../../../../../plugins/azure-cloud/load-balancer/model/planner-config.ts";
import { PoolReads } from "../../../../../../plugins/azure-cloud/load-balancer/pools/pool-reads.ts";
import { NewServices } from "../../../../../../plugins/azure-cloud/load-balancer/reconcile/apply/preconditions.ts";
import { Observer } from "../../../../../../plugins/azure-cloud/load-balancer/reconcile/observe/observe.ts";
import { errorOf } from "../../../../../kit/rejection.ts";
import { countOf, instanceID, nodeOf, openWorld, type World } from "../../../world.ts";
import { intentOf } from "../../fixtures.ts";

const groupPath = "/subscriptions/sub0/resourceGroups/rg0/providers";

/** Objects of a cluster, and the kinds that an informer was requested of. */
class Objects {
  readonly requested = new Set<string>();
  readonly #objects: readonly KubeObject[];
  readonly #handlers: InformerHandler<Node>[] = [];

  constructor(objects: readonly KubeObject[] = []) {
    this.#objects = objects;
  }

  readonly informers = {
    of: <T extends KubeObject>(kind: KindRef<T>): Informer<T> => {
      this.requested.add(kind.kind);
      const isOf = (object: KubeObject): object is T => object.kind === kind.kind;
      const list = (): readonly T[] => this.#objects.filter(isOf);
      return {
        store: { get: (key) => list().find((one) => keyOf(one) === key), list, size: 0 },
        handle: (handler) => {
          this.#handlers.push({
            added: (node) => isOf(node) && handler.added?.(node),
            deleted: (node) => isOf(node) && handler.deleted?.(node),
          });
          return { remove: () => undefined };
        },
        hasSynced: () => true,
      };
    },
  };

  delete(name: string, providerID?: string): void {
    for (const handler of this.#handlers)
      handler.deleted?.(nodeOf(name, providerID === undefined ? {} : { providerID }));
  }

  add(name: string): void {
    for (const handler of this.#handlers) handler.added?.(nodeOf(name));
  }
}

/** An instance whose interface is in the pool of the load balancer `kubernetes`; returns its provider ID. */
async function instanceInPool(world: World): Promise<string> {
  await world.simulator.addInstances(1);
  const pool = `${groupPath}/Microsoft.Network/loadBalancers/kubernetes/backendAddressPools/kubernetes`;
  world.simulator.put(pool.slice(0, pool.indexOf("/backendAddressPools")), {
    sku: { name: "Standard" },
    properties: { backendAddressPools: [{ name: "kubernetes" }] },
  });
  const { compute } = await world.clients();
  const vm = await compute.virtualMachineScaleSetVMs.get("rg0", "vmss0", "0");
  for (const one of vm.networkProfileConfiguration?.networkInterfaceConfigurations ?? [])
    for (const configuration of one.ipConfigurations ?? [])
      configuration.loadBalancerBackendAddressPools = [{ id: pool }];
  await compute.virtualMachineScaleSetVMs.update("rg0", "vmss0", "0", vm);
  return instanceID(0);
}

const several = {
  loadBalancerBackendPoolConfigurationType: "nodeIP",
  multipleStandardLoadBalancerConfigurations: [{ name: "kubernetes", primaryVMSet: "vmss0" }],
};

const clock: CloudContext["clock"] = {
  now: Date.now,
  monotonic: () => performance.now(),
  sleep: () => Promise.resolve(),
};

async function observerOf(world: World, objects: Objects, changes: Readonly<Record<string, unknown>> = {}) {
  const decoded = decodeConfig({ ...Object(parseJson(world.simulator.configWith({}))), ...changes }, {});
  if (!decoded.ok) throw new Error(decoded.problems.join("; "));
  const reads = await world.reads(changes);
  const { clients } = reads;
  const config = plannerConfig(decoded.value, { clusterName: "kubernetes" });
  const signal = new AbortController().signal;
  const network = networkResources(clients, decoded.value, { clock, signal });
  const members = new PoolReads({ ...reads, clock, standard: true });
  return new Observer({
    clients,
    config,
    network,
    members,
    newServices: new NewServices(() => false),
    context: { informers: objects.informers, clock, shards: { own: "own" } },
  });
}

describe("what a plan is made from", () => {
  test("what a plan is made from with several load balancers includes namespaces and endpoint slices, whose informers start with the observer", async () => {
    await using world = await openWorld();
    const [one, other] = [new Objects(), new Objects()];
    await observerOf(world, one, several);
    expect([...one.requested].toSorted()).toEqual(
      [kinds.EndpointSlice, kinds.Namespace, kinds.Node].map((x) => x.kind),
    );
    await observerOf(world, other);
    expect([...other.requested]).toEqual([kinds.Node.kind]);
  });

  test("has the nodes with an endpoint of a local Service, of all its slices, those without endpoints included", async () => {
    await using world = await openWorld();
    const slice = (name: string, endpoints?: readonly { readonly addresses: readonly string[] }[]) => ({
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: { name, namespace: "default", labels: { "kubernetes.io/service-name": "web" } },
      addressType: "IPv4",
      ...(endpoints && { endpoints }),
    });
    const addresses = ["10.0.0.1"];
    const endpoints = [{ addresses, nodeName: "node-0" }, { addresses }];
    const observer = await observerOf(world, new Objects([slice("empty"), slice("full", endpoints)]), several);
    const { observed } = await observer.observe([intentOf({ spec: { externalTrafficPolicy: "Local" } })]);
    expect([...observed.endpointNodes]).toEqual([["default/web", ["node-0"]]]);
  });

  test("is in the same lists as before where nothing has changed, which planning knows them by", async () => {
    await using world = await openWorld();
    await instanceInPool(world);
    world.simulator.put(`${groupPath}/Microsoft.Network/publicIPAddresses/web`, { sku: { name: "Standard" } });
    const service = { ...intentOf({}).service, kind: kinds.Service.kind };
    const observer = await observerOf(world, new Objects([service]), { loadBalancerResourceGroup: "rg0" });
    const { observed: first } = await observer.observe([intentOf({})]);
    const { observed: second } = await observer.observe([intentOf({})]);
    for (const list of ["loadBalancers", "publicIPs", "services"] as const) {
      expect(first[list]).toHaveLength(1);
      expect(second[list]).toBe(first[list]);
    }
  });

  test("remembers the latest 5,000 deleted nodes", async () => {
    await using world = await openWorld();
    const objects = new Objects();
    const observer = await observerOf(world, objects);
    for (let index = 0; index <= 5000; index += 1) objects.delete(`node-${index}`);
    const { observed } = await observer.observe([]);
    expect(observed.deletedNodes.size).toBe(5000);
    expect(observed.deletedNodes.has("node-0")).toBe(false);
    expect(observed.deletedNodes.has("node-5000")).toBe(true);
  });

  test("has no deleted node that has come back", async () => {
    await using world = await openWorld();
    const objects = new Objects();
    const observer = await observerOf(world, objects);
    for (const name of ["back", "gone"]) objects.delete(name);
    objects.add("back");
    expect([...(await observer.observe([])).observed.deletedNodes]).toEqual(["gone"]);
  });

  test("names the deleted node of an instance that still runs in a pool, and reads its scale set again after a foreign write", async () => {
    await using world = await openWorld();
    const id = await instanceInPool(world);
    const objects = new Objects();
    const observer = await observerOf(world, objects);
    objects.delete("former", id);
    const { observed } = await observer.observe([]);
    expect([...observed.poolMembers.values()].flat().map(({ node }) => node)).toEqual(["former"]);
    const lists = async (): Promise<number> => {
      world.simulator.clearLog();
      await observer.observe([]);
      return countOf(world.simulator, "/virtualMachineScaleSets");
    };
    expect(await lists()).toBe(0);
    observer.forget();
    expect(await lists()).toBe(1);
  });

  test("names the node of an instance in a pool that has joined under another name than the deleted node of the same instance", async () => {
    await using world = await openWorld();
    const providerID = await instanceInPool(world);
    const objects = new Objects([{ ...nodeOf("renamed", { providerID }), kind: kinds.Node.kind }]);
    const observer = await observerOf(world, objects);
    objects.delete("former", providerID);
    const { observed } = await observer.observe([]);
    expect([...observed.poolMembers.values()].flat().map(({ node }) => node)).toEqual(["renamed"]);
  });

  test.each([
    ["scale sets", "/virtualMachineScaleSets", instanceID(0)],
    ["VMs", "/virtualMachines", `azure://${groupPath}/Microsoft.Compute/virtualMachines/vm-0`],
  ])(
    "is read in one round, and once: the %s of nodes beside the load balancers",
    async (_what, list, providerID) => {
      await using world = await openWorld();
      const { simulator } = world;
      const node = { ...nodeOf("node-0", { providerID }), kind: kinds.Node.kind };
      const observer = await observerOf(world, new Objects([node]));
      const hold = simulator.hold({ method: "GET", path: /\/loadBalancers$/u });
      const observing = observer.observe([]);
      const deadlineMs = performance.now() + 20_000;
      const isRead = (): boolean => hold.waiting() > 0 && countOf(simulator, list) > 0;
      while (!isRead() && performance.now() < deadlineMs) await Bun.sleep(5);
      expect(isRead()).toBe(true);
      hold.release();
      await observing;
      await observer.observe([]);
      // A read that had begun would have been received before this request.
      await (await world.clients()).network.publicIPAddresses.createOrUpdate("rg0", "ip", { location: "eastus" });
      expect(countOf(simulator, list)).toBe(1);
    },
    40_000,
  );

  test("is read without scale sets where pools have addresses", async () => {
    await using world = await openWorld();
    const node = { ...nodeOf("node-0", { providerID: instanceID(0) }), kind: kinds.Node.kind };
    const changes = { loadBalancerBackendPoolConfigurationType: "nodeIP" };
    const observer = await observerOf(world, new Objects([node]), changes);
    await observer.observe([]);
    expect(countOf(world.simulator, "/virtualMachineScaleSets")).toBe(0);
  });

  test("is not taken for empty where the cluster's own resource group cannot be read", async () => {
    await using world = await openWorld();
    const observer = await observerOf(world, new Objects());
    world.simulator.failNext(
      { method: "GET", path: "/publicIPAddresses" },
      { status: 403, code: "AuthorizationFailed" },
    );
    expect(await errorOf(observer.observe([intentOf({})]))).toMatchObject({ status: 403 });
  });
});

test("a Service that has the name of a known one is another one", async () => {
  await using world = await openWorld();
  const known = { ...intentOf({ name: "web", uid: "one" }).service, kind: "Service" };
  const successor = { ...intentOf({ name: "web", uid: "two" }).service, kind: "Service" };
  expect((await observerOf(world, new Objects([known]))).service(known)).toEqual(known);
  expect((await observerOf(world, new Objects([successor]))).service(known)).toBeUndefined();
});

test("the deletion of a Service is over if another deployment marks it, or it is to have a load balancer again", async () => {
  await using world = await openWorld();
  const { service: known } = intentOf({ name: "web", uid: "one" });
  const asType = (type: string, service = known): Service => ({ ...service, spec: { ...service.spec, type } });
  const isOver = async (began: Service, now: Service): Promise<boolean> =>
    (await observerOf(world, new Objects([{ ...now, kind: "Service" }]))).isDeletionOver(began);
  const marked = (mark: string, service = known): Service => ({
    ...service,
    metadata: { ...service.metadata, annotations: { [annotations.servedBy]: mark } },
  });
  const successor = intentOf({ name: "web", uid: "two" }).service;
  expect(await isOver(known, known)).toBe(false);
  expect(await isOver(known, marked("own"))).toBe(false);
  expect(await isOver(known, marked("other"))).toBe(true);
  expect(await isOver(known, marked("other", successor))).toBe(false);
  const balanced = asType("LoadBalancer");
  expect(await isOver(asType("ClusterIP"), balanced)).toBe(true);
  expect(await isOver(balanced, balanced)).toBe(false);
  expect(await isOver(asType("ClusterIP"), asType("LoadBalancer", successor))).toBe(false);
  const deleted = { ...balanced, metadata: { ...balanced.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } };
  expect(await isOver(asType("ClusterIP"), deleted)).toBe(false);
});
