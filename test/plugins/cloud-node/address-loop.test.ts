import { describe, expect, test } from "bun:test";

import { annotations, FailingObjects, kinds, type Node, type NodeAddress, taints } from "cloud-controller-host/sdk";
import { eventually, manualClock, type MemoryCloud, memoryCloud } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../host/async/clock.ts";
import { updateAllAddresses } from "../../../plugins/cloud-node/address-loop.ts";
import cloudNode from "../../../plugins/cloud-node/plugin.ts";
import { capturedLog } from "../../host/kube/captured-log.ts";
import { TestCluster } from "../../kit/harness.ts";
import { warningLines } from "../../kit/warnings.ts";

const hostname: NodeAddress = { type: "Hostname", address: "node0" };
const internal = (address: string): NodeAddress => ({ type: "InternalIP", address });
const external: NodeAddress = { type: "ExternalIP", address: "132.143.154.163" };
const taint = { key: taints.uninitialized, value: "true", effect: "NoSchedule" };
const periodMs = 5 * 60_000;

const nodeWith = (addresses: readonly NodeAddress[], extra: Partial<Node> = {}): Node => ({
  ...extra,
  metadata: { name: "node0", ...extra.metadata },
  status: { addresses },
});

const addressesOf = (cluster: TestCluster): readonly NodeAddress[] | undefined =>
  cluster.api.get(kinds.Node, { name: "node0" })?.status?.addresses;

/** Resolves when the pass that asked the cloud so often is over: the loop sleeps again. */
const passes = (memory: MemoryCloud, clock: { readonly sleepers: number }, calls: number): Promise<true> =>
  eventually(
    `${calls} questions to the cloud, and rest`,
    () => memory.callsOf("instanceMetadata").length === calls && clock.sleepers === 1,
  );

describe("addresses that stay", () => {
  test("the addresses of a node that is still tainted stay as they are", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    const clock = manualClock();
    memory.machines.set("node0", { nodeAddresses: [internal("10.0.0.1"), external] });
    memory.intercept("instanceMetadata", async ({ args: [node], proceed }) =>
      (node.spec?.taints ?? []).length > 0 ? undefined : await proceed(),
    );
    await cluster.admin.create(kinds.Node, nodeWith([], { spec: { taints: [taint] } }));
    await cluster.run(cloudNode, { cloud: memory.cloud, clock, queueClock: systemClock });
    await passes(memory, clock, 1);
    await clock.advance(periodMs);
    expect(addressesOf(cluster)).toBeUndefined();
    expect(cluster.writes()).toEqual([]);
    expect(memory.callsOf("instanceMetadata")).toHaveLength(1);
  });
});

describe("updating the addresses of nodes", () => {
  for (const [name, workers] of [
    ["single thread", 1],
    ["5 workers", 5],
    ["10 workers", 10],
    ["30 workers", 30],
  ] as const)
    test(name, async () => {
      await using cluster = await TestCluster.start();
      const memory = memoryCloud();
      const clock = manualClock();
      let underWay = 0;
      let most = 0;
      memory.intercept("instanceMetadata", async ({ proceed }) => {
        most = Math.max(most, ++underWay);
        try {
          await Bun.sleep(1);
          return await proceed();
        } finally {
          underWay--;
        }
      });
      for (let index = 0; index < 100; index++) {
        memory.machines.set(`node${index}`, { nodeAddresses: [internal("10.0.0.1")] });
        cluster.api.create(kinds.Node, nodeWith([], { metadata: { name: `node${index}` } }));
      }
      const flags = { concurrentNodeStatusUpdates: workers };
      await cluster.run(cloudNode, { cloud: memory.cloud, clock, queueClock: systemClock, flags });
      await passes(memory, clock, 100);
      expect(most).toBe(workers);
      expect(new Set(memory.callsOf("instanceMetadata").map(({ target }) => target)).size).toBe(100);
    });
});

describe("the address loop", () => {
  interface Row {
    readonly promise: string;
    readonly before: readonly NodeAddress[];
    readonly cloud: readonly NodeAddress[];
    readonly nodeIP?: string;
    /** Undefined: nothing is written. */
    readonly after: readonly NodeAddress[] | undefined;
  }
  const rows: readonly Row[] = [
    {
      promise: "follows the cloud",
      before: [internal("10.0.0.1"), hostname],
      cloud: [internal("10.0.0.2"), external],
      after: [internal("10.0.0.2"), external, hostname],
    },
    {
      promise: "writes nothing where nothing has changed",
      before: [internal("10.0.0.1"), hostname],
      cloud: [internal("10.0.0.1")],
      after: undefined,
    },
    {
      promise: "writes nothing where a dual-stack node has not changed",
      before: [internal("10.0.0.1"), internal("fd00::1"), hostname],
      cloud: [internal("10.0.0.1"), internal("fd00::1")],
      after: undefined,
    },
    {
      promise: "keeps both addresses of a node that becomes dual-stack",
      before: [internal("10.0.0.1"), hostname],
      cloud: [internal("10.0.0.1"), internal("fd00::1")],
      after: [internal("10.0.0.1"), internal("fd00::1"), hostname],
    },
    {
      promise: "puts the address first that the kubelet was given first",
      before: [internal("10.0.0.1"), internal("fd00::1"), hostname],
      cloud: [internal("10.0.0.1"), internal("fd00::1")],
      nodeIP: "fd00::1,10.0.0.1",
      after: [internal("fd00::1"), internal("10.0.0.1"), hostname],
    },
    {
      promise: "keeps what is there when the cloud names no address",
      before: [internal("10.0.0.1"), hostname],
      cloud: [],
      after: undefined,
    },
    {
      promise: "keeps what is there when the cloud does not know the kubelet's IP",
      before: [internal("10.0.0.1"), hostname],
      cloud: [internal("10.0.0.2")],
      nodeIP: "10.0.0.1",
      after: undefined,
    },
  ];
  for (const { promise, before, cloud, nodeIP, after } of rows)
    test(promise, async () => {
      await using cluster = await TestCluster.start();
      const memory = memoryCloud();
      const clock = manualClock();
      memory.machines.set("node0", { nodeAddresses: cloud });
      const metadata = nodeIP === undefined ? {} : { annotations: { [annotations.providedNodeIP]: nodeIP } };
      await cluster.admin.create(kinds.Node, nodeWith(before, { metadata }));
      await cluster.run(cloudNode, { cloud: memory.cloud, clock, queueClock: systemClock });
      await passes(memory, clock, 1);
      expect(cluster.writes().map(({ method, path, body }) => ({ method, path, body }))).toEqual(
        after === undefined
          ? []
          : [
              {
                method: "PATCH",
                path: "/api/v1/nodes/node0/status",
                body: {
                  metadata: { uid: cluster.api.get(kinds.Node, { name: "node0" })?.metadata?.uid },
                  status: { addresses: [...after, { $patch: "replace" }] },
                },
              },
            ],
      );
      expect(addressesOf(cluster)).toEqual([...(after ?? before)]);
    });

  test("calls the cloud once per period", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    const clock = manualClock();
    memory.machines.set("node0", { nodeAddresses: [internal("10.0.0.1")] });
    await cluster.admin.create(kinds.Node, nodeWith([internal("10.0.0.1")]));
    await cluster.run(cloudNode, { cloud: memory.cloud, clock, queueClock: systemClock });
    await passes(memory, clock, 1);
    await clock.advance(periodMs - 1);
    expect(memory.callsOf("instanceMetadata")).toHaveLength(1);
    await clock.advance(1);
    await passes(memory, clock, 2);
  });

  test("continues when the cloud does not know a node or fails for it", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    const clock = manualClock();
    for (const name of ["silent", "failing", "node0"])
      await cluster.admin.create(kinds.Node, nodeWith([], { metadata: { name } }));
    memory.machines.set("node0", { nodeAddresses: [internal("10.0.0.1")] });
    memory.fail("instanceMetadata", new Error("out of order"), { target: "failing" });
    memory.intercept("instanceMetadata", async ({ target, proceed }) =>
      target === "silent" ? undefined : await proceed(),
    );
    await cluster.run(cloudNode, { cloud: memory.cloud, clock, queueClock: systemClock });
    await passes(memory, clock, 3);
    expect(cluster.writes().map(({ path }) => path)).toEqual(["/api/v1/nodes/node0/status"]);
    await clock.advance(periodMs);
    await passes(memory, clock, 6);
    const errors = cluster.log.filter((line) => line.includes('"level":"error"'));
    expect(errors.length).toBe(2);
    for (const line of errors) expect(line).toContain('"node":"failing"');
  });

  for (const [what, nodeAddress, patchFails] of [
    ["its addresses cannot be written", "10.0.0.1", true],
    ["kubelet's address is none of the cloud's", "10.0.0.2", false],
  ] as const)
    test(`a node is in /statusz once two passes fail for it, as ${what}, until one succeeds`, async () => {
      await using cluster = await TestCluster.start();
      const memory = memoryCloud();
      const clock = manualClock();
      const metadata = { annotations: { [annotations.providedNodeIP]: nodeAddress } };
      await cluster.admin.create(kinds.Node, nodeWith([], { metadata }));
      memory.machines.set("node0", { nodeAddresses: [internal("10.0.0.1")] });
      const refusal = { match: { verb: "patch" }, effect: { status: 403, message: "no" }, times: 2 } as const;
      if (patchFails) cluster.api.faults.add(refusal);
      const { controller } = await cluster.run(cloudNode, { cloud: memory.cloud, clock, queueClock: systemClock });
      await passes(memory, clock, 1);
      await clock.advance(periodMs - 1);
      expect(warningLines(controller)).toEqual([]);
      await clock.advance(1);
      await passes(memory, clock, 2);
      await clock.advance(60_000);
      const [count, line] = warningLines(controller);
      expect(count).toBe("failing Nodes: 1");
      expect(line).toContain(patchFails ? "Node node0 fails since " : "10.0.0.2");
      memory.machines.set("node0", { nodeAddresses: [internal(nodeAddress)] });
      await clock.advance(periodMs - 60_000);
      await passes(memory, clock, 3);
      expect(warningLines(controller)).toEqual([]);
    });

  test("a node for which passes fail leaves /statusz with the first pass after its deletion", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    const clock = manualClock();
    const metadata = { annotations: { [annotations.providedNodeIP]: "10.0.0.2" } };
    await cluster.admin.create(kinds.Node, nodeWith([], { metadata }));
    memory.machines.set("node0", { nodeAddresses: [internal("10.0.0.1")] });
    const { controller } = await cluster.run(cloudNode, { cloud: memory.cloud, clock, queueClock: systemClock });
    await passes(memory, clock, 1);
    await clock.advance(periodMs + 60_000);
    expect(warningLines(controller)[0]).toBe("failing Nodes: 1");
    await cluster.admin.delete(kinds.Node, { name: "node0" });
    await eventually("the deletion is known", async () => {
      await clock.advance(periodMs);
      return warningLines(controller).length === 0;
    });
  });

  test("retries a failed address patch in the next period", async () => {
    await using cluster = await TestCluster.start();
    const memory = memoryCloud();
    const clock = manualClock();
    memory.machines.set("node0", { nodeAddresses: [internal("10.0.0.1")] });
    await cluster.admin.create(kinds.Node, nodeWith([]));
    cluster.api.faults.add({ match: { verb: "patch", subresource: "status" }, effect: { status: 500 } });
    await cluster.run(cloudNode, { cloud: memory.cloud, clock, queueClock: systemClock });
    await passes(memory, clock, 1);
    expect(addressesOf(cluster)).toBeUndefined();
    await clock.advance(periodMs);
    await passes(memory, clock, 2);
    expect(addressesOf(cluster)).toEqual([internal("10.0.0.1")]);
  });
});

test("a node that the cloud cannot look up fails with the cloud's error", async () => {
  await using cluster = await TestCluster.start();
  const failing = new FailingObjects("NodesFail", systemClock);
  const memory = memoryCloud();
  memory.fail("instanceMetadata", new Error("out of order"));
  const { instances } = memory.cloud;
  if (instances === undefined) throw new Error("a cloud with instances");
  const context = { client: cluster.admin, log: capturedLog().log, failing };
  const signal = new AbortController().signal;
  await updateAllAddresses({ context, instances, signal, workers: 1 }, [nodeWith([])]);
  expect(failing.facts).toEqual([{ name: "node0", value: "out of order" }]);
});

test("a node that was recreated under its name during a pass does not get the addresses of the former one", async () => {
  await using cluster = await TestCluster.start();
  const memory = memoryCloud();
  memory.machines.set("node0", { nodeAddresses: [internal("10.0.0.1")] });
  const { instances } = memory.cloud;
  if (instances === undefined) throw new Error("a cloud with instances");
  const former = await cluster.admin.create(kinds.Node, nodeWith([]));
  cluster.api.delete(kinds.Node, { name: "node0" });
  await cluster.admin.create(kinds.Node, nodeWith([internal("10.0.0.2")], { spec: { taints: [taint] } }));
  const { log, lines } = capturedLog();
  const context = { client: cluster.admin, log, failing: new FailingObjects("NodesFail", systemClock) };
  await updateAllAddresses({ context, instances, signal: new AbortController().signal, workers: 1 }, [former]);
  expect(memory.callsOf("instanceMetadata")).toHaveLength(1);
  expect([context.failing.facts, lines()]).toEqual([[], []]);
  expect(addressesOf(cluster)).toEqual([internal("10.0.0.2")]);
});

test.each<[string, Partial<Node>]>([
  ["has the uninitialized taint again", { spec: { taints: [taint] } }],
  ["is deleted before its addresses are written", {}],
])("a node that %s fails no longer, and is not logged", async (_what, extra) => {
  await using cluster = await TestCluster.start();
  const { log, lines } = capturedLog();
  const failing = new FailingObjects("NodesFail", systemClock);
  failing.failed("another", new Error("no address"));
  if (extra.spec !== undefined) failing.failed("node0", new Error("no address"));
  const memory = memoryCloud();
  memory.machines.set("node0", { nodeAddresses: [internal("10.0.0.1")] });
  const { instances } = memory.cloud;
  if (instances === undefined) throw new Error("a cloud with instances");
  const context = { client: cluster.admin, log, failing };
  const signal = new AbortController().signal;
  await updateAllAddresses({ context, instances, signal, workers: 1 }, [nodeWith([], extra)]);
  expect([failing.facts, lines()]).toEqual([[], []]);
});
