import { expect, test } from "bun:test";

import { kinds, type Node, readyStatus, type Store } from "cloud-controller-host/sdk";
import { eventually, type ManualClock, manualClock } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../host/async/clock.ts";
import type { Failure } from "../../plugins/azure-cloud/simulator/faults.ts";
import lifecycle from "../../plugins/lifecycle/plugin.ts";
import { TestCluster } from "../kit/harness.ts";
import { warningLines } from "../kit/warnings.ts";
import { instanceID, openWorld, type World } from "../plugins/azure-cloud/world.ts";

const nodeCount = 30;
const pageSize = 10;
const pages = nodeCount / pageSize;
const periodMs = 5_000;
/** Lists and absences are cached for 24 passes. */
const ttls = { vmssVirtualMachinesCacheTTLInSeconds: 120 };
/** Passes after which every cached answer is of the present phase. */
const phase = 30;
const nameOf = (index: number): string => `vmss0${index.toString(36).padStart(6, "0")}`;
const allNames = Array.from({ length: nodeCount }, (_, index) => nameOf(index));
/** Limit of each wait, for a machine that is busy with other tests. */
const limitMs = 60_000;

/** A cluster of 30 nodes on one scale set in three zones, with the lifecycle controller on a clock that is moved. */
async function openDay() {
  await using opening = new AsyncDisposableStack();
  const cluster = opening.use(await TestCluster.start());
  const world = opening.use(await openWorld({ pageSize }));
  await world.simulator.addInstances(nodeCount);
  const clock = manualClock(Date.now() + 3_600_000);
  const cloud = opening.use(await world.create(ttls, { clock }));
  for (let index = 0; index < nodeCount; index++)
    cluster.api.create(kinds.Node, {
      metadata: { name: nameOf(index) },
      spec: { providerID: instanceID(index) },
      status: { conditions: [{ type: "Ready", status: "True" }] },
    });
  const own = { gracePeriodSeconds: 0 };
  const controller = await cluster.run(lifecycle, { cloud, clock, queueClock: systemClock, own });
  const stack = opening.move();
  const { store } = controller.generation.context.informers.of(kinds.Node);
  const day = new Day(cluster, world, clock, store);
  await day.quiet();
  return { day, cluster, world, clock, controller, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

class Day {
  readonly #cluster: TestCluster;
  readonly #world: World;
  readonly #clock: ManualClock;
  /** Nodes as the controller has them. */
  readonly #observed: Pick<Store<Node>, "get">;

  constructor(cluster: TestCluster, world: World, clock: ManualClock, observed: Pick<Store<Node>, "get">) {
    this.#cluster = cluster;
    this.#world = world;
    this.#clock = clock;
    this.#observed = observed;
  }

  /** Runs monitor passes, and resolves with the number of ARM requests that they sent. */
  async passes(count: number): Promise<number> {
    this.#world.simulator.clearLog();
    for (let pass = 0; pass < count; pass++) {
      await this.#clock.advance(periodMs);
      await this.quiet();
    }
    return this.#world.simulator.requests().length;
  }

  /** Resolves when no request to ARM or to the API server is in flight, and none follows. */
  async quiet(): Promise<void> {
    let before = -1;
    let same = 0;
    await eventually(
      "the controller rests",
      () => {
        const sent = this.#cluster.sent();
        const busy = this.#world.simulator.underway() > 0 || sent.some(({ status }) => status === undefined);
        const now = sent.length + this.#world.simulator.requests().length;
        same = !busy && now === before ? same + 1 : 0;
        before = now;
        return same >= 3;
      },
      limitMs,
    );
  }

  /** Sets the Ready condition of nodes, and resolves when the controller has seen it. */
  async become(ready: "True" | "Unknown", names = allNames): Promise<void> {
    const change = (node: Node): Node => ({ ...node, status: { conditions: [{ type: "Ready", status: ready }] } });
    for (const name of names) this.#cluster.api.update(kinds.Node, { name }, change, "status");
    await eventually(
      `the controller has seen ${names.length} nodes change`,
      () => names.every((name) => readyStatus(this.#observed.get(name) ?? {}) === ready),
      limitMs,
    );
  }

  get nodes(): number {
    return this.#cluster.api.list(kinds.Node).length;
  }
}

const lasting = (failure: Omit<Failure, "times">): Failure => ({ ...failure, times: 1_000_000 });

test("no healthy node is deleted while the cloud lies, requests stay bounded, and everything recovers by itself", async () => {
  await using scenario = await openDay();
  const { day, world, controller } = scenario;
  const { simulator } = world;
  const warnings = (): readonly string[] => warningLines(controller.controller);
  // A network partition: no kubelet reports, so the cloud is asked about every node.
  await day.become("Unknown");
  await day.passes(2);

  // Ten minutes in which the instances of a zone are missing, in lists and in single reads.
  const zone = Array.from({ length: nodeCount / 3 }, (_, index) => index * 3);
  for (const index of zone) simulator.hideFromLists(nameOf(index));
  simulator.failNext(
    { path: new RegExp(`/vmss0/virtualMachines/(${zone.join("|")})$`, "u") },
    lasting({ status: 404, code: "ResourceNotFound" }),
  );
  // Per TTL: a cached list, a fresh one, and one read per missing instance.
  const zoneBound = pages + pages + zone.length;
  expect(await day.passes(120)).toBeLessThanOrEqual(6 * zoneBound);
  expect(day.nodes).toBe(nodeCount);
  expect(warnings().join()).toContain("10 of 30 nodes are missing from the cloud");

  // Lists that are cut short: the instances exist when they are read.
  simulator.clearFailures();
  expect(await day.passes(phase)).toBeLessThanOrEqual(2 * zoneBound);
  expect(day.nodes).toBe(nodeCount);
  expect(warnings()).toEqual([]);

  // 404s that are about the subscription.
  simulator.failNext({ path: "/subscriptions/" }, lasting({ status: 404, code: "SubscriptionNotFound" }));
  expect(await day.passes(phase)).toBeLessThanOrEqual(3 * phase);
  expect(day.nodes).toBe(nodeCount);

  // The scale set does not exist under its name.
  simulator.clearFailures();
  simulator.failNext(
    { path: /\/virtualMachineScaleSets\/vmss0\//u },
    lasting({ status: 404, code: "ParentResourceNotFound" }),
  );
  expect(await day.passes(phase)).toBeLessThanOrEqual(3 * (2 + nodeCount));
  expect(day.nodes).toBe(nodeCount);
  expect(warnings().join()).toContain("30 of 30 nodes are missing from the cloud");

  // Truthful again: deletions are no longer held once the remembered absences expire, and ready nodes cost nothing.
  simulator.clearFailures();
  await day.passes(phase);
  expect(warnings()).toEqual([]);
  await day.become("True");
  await day.passes(1);
  expect(await day.passes(12)).toBe(0);
  expect(day.nodes).toBe(nodeCount);

  // A node whose instance was really deleted is deleted.
  await simulator.removeInstance(nameOf(4));
  await day.become("Unknown", [nameOf(4)]);
  await day.passes(phase);
  expect(day.nodes).toBe(nodeCount - 1);
}, 240_000);
