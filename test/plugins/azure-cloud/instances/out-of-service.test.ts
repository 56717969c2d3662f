import { describe, expect, test } from "bun:test";

import { defineController, kinds, type Node, type Taint } from "cloud-controller-host/sdk";
import { eventually, manualClock, memoryCloud } from "cloud-controller-host/sdk/testing";

import { maintainServiceTaints, serviceTaints } from "../../../../plugins/azure-cloud/instances/out-of-service.ts";
import { TestCluster } from "../../../kit/harness.ts";

const shutdown: Taint = { key: "node.cloudprovider.kubernetes.io/shutdown", effect: "NoSchedule" };
const outOfService: Taint = { key: "node.kubernetes.io/out-of-service", effect: "NoExecute" };
const other: Taint = { key: "mine", effect: "NoSchedule" };

const node = (ready: string, taints: readonly Taint[]): Node => ({
  metadata: { name: "n" },
  spec: { taints },
  status: { conditions: [{ type: "Ready", status: ready }] },
});

describe("the out-of-service taint", () => {
  const rows: readonly (readonly [string, Node, readonly Taint[] | undefined])[] = [
    [
      "is added to a node that is shut down and not ready",
      node("False", [other, shutdown]),
      [other, shutdown, outOfService],
    ],
    ["is added when the kubelet is silent", node("Unknown", [shutdown]), [shutdown, outOfService]],
    ["is not added a second time", node("False", [shutdown, outOfService]), undefined],
    ["is not added to a node that is merely not ready", node("False", [other]), undefined],
    ["stays on a node that is not ready, though it is not shut down", node("False", [outOfService]), undefined],
    ["is taken from a node that is ready", node("True", [outOfService, other]), [other]],
    ["leaves a ready node without it alone", node("True", [shutdown]), undefined],
  ];
  for (const [name, given, wanted] of rows) test(name, () => expect(serviceTaints(given)).toEqual(wanted));
});

/** Runs the cloud's own work the way the host runs a controller. */
const maintainer = defineController({
  name: "taint-maintainer",
  construct: () => (context) => {
    context.informers.of(kinds.Node);
    return { run: (signal) => maintainServiceTaints(context, signal) };
  },
});

const named = (name: string, given: Node): Node => ({ ...given, metadata: { ...given.metadata, name } });

describe("maintaining the out-of-service taint", () => {
  test("adds and removes it, repeats a failed write, and writes no other node", async () => {
    await using cluster = await TestCluster.start();
    const down = node("False", [other, shutdown]);
    await cluster.admin.create(kinds.Node, down);
    await cluster.admin.create(kinds.Node, named("merely-broken", node("False", [other])));
    cluster.api.faults.add({ match: { verb: "patch", resource: "nodes" }, effect: { status: 500 } });
    const { cloud } = memoryCloud();
    await using _ = await cluster.run(maintainer, { cloud });

    const taintsOf = async (): Promise<readonly Taint[]> =>
      (await cluster.admin.get(kinds.Node, { name: "n" })).spec?.taints ?? [];
    await eventually("the node is out of service", async () => (await taintsOf()).length === 3);
    const current = await cluster.admin.get(kinds.Node, { name: "n" });
    const ready = { ...current, status: { conditions: [{ type: "Ready", status: "True" }] } };
    await cluster.admin.replace(kinds.Node, ready, { subresource: "status" });
    await eventually("the node is in service", async () => (await taintsOf()).length === 2);
    expect(new Set(cluster.writes().map(({ path }) => path))).toEqual(new Set(["/api/v1/nodes/n"]));
  });

  test("nodes whose writes fail delay no other node, however many they are", async () => {
    await using cluster = await TestCluster.start();
    const names = Array.from({ length: 40 }, (_, index) => `n${index}`);
    for (const name of names) await cluster.admin.create(kinds.Node, named(name, node("False", [shutdown])));
    const failing = names.slice(0, 20);
    for (const name of failing)
      cluster.api.faults.add({ match: { verb: "patch", resource: "nodes", name }, effect: { status: 500 }, times: 9 });
    const clock = manualClock();
    await using _ = await cluster.run(maintainer, { cloud: memoryCloud().cloud, clock });
    await eventually(
      "all others are out of service",
      () => cluster.sent({ method: "PATCH", status: 200 }).length === 20,
    );
    await eventually("the failed writes wait", () => clock.sleepers === failing.length);
    const tries = (): number => cluster.sent({ method: "PATCH", path: "/api/v1/nodes/n0", status: 500 }).length;
    expect(tries()).toBe(1);
    await clock.advance(1_000);
    await eventually("one is tried again after a second", () => tries() === 2 && clock.sleepers === failing.length);
    await clock.advance(1_000);
    expect(tries()).toBe(2);
    await clock.advance(1_000);
    await eventually("and then after two", () => tries() === 3);
  });

  test("a change that arrives during a write is followed by a second write", async () => {
    await using cluster = await TestCluster.start();
    await cluster.admin.create(kinds.Node, node("False", [shutdown]));
    const replies = Promise.withResolvers<void>();
    const observed: { get?: () => Node | undefined } = {};
    const slow = defineController({
      name: "taint-maintainer",
      construct: () => (context) => {
        const { store } = context.informers.of(kinds.Node);
        observed.get = () => store.get("n");
        const client: typeof context.client = {
          ...context.client,
          async patch(...request) {
            const reply = await context.client.patch(...request);
            await replies.promise;
            return reply;
          },
        };
        return { run: (signal) => maintainServiceTaints({ ...context, client }, signal) };
      },
    });
    await using _ = await cluster.run(slow, { cloud: memoryCloud().cloud });
    const taints = (): number => observed.get?.()?.spec?.taints?.length ?? 0;
    await eventually("the taint is added, and the write waits for its reply", () => taints() === 2);
    const status = { conditions: [{ type: "Ready", status: "True" }] };
    cluster.api.update(kinds.Node, { name: "n" }, (now) => ({ ...now, status }), "status");
    await eventually("the node is ready", () => observed.get?.()?.status?.conditions?.[0]?.status === "True");
    replies.resolve();
    await eventually("the taint is removed", () => taints() === 1);
  });

  test("a node is read and written once, however late the watch shows that", async () => {
    await using cluster = await TestCluster.start();
    await cluster.admin.create(kinds.Node, node("False", [shutdown]));
    const late = defineController({
      name: "taint-maintainer",
      construct: () => (context) => {
        context.informers.of(kinds.Node);
        const client: typeof context.client = {
          ...context.client,
          async patch(...request) {
            cluster.api.watches.pause();
            return context.client.patch(...request);
          },
        };
        return { run: (signal) => maintainServiceTaints({ ...context, client }, signal) };
      },
    });
    await using _ = await cluster.run(late, { cloud: memoryCloud().cloud });
    await eventually("it is written", () => cluster.sent({ method: "PATCH", status: 200 }).length > 0);
    await Bun.sleep(50);
    expect(cluster.sent({ path: "/api/v1/nodes/n" }).map(({ method }) => method)).toEqual(["GET", "PATCH"]);
    cluster.api.watches.resume();
  });

  test("writes at most sixteen nodes at once, and a write in flight ends before the work does", async () => {
    await using cluster = await TestCluster.start();
    for (let index = 0; index < 40; index++)
      await cluster.admin.create(kinds.Node, named(`n${index}`, node("False", [shutdown])));
    const clock = manualClock();
    const running = await cluster.run(maintainer, { cloud: memoryCloud().cloud, clock });
    let maxInFlight = 0;
    await eventually("all are written", () => {
      const sent = cluster.sent();
      maxInFlight = Math.max(maxInFlight, sent.filter(({ status }) => status === undefined).length);
      return Promise.resolve(sent.filter(({ method, status }) => method === "PATCH" && status === 200).length === 40);
    });
    expect(maxInFlight).toBeLessThanOrEqual(16);
    await running[Symbol.asyncDispose]();
    expect(cluster.sent().every(({ status }) => status !== undefined)).toBe(true);
  });

  test("starts no other write once it is stopped", async () => {
    await using cluster = await TestCluster.start();
    for (let index = 0; index < 40; index++)
      await cluster.admin.create(kinds.Node, named(`n${index}`, node("False", [shutdown])));
    const gate = Promise.withResolvers<void>();
    let started = 0;
    const slow = defineController({
      name: "taint-maintainer",
      construct: () => (context) => {
        const client: typeof context.client = {
          ...context.client,
          async patch(...request) {
            started += 1;
            await gate.promise;
            return context.client.patch(...request);
          },
        };
        return { run: (signal) => maintainServiceTaints({ ...context, client }, signal) };
      },
    });
    const running = await cluster.run(slow, { cloud: memoryCloud().cloud });
    await eventually("sixteen writes are in flight", () => started === 16);
    const stopped = running[Symbol.asyncDispose]();
    gate.resolve();
    await stopped;
    expect(started).toBe(16);
  });

  test("stops only when the writes in flight have been answered", async () => {
    await using cluster = await TestCluster.start();
    for (let index = 0; index < 40; index++)
      await cluster.admin.create(kinds.Node, named(`n${index}`, node("False", [shutdown])));
    const running = await cluster.run(maintainer, { cloud: memoryCloud().cloud });
    await eventually("a write is in flight", () =>
      Promise.resolve(cluster.sent({ method: "PATCH" }).some(({ status }) => status === undefined)),
    );
    const unanswered = running.ended.then(() =>
      cluster.sent({ method: "PATCH" }).filter(({ status }) => status === undefined),
    );
    await running[Symbol.asyncDispose]();
    expect(await unanswered).toEqual([]);
  });
});
