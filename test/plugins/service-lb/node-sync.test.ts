import { describe, expect, test } from "bun:test";

import {
  ImplementedElsewhereError,
  keyOf,
  type LoadBalancers,
  type Node,
  RetryAfterError,
  type Service,
} from "cloud-controller-host/sdk";
import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import { syncNodes as startNodeSync } from "../../../plugins/service-lb/node-sync.ts";
import { nodeSetOf } from "../../../plugins/service-lb/nodes.ts";
import { Places } from "../../../plugins/service-lb/places.ts";
import { aNode, aService, autoscalerTaint, excluded, otherTaint } from "./objects.ts";
import { alreadyBalanced, makeParts, type Parts } from "./parts.ts";

const { signal } = new AbortController();
const node = (name: string): Node => aNode(name, { providerID: `id-${name}`, ready: "True" });
const three = ["node1", "node2", "node3"].map(node);

/** A whole pass. */
async function syncNodes(parts: Parts, workers: number, stop: AbortSignal): Promise<void> {
  const { ended } = await startNodeSync(parts, new Places(parts.clock, workers), stop);
  await ended;
}

/** Services that were synced some time ago, with a load balancer that has those nodes. */
function given(parts: Parts, services: readonly Service[], synced?: readonly Node[]): void {
  for (const service of services) {
    const key = keyOf(service);
    parts.cache.see(key, service);
    alreadyBalanced(parts.memory, service);
    if (synced !== undefined) parts.cache.nodesSynced(key, nodeSetOf(synced).members);
  }
}

/** Names of the nodes that the load balancer of default/web has. */
function syncedIn({ cache }: Parts): readonly string[] {
  const synced = cache.get("default/web")?.synced;
  return synced === undefined || synced === "changed" ? [] : [...synced.keys()];
}

const has = (parts: Parts, nodes: readonly Node[]): void => void parts.nodeStore.replace(nodes);

/** Updates requested from the cloud, in any order: Service and nodes. */
const updates = ({ memory }: Parts): readonly string[] =>
  memory
    .callsOf("updateLoadBalancer")
    .map(({ args: [, service, nodes] }) => `${JSON.stringify(nameIn(service))}: ${namesIn(nodes)}`)
    .toSorted();
const nameIn = (object: unknown): string => (isObject(object) ? (object.metadata?.name ?? "") : "");
const namesIn = (nodes: unknown): string => (Array.isArray(nodes) ? nodes.map(nameIn).join(" ") : "");
const isObject = (object: unknown): object is Node | Service => typeof object === "object" && object !== null;

const expected = (services: readonly Service[], nodes: readonly Node[]): readonly string[] =>
  services.map((service) => `${JSON.stringify(nameIn(service))}: ${nodes.map(nameIn).join(" ")}`).toSorted();

const wanting = (...names: readonly string[]): readonly Service[] => names.map((name) => aService({ name }));
const others = [
  aService({ name: "s10", spec: { type: "ClusterIP" } }),
  aService({ name: "s11", spec: { type: "NodePort" } }),
];
const four = wanting("s0", "s1", "s2", "s3");

describe("an update during which", () => {
  const [service] = wanting("s0");
  const rows: readonly (readonly [string, readonly Node[], readonly (readonly Node[])[], readonly number[]])[] = [
    ["a node left and came back is repeated: the cloud may have left it out", three, [three.slice(1), three], [3, 3]],
    ["the last node left is repeated without it", three.slice(0, 1), [[]], [1, 0]],
  ];
  test.each(rows)("%s", async (_, before, during, counts) => {
    await using parts = await makeParts();
    if (service === undefined) throw new Error("one Service");
    has(parts, before);
    given(parts, [service]);
    const calls: number[] = [];
    const slow: LoadBalancers = {
      ...parts.balancers,
      updateLoadBalancers: async (_cluster, services, nodes) => {
        calls.push(nodes.length);
        if (calls.length === 1)
          for (const seen of during) {
            has(parts, seen);
            parts.nodeChanged();
          }
        return services.map(() => ({ status: "fulfilled", value: undefined }));
      },
    };
    for (let pass = 0; pass < 3; pass += 1) await syncNodes({ ...parts, balancers: slow }, 1, signal);
    expect(calls).toEqual([...counts]);
  });
});

describe("updating the nodes of load balancers", () => {
  test.each([
    ["No services present: no calls should be made.", [], [], 1],
    ["Services do not have external load balancers: no calls should be made.", others, [], 2],
    ["Services does have an external load balancer: one call should be made.", wanting("s0"), wanting("s0"), 3],
    [
      "Three services have an external load balancer: three calls.",
      wanting("s0", "s1", "s2"),
      wanting("s0", "s1", "s2"),
      4,
    ],
    [
      "Two services have an external load balancer and two don't: two calls.",
      [...wanting("s0", "s1"), ...others],
      wanting("s0", "s1"),
      5,
    ],
    ["Four services have external load balancer with only 2 workers", four, four, 2],
  ] as const)("%s", async (_name, services, called, workers) => {
    await using parts = await makeParts();
    has(parts, three);
    given(parts, services);
    await syncNodes(parts, workers, signal);
    expect(updates(parts)).toEqual([...expected(called, three)]);
    expect(services.filter((service) => parts.backlog.isPending(keyOf(service)))).toEqual([]);
  });
});

const local = { spec: { externalTrafficPolicy: "Local" } } as const;
const trio = [aService({ name: "s0", ...local }), aService({ name: "s1", ...local }), aService({ name: "s2" })];
const [node1, node2, node3] = [node("node1"), node("node2"), node("node3")];
const notReady = aNode("node2", { providerID: "id-node2", ready: "False" });

interface Change {
  readonly name: string;
  readonly before: readonly Node[];
  readonly after: readonly Node[];
  /** Nodes passed for each of the three Services; undefined if none is updated. */
  readonly hosts?: readonly Node[];
}

const changes: readonly Change[] = [
  { name: "No node changes", before: [node1, node2, node3], after: [node1, node2, node3] },
  { name: "1 new node gets added", before: [node1, node2], after: [node1, node2, node3], hosts: [node1, node2, node3] },
  { name: "1 node goes NotReady", before: [node1, node2, node3], after: [node1, notReady, node3] },
  {
    name: "1 node gets Tainted",
    before: [node1, node2, node3],
    after: [node1, aNode("node2", { providerID: "id-node2", taints: [autoscalerTaint] }), node3],
    hosts: [node1, node3],
  },
  { name: "1 node goes Ready", before: [node1, notReady, node3], after: [node1, node2, node3] },
  {
    name: "1 node get excluded",
    before: [node1, node2, node3],
    after: [node1, aNode("node2", { providerID: "id-node2", labels: excluded() }), node3],
    hosts: [node1, node3],
  },
  { name: "1 old node gets deleted", before: [node1, node2, node3], after: [node1, node2], hosts: [node1, node2] },
  {
    name: "1 node marked for deletion",
    before: [node1, node2, node3],
    after: [node1, aNode("node2", { providerID: "id-node2", deletionTimestamp: "2026-01-01T00:00:00Z" }), node3],
    hosts: [node1, node3],
  },
  {
    name: "1 spurious node update",
    before: [node1, node2, node3],
    after: [node1, aNode("node2", { providerID: "id-node2", taints: [otherTaint] }), node3],
  },
];

describe("node changes that do not matter", () => {
  test.each(changes.map((row) => [row.name, row] as const))("%s", async (_name, { before, after, hosts }) => {
    await using parts = await makeParts();
    given(parts, trio, before);
    has(parts, after);
    await syncNodes(parts, 1, signal);
    expect(updates(parts)).toEqual(hosts === undefined ? [] : [...expected(trio, hosts)]);
  });

  test("1 new node gets added - with retries", async () => {
    await using parts = await makeParts();
    given(parts, trio, [node1, node2]);
    has(parts, [node1, node2, node3]);
    parts.memory.fail("updateLoadBalancer", new Error("error"), { times: 3 });
    await syncNodes(parts, 1, signal);
    expect(updates(parts)).toEqual([...expected(trio, [node1, node2, node3])]);
    await syncNodes(parts, 1, signal);
    expect(updates(parts)).toHaveLength(3);
    for (const service of trio) expect(parts.backlog.isPending(keyOf(service))).toBe(true);
  });
});

describe("node changes during retries", () => {
  test.each([
    ["only 1 node", 1, 3],
    ["2 nodes", 2, 1],
    ["4 nodes", 4, 3],
  ])("%s", async (_name, count, workers) => {
    await using parts = await makeParts();
    const nodes = Array.from({ length: count }, (_, index) => node(`node${index + 1}`));
    given(parts, four, [node("node0")]);
    has(parts, nodes);
    await syncNodes(parts, workers, signal);
    expect(updates(parts)).toEqual([...expected(four, nodes)]);
    expect(four.filter((service) => parts.backlog.isPending(keyOf(service)))).toEqual([]);
  });
});

describe("unequal lists of nodes", () => {
  const pair = wanting("s0", "s1");
  const sameID = (name: string): Node => aNode(name, { providerID: "same" });

  test.each([
    [
      "Nodes with updated providerID",
      [node1, node2],
      [aNode("node1", { providerID: "a" }), aNode("node2", { providerID: "b" })],
      2,
    ],
    ["Nodes unchanged", [node1, node2], [node1, node2], 0],
    [
      "A node with its first address",
      [sameID("node1")],
      [aNode("node1", { providerID: "same", internalIPs: ["::1"] })],
      2,
    ],
    ["Change node with empty providerID", [node1, sameID("node2")], [node1, sameID("node3")], 2],
  ] as const)("%s", async (_name, before, after, count) => {
    await using parts = await makeParts();
    given(parts, pair, before);
    has(parts, after);
    await syncNodes(parts, 1, signal);
    expect(updates(parts)).toHaveLength(count);
  });
});

describe("a node sync", () => {
  test("touches only Services whose nodes have changed", async () => {
    await using parts = await makeParts();
    given(parts, wanting("behind"), [node1]);
    given(parts, wanting("even"), [node2, node1]);
    has(parts, [node1, node2]);
    await syncNodes(parts, 2, signal);
    expect(updates(parts)).toEqual(['"behind": node1 node2']);
    await syncNodes(parts, 2, signal);
    expect(updates(parts)).toHaveLength(1);
  });

  test("is in flight for all Services at once where the cloud merges updates, with a call and a result for each", async () => {
    await using parts = await makeParts();
    has(parts, three);
    given(parts, four);
    const calls: string[][] = [];
    const all = Promise.withResolvers<void>();
    const balancers: LoadBalancers = {
      ...parts.balancers,
      loadBalancerName: (...call) => parts.balancers.loadBalancerName(...call),
      updateLoadBalancers: async (_clusterName, services, nodes) => {
        calls.push([...services.map(keyOf), namesIn(nodes)]);
        if (calls.length === four.length) all.resolve();
        await all.promise;
        return services.map((service) =>
          keyOf(service) === "default/s1"
            ? { status: "rejected", reason: new Error("no") }
            : { status: "fulfilled", value: undefined },
        );
      },
    };
    await syncNodes({ ...parts, balancers }, 1, signal);
    expect(calls).toEqual(four.map((service) => [keyOf(service), "node1 node2 node3"]));
    expect(updates(parts)).toEqual([]);
    expect(four.filter((service) => parts.backlog.isPending(keyOf(service))).map(keyOf)).toEqual(["default/s1"]);
    await syncNodes({ ...parts, balancers }, 1, signal);
    expect(calls).toHaveLength(4);
  });

  test("skips a Service that waits for a full sync", async () => {
    await using parts = await makeParts();
    given(parts, wanting("owed", "other"), [node1]);
    has(parts, [node1, node2]);
    parts.backlog.add("default/owed");
    await syncNodes(parts, 2, signal);
    expect(updates(parts)).toEqual(['"other": node1 node2']);
  });

  test("starts no update after its signal aborts, and finishes the one in flight", async () => {
    await using parts = await makeParts();
    given(parts, four, [node1]);
    has(parts, [node1, node2]);
    const stop = new AbortController();
    const hold = parts.memory.hold("updateLoadBalancer", { stubborn: true });
    const pass = syncNodes(parts, 1, stop.signal);
    await eventually("the first update is under way", () => hold.waiting === 1);
    stop.abort();
    hold.release();
    await pass;
    expect(updates(parts)).toHaveLength(1);
    expect(parts.memory.balancers.get("default/s0")?.nodes).toEqual(["node1", "node2"]);
  });

  test.each([1, 2, 3, 7])("updates up to the configured number of load balancers concurrently: %d", async (workers) => {
    await using parts = await makeParts();
    given(parts, four, [node1]);
    has(parts, [node1, node2]);
    const hold = parts.memory.hold("updateLoadBalancer");
    const pass = syncNodes(parts, workers, signal);
    await eventually("they are under way", () => hold.waiting === Math.min(workers, 4));
    hold.release();
    await pass;
    expect(updates(parts)).toHaveLength(4);
  });

  test("uses the latest nodes for each Service, even late in a long pass", async () => {
    await using parts = await makeParts();
    given(parts, wanting("s0", "s1"), [node1]);
    has(parts, [node1, node2]);
    const hold = parts.memory.hold("updateLoadBalancer");
    const pass = syncNodes(parts, 1, signal);
    await eventually("the first is under way", () => hold.waiting === 1);
    has(parts, three);
    hold.release();
    await pass;
    expect(updates(parts)).toEqual(['"s0": node1 node2', '"s1": node1 node2 node3']);
  });
});

describe("a node update that fails", () => {
  const failing = async (error: Error, service = aService()): Promise<Parts> => {
    const parts = await makeParts();
    given(parts, [service], [node1]);
    has(parts, [node1, node2]);
    parts.memory.fail("updateLoadBalancer", error);
    return parts;
  };

  test("is reported, counted, and followed by a full sync of the Service", async () => {
    await using parts = await failing(new Error("no such pool"));
    await syncNodes(parts, 1, signal);
    expect(parts.backlog.isPending("default/web")).toBe(true);
    expect(syncedIn(parts)).toEqual(["node1"]);
    const event = await eventually("the event arrives", () => parts.cluster.event("UpdateLoadBalancerFailed"));
    expect(event).toMatchObject({
      type: "Warning",
      message:
        "Error updating load balancer with new hosts [node1 node2] " +
        "[node names limited, total number of nodes: 2], error: no such pool",
    });
    expect(await parts.cluster.metric("service_controller_nodesync_error_total")).toBe(1);
  });

  test("is retried after exactly the delay that the cloud returns", async () => {
    await using parts = await failing(new Error("busy", { cause: new RetryAfterError(42_000, "later") }));
    await syncNodes(parts, 1, signal);
    expect(parts.backlog.isPending("default/web")).toBe(true);
    expect(await parts.cluster.metric("workqueue_retries_total", { name: "service" })).toBe(1);
    expect((await parts.cluster.metric("workqueue_adds_total", { name: "service" })) ?? 0).toBe(0);
  });

  test("is not a failure when the cloud has no such load balancer", async () => {
    await using parts = await failing(new Error("not found"));
    parts.memory.balancers.clear();
    await syncNodes(parts, 1, signal);
    expect(parts.backlog.isPending("default/web")).toBe(false);
    expect(syncedIn(parts)).toEqual(["node1", "node2"]);
    expect(parts.reported()).toEqual([]);
  });

  test("is a failure when the cloud cannot report whether the load balancer exists", async () => {
    await using parts = await failing(new Error("no such pool"));
    parts.memory.fail("getLoadBalancer", new Error("cannot say"));
    await syncNodes(parts, 1, signal);
    expect(parts.backlog.isPending("default/web")).toBe(true);
    const event = await eventually("the event arrives", () => parts.cluster.event("UpdateLoadBalancerFailed"));
    expect(event.message).toEndWith("error: no such pool");
  });

  test("is not looked into any longer once a stop is requested", async () => {
    await using parts = await failing(new Error("no such pool"));
    const stop = new AbortController();
    const hold = parts.memory.hold("getLoadBalancer");
    const pass = syncNodes(parts, 1, stop.signal);
    await eventually("the cloud is asked whether the load balancer exists", () => hold.waiting === 1);
    stop.abort();
    await pass;
    expect(hold.waiting).toBe(0);
  });

  test("is neither a failure nor an event when the load balancer is implemented elsewhere", async () => {
    await using parts = await failing(new ImplementedElsewhereError());
    await syncNodes(parts, 1, signal);
    expect(parts.backlog.isPending("default/web")).toBe(false);
    expect(parts.memory.callsOf("getLoadBalancer")).toEqual([]);
    await syncNodes(parts, 1, signal);
    expect(updates(parts)).toHaveLength(1);
    expect(parts.reported()).toEqual([]);
  });

  test("names at most twenty nodes, sorted", async () => {
    await using parts = await failing(new Error("no"));
    has(
      parts,
      Array.from({ length: 23 }, (_, index) => node(`n${String(22 - index).padStart(2, "0")}`)),
    );
    await syncNodes(parts, 1, signal);
    const event = await eventually("the event arrives", () => parts.cluster.event("UpdateLoadBalancerFailed"));
    const names = Array.from({ length: 20 }, (_, index) => `n${String(index + 3).padStart(2, "0")}`);
    expect(event.message).toContain(`[${names.join(" ")} <3 more>] [node names limited, total number of nodes: 23]`);
  });
});

describe("a node sync reports", () => {
  test("an event on the Service, and the counts and durations of updates and passes", async () => {
    await using parts = await makeParts();
    given(parts, wanting("s0", "s1"), [node1]);
    has(parts, [node1, node2]);
    await syncNodes(parts, 1, signal);
    await syncNodes(parts, 1, signal);
    await eventually("the events arrive", () => parts.cluster.events("UpdatedLoadBalancer").length === 2);
    expect(parts.cluster.event("UpdatedLoadBalancer")).toMatchObject({
      type: "Normal",
      message: "Updated load balancer with new hosts",
      involvedObject: { kind: "Service", namespace: "default" },
    });
    expect(await parts.cluster.metric("service_controller_loadbalancer_sync_total")).toBe(2);
    expect(await parts.cluster.metric("service_controller_update_loadbalancer_host_latency_seconds_count")).toBe(2);
    expect(await parts.cluster.metric("service_controller_nodesync_latency_seconds_count")).toBe(2);
    expect(await parts.cluster.metric("service_controller_nodesync_latency_seconds_bucket", { le: "16384" })).toBe(2);
  });

  test("durations in seconds, of each update and of the pass", async () => {
    await using parts = await makeParts();
    const clock = manualClock();
    given(parts, wanting("s0", "s1"), [node1]);
    has(parts, [node1, node2]);
    const updating = parts.memory.hold("updateLoadBalancer");
    const pass = syncNodes({ ...parts, clock }, 2, signal);
    await eventually("both updates are in flight", () => updating.waiting === 2);
    await clock.advance(2_500);
    updating.release();
    await pass;
    expect(await parts.cluster.metric("service_controller_update_loadbalancer_host_latency_seconds_sum")).toBe(5);
    expect(await parts.cluster.metric("service_controller_nodesync_latency_seconds_sum")).toBe(2.5);
  });

  test("a warning when no node is left", async () => {
    await using parts = await makeParts();
    given(parts, wanting("s0"), [node1]);
    has(parts, []);
    await syncNodes(parts, 1, signal);
    const event = await eventually("the event arrives", () => parts.cluster.event("UnAvailableLoadBalancer"));
    expect(event).toMatchObject({ type: "Warning", message: "There are no available nodes for LoadBalancer" });
    expect(parts.reported()).toEqual(["UnAvailableLoadBalancer"]);
  });
});
