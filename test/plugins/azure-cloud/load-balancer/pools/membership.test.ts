import { describe, expect, test } from "bun:test";

import type { LoadBalancer } from "@azure/arm-network";
import { keyOf, type Node } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { type JsonObject, parseJson } from "../../../../../plugins/azure-cloud/json.ts";
import type { MembersWrite } from "../../../../../plugins/azure-cloud/load-balancer/pools/member-jobs.ts";
import type { StuckMember } from "../../../../../plugins/azure-cloud/load-balancer/pools/member-write.ts";
import { type MembersResult, PoolMembers } from "../../../../../plugins/azure-cloud/load-balancer/pools/membership.ts";
import { PoolReads } from "../../../../../plugins/azure-cloud/load-balancer/pools/pool-reads.ts";
import { rawClient } from "../../raw-client.ts";
import { instanceID, nodeOf, openWorld, type World } from "../../world.ts";

const scope = "/subscriptions/sub0/resourceGroups/rg0/providers";
const balancerId = (name: string): string => `${scope}/Microsoft.Network/loadBalancers/${name}`;
const poolId = (balancer = "kubernetes", pool = "kubernetes"): string =>
  `${balancerId(balancer)}/backendAddressPools/${pool}`;

const subnet = { id: `${scope}/Microsoft.Network/virtualNetworks/vnet0/subnets/subnet0` };

const nodes = (count: number): readonly Node[] =>
  Array.from({ length: count }, (_, index) => nodeOf(`node-${index}`, { providerID: instanceID(index) }));

interface Changes {
  readonly join?: readonly string[];
  readonly leave?: readonly string[];
  readonly pool?: string;
  readonly family?: "IPv4" | "IPv6";
}

const update = ({ join = [], leave = [], pool = poolId(), family = "IPv4" }: Changes): MembersWrite => ({
  kind: "update-members",
  id: pool,
  resourceGroup: "rg0",
  name: "kubernetes",
  loadBalancer: "kubernetes",
  services: ["default/web"],
  family,
  join,
  leave,
});

interface MembersSettings {
  readonly monotonic?: () => number;
  readonly signal?: AbortSignal;
  readonly withInstanceView?: boolean;
  readonly skipped?: (id: string) => void;
  readonly found?: (member: StuckMember) => void;
  readonly lookAtModels?: () => void;
}

/** A cluster of instances with empty load balancers, and what writes their membership. */
async function open(
  world: World,
  balancers: readonly string[] = ["kubernetes"],
  {
    monotonic = () => performance.now(),
    signal = new AbortController().signal,
    withInstanceView = true,
    skipped,
    found,
    lookAtModels,
  }: MembersSettings = {},
) {
  for (const name of balancers)
    world.simulator.put(`/providers/Microsoft.Network/loadBalancers/${name}`, {
      location: "eastus",
      sku: { name: "Standard" },
      properties: {
        backendAddressPools: [{ name: "kubernetes" }, { name: "kubernetes-IPv6" }],
        frontendIPConfigurations: name.endsWith("-internal") ? [{ name: "internal", properties: { subnet } }] : [],
      },
    });
  const clock = { now: Date.now, monotonic, sleep: (ms: number) => Bun.sleep(Math.min(ms, 2)) };
  const reads = await world.reads({}, { clock });
  const { clients } = reads;
  const options = { ...reads, clock, signal, standard: true };
  const members = new PoolMembers({
    ...options,
    reads: new PoolReads(options),
    withInstanceView,
    ...(skipped && { skipped }),
    ...(lookAtModels && { lookAtModels }),
    ...(found && { stuckMembers: { found, written: () => undefined } }),
    resourceGroup: "rg0",
  });
  const loadBalancers = (): Promise<readonly LoadBalancer[]> =>
    Array.fromAsync(clients.network.loadBalancers.list("rg0"));
  const writes = (): readonly string[] =>
    world.simulator.log.flatMap(({ method, path }) =>
      method === "PUT" ? [path.slice(path.indexOf("/providers/") + "/providers/".length)] : [],
    );
  return {
    clients,
    members,
    loadBalancers,
    writes,
    apply: async (changes: readonly MembersWrite[], known: readonly Node[]) =>
      members.apply(changes, await loadBalancers(), known),
    async membersOf(pool: string, known: readonly Node[]) {
      return (await members.reads.observe(await loadBalancers(), known)).get(pool.toLowerCase()) ?? [];
    },
  };
}

const release: MembersWrite = {
  kind: "release-pools",
  id: balancerId("kubernetes"),
  resourceGroup: "rg0",
  name: "kubernetes",
  services: ["default/web"],
  poolIds: [poolId()],
};

/** The result of an application that wrote so much, nothing of which failed or is still in flight. */
const written = (writes: number): MembersResult => ({ writes, failed: new Map(), late: new Map() });

const instancePath = (id: number): string => `Microsoft.Compute/virtualMachineScaleSets/vmss0/virtualMachines/${id}`;
const modelPath = "Microsoft.Compute/virtualMachineScaleSets/vmss0";

describe("references to pools that do not exist any more", () => {
  const inPools = (...pools: readonly string[]): readonly JsonObject[] => {
    const loadBalancerBackendAddressPools = pools.map((id) => ({ id }));
    const properties = { primary: true, subnet, privateIPAddressVersion: "IPv4", loadBalancerBackendAddressPools };
    const ipConfigurations = [{ name: "ipconfig1", properties }];
    return [{ name: "nic0", properties: { primary: true, ipConfigurations } }];
  };
  const internal = ["kubernetes-internal"];
  const join = update({ pool: poolId("kubernetes-internal"), join: ["node-0"] });
  const goneIn = (result: MembersResult): string => String([...result.failed.values()][0]);

  test("are left with the next write of an instance, one after the other as ARM names them", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    const one = await open(world, internal);
    const dead = [poolId(), poolId("kubernetes", "kubernetes-IPv6"), poolId("kubernetes", "my.cluster")];
    world.simulator.changeInstance("vmss0000000", { networkInterfaceConfigurations: inPools(...dead) });
    world.simulator.clearLog();
    expect(await one.apply([join], nodes(1))).toEqual(written(2));
    expect(one.writes().filter((path) => path === instancePath(0))).toHaveLength(4);
    const [instance] = world.simulator.instances("vmss0");
    const left = JSON.stringify(instance?.networkInterfaceConfigurations);
    expect(left).toContain(poolId("kubernetes-internal"));
    for (const id of dead) expect(left).not.toContain(id);
  });

  test("stay where the instance is to join them: its load balancer is gone, which another plan will see", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    const one = await open(world, internal);
    world.simulator.clearLog();
    const result = await one.apply([update({ join: ["node-0"] })], nodes(1));
    expect(goneIn(result)).toContain("InvalidResourceReference");
    expect(one.writes().filter((path) => path === instancePath(0))).toHaveLength(1);
  });

  test("are left by at most five more writes", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    const one = await open(world, internal);
    const dead = Array.from({ length: 7 }, (_, index) => poolId("kubernetes", `pool-${index}`));
    world.simulator.changeInstance("vmss0000000", { networkInterfaceConfigurations: inPools(...dead) });
    world.simulator.clearLog();
    expect(goneIn(await one.apply([join], nodes(1)))).toContain("pool-5");
    expect(one.writes().filter((path) => path === instancePath(0))).toHaveLength(6);
  });

  test("are not taken for those that another refusal names", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    const one = await open(world, internal);
    const message = `${poolId()} is locked.`;
    world.simulator.failNext({ method: "PUT", path: instancePath(0) }, { status: 409, code: "ScopeLocked", message });
    world.simulator.clearLog();
    expect(goneIn(await one.apply([join], nodes(1)))).toContain("is locked");
    expect(one.writes().filter((path) => path === instancePath(0))).toHaveLength(1);
  });
});

describe("instances of a uniform scale set", () => {
  test("instances of a uniform scale set are written half as many at once after ARM has refused some with a 429", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(40);
    // Nothing moves the clock: the window does not grow again.
    const one = await open(world, ["kubernetes"], { monotonic: () => 0 });
    const some = nodes(40);
    const join = update({ join: some.map(({ metadata }) => metadata?.name ?? "") });
    const throttled = { status: 429, headers: { "retry-after": "0" }, times: 40 } as const;
    world.simulator.failNext({ path: "/virtualMachines/", method: "PUT" }, throttled);
    expect((await one.apply([join], some)).failed.size).toBe(1);
    const held = world.simulator.hold({ method: "PUT", path: /\/virtualMachines\/\d+$/u });
    const applied = one.apply([join], some);
    await eventually("half of 64 are in flight", () => held.waiting() === 32);
    await Bun.sleep(50);
    expect(held.waiting()).toBe(32);
    held.release();
    await applied;
  });

  test("join a pool together with the model of their scale set, once", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(6);
    const one = await open(world);
    world.simulator.clearLog();
    const join = ["node-0", "node-1", "node-2", "node-3", "node-4", "node-5"];
    const result = await one.apply([update({ join })], nodes(6));
    expect(result).toEqual(written(7));
    expect(one.writes().toSorted()).toEqual([modelPath, ...[0, 1, 2, 3, 4, 5].map(instancePath)].toSorted());
    const found = await one.membersOf(poolId(), nodes(6));
    expect(found.map(({ node, gone, complete }) => ({ node, gone, complete }))).toEqual(
      join.map((node) => ({ node, gone: false, complete: true })),
    );
    expect(await one.apply([update({ join })], nodes(6))).toMatchObject({ writes: 0 });
  });

  test("are read one by one, and by one list where more than four are written", async () => {
    await using world = await openWorld({ operationStyle: "none" });
    await world.simulator.addInstances(9);
    const one = await open(world);
    const reads = async (...indices: readonly number[]): Promise<readonly string[]> => {
      world.simulator.clearLog();
      await one.apply([update({ join: indices.map((index) => `node-${index}`) })], nodes(9));
      const gets = world.simulator.log.filter(
        ({ method, path }) => method === "GET" && path.includes("/vmss0/virtual"),
      );
      return gets.map(({ path }) => path.slice(path.indexOf("/vmss0/"))).toSorted();
    };
    expect(await reads(0, 1, 2, 3)).toEqual([0, 1, 2, 3].map((index) => `/vmss0/virtualMachines/${index}`));
    expect(await reads(4, 5, 6, 7, 8)).toEqual(["/vmss0/virtualMachines"]);
  });

  test("instances of a uniform scale set that are leaving a pool, and were read meanwhile, join it again afterwards", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(5);
    const one = await open(world);
    const join = update({ join: nodes(5).map(keyOf) });
    await one.apply([join], nodes(5));
    const known = await one.loadBalancers();
    const held = world.simulator.hold({ method: "PUT", path: /\/virtualMachines\/2$/u });
    const leaving = one.members.apply([release], known, nodes(5));
    await eventually("a write is held", () => held.waiting() === 1);
    world.simulator.clearLog();
    await one.members.prepare([join], known, nodes(5));
    await eventually("the instances are read", () => world.simulator.log.some(({ method }) => method === "GET"));
    held.release();
    await leaving;
    await one.apply([join], nodes(5));
    expect(await one.membersOf(poolId(), nodes(5))).toHaveLength(5);
  });

  test("an instance whose write is late already is left in flight again, without another wait", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    let nowMs = 0;
    const one = await open(world, ["kubernetes"], { monotonic: () => nowMs });
    const held = world.simulator.hold({ method: "PUT", path: /\/virtualMachines\/0$/u });
    const join = update({ join: ["node-0"] });
    const first = one.apply([join], nodes(1));
    await eventually("the write is held", () => held.waiting() === 1);
    nowMs += 10_000;
    expect((await first).late.has(join)).toBeTrue();
    // Nothing moves the clock: a wait would not end.
    const { late } = await one.apply([join], nodes(1));
    expect(late.has(join)).toBeTrue();
    held.release();
    await Promise.all(late.get(join) ?? []);
    expect((await one.apply([join], nodes(1))).late.size).toBe(0);
  });

  test("instances of a uniform scale set that may not be read fail where the list lacks them, too", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    const one = await open(world);
    world.simulator.failNext({ method: "GET", path: instancePath(7) }, { status: 403, code: "AuthorizationFailed" });
    const join = update({ join: ["node-7"] });
    const result = await one.apply([join], nodes(8));
    expect(result.failed.get(join)).toMatchObject({ status: 403 });
  });

  test("instances of a uniform scale set wait for its own model and for no other, and are listed meanwhile", async () => {
    await using world = await openWorld({ operationStyle: "none" });
    await world.simulator.addInstances(5);
    world.simulator.addScaleSet({ name: "pool" });
    world.simulator.addScaleSetInstances("pool", 5);
    const one = await open(world);
    const others = nodes(5).map((_, index) => nodeOf(`other-${index}`, { providerID: instanceID(index, "pool") }));
    const known = [...nodes(5), ...others];
    const held = world.simulator.hold({ method: "PUT", path: /virtualMachineScaleSets\/pool$/u });
    const applied = one.apply([update({ join: known.map(keyOf) })], known);
    const requests = (pattern: RegExp): number =>
      world.simulator.log.filter(({ method, path }) => pattern.test(`${method} ${path}`)).length;
    await eventually("those of vmss0 are written", () => requests(/PUT .+\/vmss0\/virtualMachines\//u) === 5);
    expect(requests(/GET .+\/pool\/virtualMachines$/u)).toBe(1);
    expect(requests(/PUT .+\/pool\/virtualMachines\//u)).toBe(0);
    held.release();
    expect(await applied).toEqual(written(12));
    expect(requests(/GET .+\/pool\/virtualMachines$/u)).toBe(1);
  });

  test("instances with an operation in progress are known by a list that is cached, or as they are now", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(2);
    const { reads } = (await open(world)).members;
    const ids = [0, 1].map((index) => instanceID(index).replace("azure://", ""));
    expect(await reads.unended(ids, "cached")).toEqual([]);
    world.simulator.prolongOperations(() => true);
    await (
      await rawClient(world.simulator)
    )("PUT", ids[1] ?? "", { body: { location: "eastus", properties: {} } });
    expect(await reads.unended(ids, "cached")).toEqual([]);
    expect(await reads.unended(ids, "fresh")).toEqual(ids.slice(1));
  });

  test("instances of several scale sets share one window of writes", async () => {
    await using world = await openWorld({ operationStyle: "none" });
    await world.simulator.addInstances(40);
    world.simulator.addScaleSet({ name: "pool" });
    world.simulator.addScaleSetInstances("pool", 40);
    const one = await open(world);
    const others = nodes(40).map((_, index) => nodeOf(`other-${index}`, { providerID: instanceID(index, "pool") }));
    const known = [...nodes(40), ...others];
    const held = world.simulator.hold({ method: "PUT", path: /\/virtualMachines\/\d+$/u });
    const applied = one.apply([update({ join: known.map(keyOf) })], known);
    // Two models have made it grow.
    await eventually("66 are in flight", () => held.waiting() === 66);
    await Bun.sleep(50);
    expect(held.waiting()).toBe(66);
    held.release();
    expect((await applied).writes).toBe(82);
  });

  test("are written with the etag that was read, and so is the model", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    const one = await open(world);
    world.simulator.clearLog();
    await one.apply([update({ join: ["node-0"] })], nodes(1));
    const puts = world.simulator.log.filter(({ method }) => method === "PUT");
    expect(puts.map(({ path, ifMatch }) => [path.split("/").at(-1), ifMatch === undefined])).toEqual([
      ["vmss0", false],
      ["0", false],
    ]);
  });

  test("are written once for pools of both families", async () => {
    await using world = await openWorld();
    world.simulator.addScaleSet({ name: "dual", dualStack: true });
    world.simulator.addScaleSetInstances("dual", 1);
    const one = await open(world);
    world.simulator.clearLog();
    const known = [nodeOf("node-0", { providerID: instanceID(0, "dual") })];
    const writes = [
      update({ join: ["node-0"] }),
      update({ join: ["node-0"], pool: poolId("kubernetes", "kubernetes-IPv6"), family: "IPv6" }),
    ];
    expect(await one.apply(writes, known)).toMatchObject({ writes: 2 });
    expect(await one.membersOf(poolId("kubernetes", "kubernetes-IPv6"), known)).toMatchObject([
      { node: "node-0", complete: true },
    ]);
  });

  /** A dual-stack instance that is to join the pools of each family on two load balancers. */
  async function openDual(families: readonly ("IPv4" | "IPv6")[] = ["IPv4", "IPv6"], settings: MembersSettings = {}) {
    const world = await openWorld();
    world.simulator.addScaleSet({ name: "dual", dualStack: true });
    world.simulator.addScaleSetInstances("dual", 1);
    const balancers = ["kubernetes", "kubernetes-internal"];
    const one = await open(world, balancers, settings);
    const known = [nodeOf("node-0", { providerID: instanceID(0, "dual") })];
    const joins = families.flatMap((family) =>
      balancers.map((name) =>
        update({ join: ["node-0"], pool: poolId(name, family === "IPv6" ? "kubernetes-IPv6" : "kubernetes"), family }),
      ),
    );
    const isPut = { method: "PUT", path: "/virtualMachines/0" };
    world.simulator.clearLog();
    return {
      world,
      one,
      joins,
      isPut,
      apply: () => one.apply(joins, known),
      /** How many members each pool has. */
      joined: () => Promise.all(joins.map(async ({ id }) => (await one.membersOf(id, known)).length)),
      puts: () =>
        world.simulator.log.flatMap(({ method, path, status }) =>
          method === "PUT" && path.endsWith("/virtualMachines/0") ? [status] : [],
        ),
    };
  }

  const refusal = { status: 400, code: "PoolIsFull" };

  test.each<[string, number, readonly boolean[], readonly number[]]>([
    ["all pools at once join those of each family by themselves", 1, [false, false, false, false], [1, 1, 1, 1]],
    ["the pools of one family join those of the other", 2, [true, true, false, false], [0, 0, 1, 1]],
    ["the pools of each family fail in all", 3, [true, true, true, true], [0, 0, 0, 0]],
  ])("instances of a uniform scale set that ARM refuses in %s", async (_what, times, refused, joined) => {
    const dual = await openDual();
    await using _ = dual.world;
    dual.world.simulator.failNext(dual.isPut, { ...refusal, times });
    const { failed } = await dual.apply();
    expect(dual.joins.map((write) => failed.has(write))).toEqual([...refused]);
    expect(await dual.joined()).toEqual([...joined]);
    expect(dual.puts()).toHaveLength(3);
  });

  test("instances of a uniform scale set that ARM refuses time and again for both families are written for each from the second attempt on, for ten minutes", async () => {
    let nowMs = 0;
    const dual = await openDual(undefined, { monotonic: () => nowMs + performance.now() });
    await using _ = dual.world;
    dual.world.simulator.failNext(dual.isPut, { ...refusal, times: 100 });
    const attempts: number[] = [];
    for (const pauseMs of [0, 60_000, 600_000]) {
      nowMs += pauseMs;
      const before = dual.puts().length;
      await dual.apply();
      attempts.push(dual.puts().length - before);
    }
    expect(attempts).toEqual([3, 2, 3]);
  });

  test.each<[string, Parameters<World["simulator"]["failNext"]>[1], number]>([
    ["other writers change all the time", { status: 409, code: "AnotherOperationInProgress", times: 5 }, 5],
    ["the operation fails", { status: 400, code: "VMExtensionProvisioningError", stage: "operation" }, 1],
  ])(
    "instances of a uniform scale set of which %s are not written again for each family",
    async (_what, failure, puts) => {
      const dual = await openDual();
      await using _ = dual.world;
      dual.world.simulator.failNext(dual.isPut, failure);
      const { failed } = await dual.apply();
      expect(failed.size).toBe(4);
      expect(dual.puts()).toHaveLength(puts);
    },
  );

  test("instances of a uniform scale set that ARM refuses in pools of one family alone are not written again", async () => {
    const dual = await openDual(["IPv6"]);
    await using _ = dual.world;
    dual.world.simulator.failNext(dual.isPut, refusal);
    const { failed } = await dual.apply();
    expect([failed.size, await dual.joined(), dual.puts()]).toEqual([2, [0, 0], [400]]);
  });

  test("instances of a uniform scale set that ARM refuses late in the pools of one family end with that error", async () => {
    let nowMs = 0;
    const dual = await openDual(["IPv4", "IPv6"], { monotonic: () => nowMs });
    await using _ = dual.world;
    const held = dual.world.simulator.hold(dual.isPut);
    dual.world.simulator.failNext(dual.isPut, { ...refusal, times: 2 });
    const applied = dual.apply();
    await eventually("the write is held", () => held.waiting() === 1);
    nowMs += 10_000;
    const { late } = await applied;
    held.release();
    const ends = await Promise.all(dual.joins.map((write) => Promise.all(late.get(write) ?? [])));
    expect(ends).toEqual(dual.joins.map(() => [expect.objectContaining({ code: "PoolIsFull" })]));
    expect(await dual.joined()).toEqual([0, 0, 1, 1]);
  });

  test("leave one pool and stay in the other", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(2);
    const one = await open(world, ["kubernetes", "kubernetes-internal"]);
    const internal = poolId("kubernetes-internal");
    await one.apply([update({ join: ["node-0", "node-1"] }), update({ join: ["node-0"], pool: internal })], nodes(2));
    const [first] = await one.membersOf(poolId(), nodes(2));
    expect(await one.apply([update({ leave: [first?.ipConfigurationId ?? ""] })], nodes(2))).toMatchObject({
      writes: 1,
    });
    expect(await one.membersOf(poolId(), nodes(2))).toMatchObject([{ node: "node-1" }]);
    expect(await one.membersOf(internal, nodes(2))).toMatchObject([{ node: "node-0" }]);
  });

  test("instances of a uniform scale set that are stopped or in another load balancer are left alone", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(3);
    const one = await open(world, ["kubernetes", "of-the-user"]);
    await one.apply([update({ join: ["node-0"], pool: poolId("of-the-user") })], nodes(1));
    world.simulator.changeInstance("vmss0000001", { powerState: "deallocated" });
    world.simulator.clearLog();
    await one.apply([update({ join: ["node-0", "node-1", "node-2"] })], nodes(3));
    expect(one.writes().filter((path) => path !== modelPath)).toEqual([instancePath(2)]);
  });

  test("instances of a uniform scale set that no longer exist are distinguished from those that only have no node yet", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(3);
    const one = await open(world);
    await one.apply([update({ join: ["node-0", "node-1", "node-2"] })], nodes(3));
    const observed = await one.loadBalancers();
    await world.simulator.removeInstance("vmss0000001");
    const found = (await one.members.reads.observe(observed, nodes(1))).get(poolId().toLowerCase());
    expect(found?.map(({ node, gone }) => ({ node, gone }))).toEqual([
      { node: "node-0", gone: false },
      { node: undefined, gone: true },
      { node: undefined, gone: false },
    ]);
  });

  test("instances of a uniform scale set that have no node yet are looked up once per minute", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    let passedMs = 0;
    const one = await open(world, ["kubernetes"], { monotonic: () => performance.now() + passedMs });
    await one.apply([update({ join: ["node-0"] })], nodes(1));
    const observed = await one.loadBalancers();
    world.simulator.clearLog();
    const lookups = async (): Promise<number> => {
      await one.members.reads.observe(observed, []);
      return world.simulator.log.filter(({ path }) => path.endsWith(instancePath(0))).length;
    };
    expect([await lookups(), await lookups()]).toEqual([1, 1]);
    passedMs = 60_000;
    expect(await lookups()).toBe(2);
  });

  test("instances without a node are looked up side by side, whatever pools they are in", async () => {
    await using world = await openWorld({ operationStyle: "none" });
    await world.simulator.addInstances(1);
    world.simulator.addScaleSet({ name: "pool" });
    world.simulator.addScaleSetInstances("pool", 1);
    const one = await open(world, ["kubernetes", "second"]);
    const other = nodeOf("other", { providerID: instanceID(0, "pool") });
    const joins = [update({ join: ["node-0"] }), update({ join: ["other"], pool: poolId("second") })];
    await one.apply(joins, [...nodes(1), other]);
    const balancers = await one.loadBalancers();
    const held = world.simulator.hold({ method: "GET", path: /\/virtualMachines\/0$/u });
    const observed = one.members.reads.observe(balancers, []);
    await eventually("both are read", () => held.waiting() === 2);
    held.release();
    expect((await observed).get(poolId("second").toLowerCase())).toMatchObject([{ gone: false }]);
  });

  test("instances of a uniform scale set whose scale set or resource group does not exist are gone, and not to be completed", async () => {
    await using world = await openWorld();
    const one = await open(world);
    for (const group of [scope, scope.replace("rg0", "no-group")]) {
      const scaleSet = `${group}/Microsoft.Compute/virtualMachineScaleSets/none`;
      const configuration = `${scaleSet}/virtualMachines/0/networkInterfaces/n/ipConfigurations/c`;
      const pool = { id: poolId(), backendIPConfigurations: [{ id: configuration }] };
      const found = await one.members.reads.observe([{ backendAddressPools: [pool] }], []);
      expect([...found.values()]).toEqual([
        [{ ipConfigurationId: configuration, node: undefined, gone: true, complete: true }],
      ]);
    }
  });

  test("instances of a uniform scale set that another writer changes at the same time are read again and written", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    const one = await open(world);
    world.simulator.failNext({ method: "PUT", path: instancePath(0) }, { status: 412, times: 2 });
    expect(await one.apply([update({ join: ["node-0"] })], nodes(1))).toEqual(written(2));
    expect(await one.membersOf(poolId(), nodes(1))).toMatchObject([{ node: "node-0" }]);
  });

  test.each([
    ["has ended", 0],
    ["has lasted for ten minutes", 10 * 60_000],
  ])(
    "the change of an instance of a uniform scale set is planned again once another writer's operation %s",
    async (_when, afterMs) => {
      await using world = await openWorld({ operationStyle: "none" });
      await world.simulator.addInstances(1);
      let now = 0;
      const one = await open(world, ["kubernetes"], { monotonic: () => now });
      world.simulator.failNext({ method: "PUT", path: instancePath(0) }, { status: 412 });
      world.simulator.changeInstance("vmss0000000", { provisioningState: "Updating" });
      world.simulator.clearLog();
      const requests = (wanted: string) =>
        world.simulator.log.filter(({ method, path }) => method === wanted && path.endsWith(instancePath(0)));
      const write = update({ join: ["node-0"] });
      const applied = one.apply([write], nodes(1));
      await eventually("it is read again and again", () => requests("GET").length > 3);
      now = afterMs;
      if (now === 0) world.simulator.changeInstance("vmss0000000", { provisioningState: "Succeeded" });
      const { failed, late } = await applied;
      const ends = [failed.get(write), ...(await Promise.all(late.get(write) ?? []))];
      expect(ends).toContainEqual(expect.objectContaining({ code: "Superseded" }));
      expect(requests("PUT")).toHaveLength(1);
    },
  );

  test("the wait for another writer's operation on an instance of a uniform scale set ends with the process, without another read", async () => {
    await using world = await openWorld({ operationStyle: "none" });
    await world.simulator.addInstances(1);
    const stop = new AbortController();
    const one = await open(world, ["kubernetes"], { monotonic: () => 0, signal: stop.signal });
    world.simulator.failNext({ method: "PUT", path: instancePath(0) }, { status: 412 });
    world.simulator.changeInstance("vmss0000000", { provisioningState: "Updating" });
    const write = update({ join: ["node-0"] });
    const reads = () =>
      world.simulator.log.filter(({ method, path }) => method === "GET" && path.endsWith(instancePath(0)));
    const applied = one.apply([write], nodes(1));
    await eventually("it is read again and again", () => reads().length > 3);
    stop.abort(new Error("stopped"));
    const { failed, late } = await applied;
    const ends = [failed.get(write), ...(await Promise.all(late.get(write) ?? []))];
    expect(ends).toContainEqual(expect.objectContaining({ message: "stopped" }));
    const before = reads().length;
    await Bun.sleep(20);
    expect(reads()).toHaveLength(before);
  });

  test("an instance of a uniform scale set that another writer has put into the pool meanwhile needs no write", async () => {
    await using world = await openWorld({ operationStyle: "none" });
    await world.simulator.addInstances(1);
    const one = await open(world);
    const bare = world.simulator.instances("vmss0")[0]?.networkInterfaceConfigurations ?? [];
    await one.apply([update({ join: ["node-0"] })], nodes(1));
    const joined = world.simulator.instances("vmss0")[0]?.networkInterfaceConfigurations ?? [];
    world.simulator.changeInstance("vmss0000000", {
      networkInterfaceConfigurations: bare,
      provisioningState: "Updating",
    });
    world.simulator.failNext({ method: "PUT", path: instancePath(0) }, { status: 412 });
    world.simulator.clearLog();
    const applied = one.apply([update({ join: ["node-0"] })], nodes(1));
    await eventually("it waits", () => world.simulator.log.filter(({ method }) => method === "GET").length > 4);
    world.simulator.changeInstance("vmss0000000", {
      networkInterfaceConfigurations: joined,
      provisioningState: "Succeeded",
    });
    expect(await applied).toEqual(written(0));
  });

  test("instances of a uniform scale set that ARM refuses to change are reported, and hold up no other", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(3);
    const one = await open(world);
    world.simulator.failNext({ method: "PUT", path: instancePath(1) }, { status: 400, code: "OperationNotAllowed" });
    const write = update({ join: ["node-0", "node-1", "node-2"] });
    const result = await one.apply([write], nodes(3));
    expect(result.writes).toBe(3);
    expect(result.failed.get(write)).toMatchObject({ status: 400, code: "OperationNotAllowed" });
    expect(await one.membersOf(poolId(), nodes(3))).toMatchObject([{ node: "node-0" }, { node: "node-2" }]);
  });

  test("instances of a uniform scale set whose list ARM refuses fail alone, and those of other scale sets join", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(5);
    world.simulator.addScaleSet({ name: "pool" });
    world.simulator.addScaleSetInstances("pool", 1);
    const one = await open(world);
    const other = nodeOf("other", { providerID: instanceID(0, "pool") });
    world.simulator.failNext({ method: "GET", path: "/vmss0/virtualMachines" }, { status: 403, times: 9 });
    const [refused, joined] = [update({ join: nodes(5).map(keyOf) }), update({ join: ["other"] })];
    const result = await one.apply([refused, joined], [...nodes(5), other]);
    expect([...result.failed]).toEqual([[refused, expect.objectContaining({ status: 403 })]]);
    expect(world.simulator.log.filter(({ path }) => path.includes("/vmss0/virtualMachines/"))).toEqual([]);
    expect(await one.membersOf(poolId(), [other])).toMatchObject([{ node: "other" }]);
  });

  test("instances of a uniform scale set of a scale set that does not exist any more are left out", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(5);
    const one = await open(world);
    world.simulator.delete(`/providers/${modelPath}`);
    const result = await one.apply([update({ join: nodes(5).map(keyOf) })], nodes(5));
    expect(result).toEqual(written(0));
  });

  test("instances of a uniform scale set that were listed are read by themselves after a conflict", async () => {
    await using world = await openWorld({ operationStyle: "none" });
    await world.simulator.addInstances(5);
    const one = await open(world);
    world.simulator.failNext({ method: "PUT", path: instancePath(2) }, { status: 412 });
    world.simulator.clearLog();
    await one.apply([update({ join: nodes(5).map(keyOf) })], nodes(5));
    const sent = world.simulator.log.filter(({ path }) => path.endsWith(instancePath(2)));
    expect(sent.map(({ method, status }) => `${method} ${status}`)).toEqual(["PUT 412", "GET 200", "PUT 200"]);
  });

  test("instances of a uniform scale set that are stopped, being deleted or in an unknown state leave, and do not join", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(4);
    const skipped: string[] = [];
    const one = await open(world, ["kubernetes"], { skipped: (id) => void skipped.push(id) });
    await one.apply([update({ join: ["node-0"] })], nodes(4));
    const [member] = await one.membersOf(poolId(), nodes(4));
    world.simulator.changeInstance("vmss0000000", { powerState: "deallocated" });
    world.simulator.changeInstance("vmss0000001", { provisioningState: "Deleting" });
    world.simulator.changeInstance("vmss0000003", { provisioningState: "Unknown" });
    world.simulator.clearLog();
    const join = ["node-1", "node-2", "node-3"];
    await one.apply([update({ join, leave: [member?.ipConfigurationId ?? ""] })], nodes(4));
    expect(one.writes().toSorted()).toEqual([instancePath(0), instancePath(2)]);
    // The first one is only about to leave.
    expect(skipped.map((id) => id.slice(-1)).toSorted()).toEqual(["1", "3"]);
  });

  test("join without a look at their power state where the config leaves out instance views", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    const one = await open(world, ["kubernetes"], { withInstanceView: false });
    world.simulator.clearLog();
    expect(await one.apply([update({ join: ["node-0"] })], nodes(1))).toMatchObject({ writes: 2 });
    expect(world.simulator.log.filter(({ query }) => query.includes("instanceView"))).toEqual([]);
  });

  test("keep their size", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    const one = await open(world);
    world.simulator.clearLog();
    await one.apply([update({ join: ["node-0"] })], nodes(1));
    const put = world.simulator.log.find(({ method, path }) => method === "PUT" && path.endsWith(instancePath(0)));
    expect(put?.body).toMatchObject({ properties: { hardwareProfile: { vmSize: expect.any(String) } } });
  });

  test("are released with the model before their load balancer is deleted", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(2);
    const one = await open(world);
    await one.apply([update({ join: ["node-0", "node-1"] })], nodes(2));
    expect(await one.apply([release], nodes(2))).toEqual(written(3));
    expect(JSON.stringify(world.simulator.get(`/providers/${modelPath}`))).not.toContain("backendAddressPools/");
    await one.clients.network.loadBalancers.delete("rg0", "kubernetes");
  });

  test("stay in the pools of other load balancers when those of one are released", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    const one = await open(world, ["kubernetes", "kubernetes-internal"]);
    const internal = poolId("kubernetes-internal");
    await one.apply([update({ join: ["node-0"] }), update({ join: ["node-0"], pool: internal })], nodes(1));
    await one.apply([release], nodes(1));
    expect(await one.membersOf(poolId(), nodes(1))).toEqual([]);
    expect(await one.membersOf(internal, nodes(1))).toMatchObject([{ node: "node-0", complete: true }]);
  });

  test("are released with the model in whatever resource group their scale set is", async () => {
    await using world = await openWorld();
    world.simulator.addResourceGroup("elsewhere");
    const { id } = world.simulator.addScaleSet({ name: "pool", resourceGroup: "elsewhere" });
    world.simulator.addScaleSetInstances(id, 1);
    const one = await open(world);
    const known = [nodeOf("node-0", { providerID: instanceID(0, "pool", "elsewhere") })];
    expect(await one.apply([update({ join: ["node-0"] })], known)).toEqual(written(2));
    expect(await one.apply([release], known)).toEqual(written(2));
    expect(JSON.stringify(world.simulator.get(id))).not.toContain("backendAddressPools/");
  });
});

describe("the model of a scale set", () => {
  const scaleSetPath = "/providers/Microsoft.Compute/virtualMachineScaleSets/pool";
  const known = [nodeOf("node-0", { providerID: instanceID(0, "pool") })];

  /** A scale set with one instance, changed by its text. */
  async function openChanged(
    change: (text: string) => string = (text) => text,
    more: JsonObject = {},
    simulator: Parameters<typeof openWorld>[0] = {},
  ) {
    const world = await openWorld(simulator);
    world.simulator.addScaleSet({ name: "pool", dualStack: true });
    world.simulator.addScaleSetInstances("pool", 1);
    const { properties } = world.simulator.get(scaleSetPath) ?? {};
    world.simulator.put(scaleSetPath, { ...more, properties: Object(parseJson(change(JSON.stringify(properties)))) });
    const one = await open(world);
    world.simulator.clearLog();
    const models = (): readonly unknown[] =>
      world.simulator.log.flatMap(({ method, path, body }) =>
        method === "PUT" && path.endsWith(scaleSetPath) ? [body] : [],
      );
    return { world, one, models };
  }

  const linux = '"storageProfile":{"osDisk":{"osType":"Linux","createOption":"FromImage"}}';
  for (const [os, image, joins] of [
    ["Windows", "gallery/windows-2019-containerd", false],
    ["Windows", "gallery/windows-2022", true],
    ["Linux", "gallery/17763", true],
  ] as const)
    test(`the model of a scale set with ${os} and the image ${image} ${joins ? "joins" : "does not join"} a pool of IPv6`, async () => {
      const storage = { osDisk: { osType: os, createOption: "FromImage" }, imageReference: { id: image } };
      const { world, one, models } = await openChanged((text) =>
        text.replace(linux, `"storageProfile":${JSON.stringify(storage)}`),
      );
      await using _ = world;
      const pool = poolId("kubernetes", "kubernetes-IPv6");
      await one.apply([update({ join: ["node-0"], pool, family: "IPv6" })], known);
      expect(models()).toHaveLength(joins ? 1 : 0);
    });

  test("the model of a scale set that was deleted before it could be written is left out", async () => {
    const { world, one } = await openChanged();
    await using _ = world;
    const hold = world.simulator.hold({ method: "GET", path: /virtualMachineScaleSets\/pool$/u });
    const applied = one.apply([update({ join: ["node-0"] })], known);
    await eventually("it is being read", () => hold.waiting() === 1);
    world.simulator.delete(scaleSetPath);
    hold.release();
    expect(await applied).toEqual(written(0));
  });

  test("the model of a scale set whose reads are behind an own write is written again only once they show that", async () => {
    const { world, one, models } = await openChanged(undefined, {}, { operationPolls: 1 });
    await using _ = world;
    const join = [update({ join: ["node-0"] })];
    const isModel = (id: string): boolean => id.toLowerCase().endsWith(scaleSetPath.toLowerCase());
    await one.apply(join, known);
    const joined = world.simulator.get(scaleSetPath);
    if (joined === undefined) throw new Error("the scale set is missing");
    // The read at the end of the write, and those after it, show what was before it.
    world.simulator.changeGets((resource) => (isModel(resource.id) ? joined : resource));
    world.simulator.changeLists((all) => all.map((resource) => (isModel(resource.id) ? joined : resource)));
    expect(await one.apply([release], known)).toMatchObject({ failed: new Map() });
    expect(models()).toHaveLength(2);
    const { failed } = await one.apply(join, known);
    expect([...failed.values()].map(String).join()).toContain("as it was before a write");
    expect(models()).toHaveLength(2);
    world.simulator.changeGets();
    world.simulator.changeLists();
    await one.apply(join, known);
    expect(models()).toHaveLength(3);
  });

  for (const isReplaced of [true, false])
    test(`the model of a scale set ${isReplaced ? "that was replaced under its name" : "whose instance had left by itself"} is read again when an instance has to join, and ${isReplaced ? "written" : "stays as it is"}`, async () => {
      const { world, one, models } = await openChanged();
      await using _ = world;
      await one.apply([update({ join: ["node-0"] })], known);
      if (isReplaced) {
        world.simulator.delete(scaleSetPath);
        world.simulator.addScaleSet({ name: "pool", dualStack: true });
        world.simulator.addScaleSetInstances("pool", 1);
      } else {
        const [member] = await one.membersOf(poolId(), known);
        await one.apply([update({ leave: [member?.ipConfigurationId ?? ""] })], known);
      }
      world.simulator.clearLog();
      const [instance = ""] = world.simulator.instances("pool").map(({ instanceId }) => instanceId);
      const present = [nodeOf("node-0", { providerID: instanceID(Number(instance), "pool") })];
      const lists = (): number =>
        world.simulator.log.filter(({ path }) => path.endsWith("/virtualMachineScaleSets")).length;
      expect(await one.apply([update({ join: ["node-0"] })], present)).toEqual(written(isReplaced ? 2 : 1));
      expect(models()).toHaveLength(isReplaced ? 1 : 0);
      expect(await one.apply([update({ join: ["node-0"] })], present)).toEqual(written(0));
      expect(lists()).toBe(1);
    });

  test("is to be looked at again when it was written, or an instance has to join although it names the pool, and then only", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    let looks = 0;
    const one = await open(world, ["kubernetes"], { lookAtModels: () => (looks += 1) });
    const some = nodes(1);
    const join = [update({ join: ["node-0"] })];
    await one.apply(join, some);
    expect(looks).toBe(1);
    await one.apply(join, some);
    expect(looks).toBe(1);
    const [member] = await one.membersOf(poolId(), some);
    await one.apply([update({ leave: [member?.ipConfigurationId ?? ""] })], some);
    expect(looks).toBe(1);
    await one.apply(join, some);
    expect(looks).toBe(2);
  });

  test("has changed once a new read shows it in other pools, and its tags make no difference", async () => {
    const { world, one } = await openChanged();
    await using _ = world;
    const { reads } = one.members;
    await one.apply([update({ join: ["node-0"] })], known);
    const change = (fields: JsonObject): void =>
      void world.simulator.put(scaleSetPath, { ...world.simulator.get(scaleSetPath), ...fields });
    expect(await reads.haveModelsChanged()).toBe(false);
    change({ tags: { team: "1" } });
    expect(await reads.haveModelsChanged()).toBe(false);
    const { properties } = world.simulator.get(scaleSetPath) ?? {};
    const withoutPools = JSON.stringify(properties).replaceAll(
      /"loadBalancerBackendAddressPools":\[[^\]]*\]/gu,
      '"loadBalancerBackendAddressPools":[]',
    );
    change({ properties: Object(parseJson(withoutPools)) });
    expect(await reads.haveModelsChanged()).toBe(true);
    expect(await reads.haveModelsChanged()).toBe(false);
    expect((await one.membersOf(poolId(), known)).map(({ complete }) => complete)).toEqual([false]);
  });

  test("keeps its edge zone", async () => {
    const extendedLocation = { name: "microsoftlosangeles1", type: "EdgeZone" };
    const { world, one, models } = await openChanged(undefined, { extendedLocation });
    await using _ = world;
    await one.apply([update({ join: ["node-0"] })], known);
    expect(models()).toMatchObject([{ extendedLocation }]);
  });

  test("is known from the reply to its write, and read again once its resource group is forgotten, in whatever case", async () => {
    const { world, one } = await openChanged();
    await using _ = world;
    await one.apply([update({ join: ["node-0"] })], known);
    const lists = async (): Promise<number> => {
      world.simulator.clearLog();
      await one.membersOf(poolId(), known);
      return world.simulator.log.filter(({ path }) => path.endsWith("/virtualMachineScaleSets")).length;
    };
    expect([await lists(), await lists()]).toEqual([0, 0]);
    expect((await one.membersOf(poolId(), known)).map(({ complete }) => complete)).toEqual([true]);
    one.members.reads.forgetScaleSets("RG0");
    expect(await lists()).toBe(1);
  });

  test("the model of a scale set is read again after a write of it that failed", async () => {
    const { world, one } = await openChanged();
    await using _ = world;
    await one.membersOf(poolId(), known);
    const failure = { status: 400, code: "Refused" };
    world.simulator.failNext({ method: "PUT", path: /virtualMachineScaleSets\/pool$/u }, failure);
    const write = update({ join: ["node-0"] });
    expect((await one.apply([write], known)).failed.get(write)).toMatchObject({ code: "Refused" });
    world.simulator.clearLog();
    await one.membersOf(poolId(), known);
    expect(world.simulator.log.filter(({ path }) => path.endsWith("/virtualMachineScaleSets"))).toHaveLength(1);
  });
});

describe("sets of nodes", () => {
  test("are the scale set of an instance, and the availability set of a VM in lower case", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    const availabilitySet = { id: `${scope}/Microsoft.Compute/availabilitySets/AS0` };
    world.simulator.put("/providers/Microsoft.Compute/virtualMachines/vm-0", {
      location: "eastus",
      properties: { availabilitySet },
    });
    const one = await open(world);
    const known = [
      ...nodes(1),
      nodeOf("vm-0", { providerID: `azure://${scope}/Microsoft.Compute/virtualMachines/vm-0` }),
      nodeOf("elsewhere", { providerID: "aws:///i-1" }),
    ];
    expect([...(await one.members.reads.vmSets(known))]).toEqual([
      ["node-0", "vmss0"],
      ["vm-0", "as0"],
    ]);
  });
});

const machineOf = (name: string): string => `azure://${scope}/Microsoft.Compute/virtualMachines/${name}`;

/** A virtual machine with one network interface, `<name>-nic`. */
function putMachine({ simulator }: World, name: string, properties: JsonObject = {}): void {
  const configuration = { primary: true, subnet, privateIPAddress: "10.240.0.9" };
  simulator.put(`/providers/Microsoft.Network/networkInterfaces/${name}-nic`, {
    location: "eastus",
    properties: { ipConfigurations: [{ name: "ipconfig1", properties: configuration }] },
  });
  const networkInterfaces = [{ id: `${scope}/Microsoft.Network/networkInterfaces/${name}-nic` }];
  simulator.put(`/providers/Microsoft.Compute/virtualMachines/${name}`, {
    location: "eastus",
    properties: { networkProfile: { networkInterfaces }, ...properties },
  });
}

describe("standalone virtual machines", () => {
  test("join and leave by their primary network interface", async () => {
    await using world = await openWorld();
    putMachine(world, "vm-0");
    const one = await open(world);
    const known = [nodeOf("vm-0", { providerID: machineOf("vm-0") })];
    world.simulator.clearLog();
    expect(await one.apply([update({ join: ["vm-0"] })], known)).toEqual(written(1));
    expect(one.writes()).toEqual(["Microsoft.Network/networkInterfaces/vm-0-nic"]);
    const [member] = await one.membersOf(poolId(), known);
    expect(member).toMatchObject({ node: "vm-0", gone: false, complete: true });
    await one.apply([update({ leave: [member?.ipConfigurationId ?? ""] })], known);
    expect(await one.membersOf(poolId(), known)).toEqual([]);
  });

  test("standalone virtual machines with several network interfaces are members by the primary one", async () => {
    await using world = await openWorld();
    putMachine(world, "other");
    const nic = (name: string): string => `${scope}/Microsoft.Network/networkInterfaces/${name}-nic`;
    const networkInterfaces = [
      { id: nic("other"), properties: { primary: false } },
      { id: nic("vm-0"), properties: { primary: true } },
    ];
    putMachine(world, "vm-0", { networkProfile: { networkInterfaces } });
    const one = await open(world);
    const known = [nodeOf("vm-0", { providerID: machineOf("vm-0") })];
    world.simulator.clearLog();
    await one.apply([update({ join: ["vm-0"] })], known);
    expect(one.writes()).toEqual(["Microsoft.Network/networkInterfaces/vm-0-nic"]);
    world.simulator.delete("/providers/Microsoft.Compute/virtualMachines/other");
    expect(await one.membersOf(poolId(), known)).toMatchObject([{ node: "vm-0" }]);
  });

  test("standalone virtual machines whose network interface is gone are left out without an error", async () => {
    await using world = await openWorld();
    putMachine(world, "vm-0");
    const one = await open(world);
    const known = [nodeOf("vm-0", { providerID: machineOf("vm-0") })];
    world.simulator.failNext(
      { method: "GET", path: "/networkInterfaces/vm-0-nic" },
      { status: 404, code: "ResourceNotFound" },
    );
    expect(await one.apply([update({ join: ["vm-0"] })], known)).toEqual(written(0));
  });

  /** One whose network interface is in state `Failed`. `refuse` lets ARM refuse its next writes. */
  async function openFailed(world: World) {
    putMachine(world, "vm-0");
    const nic = "/providers/Microsoft.Network/networkInterfaces/vm-0-nic";
    const { properties } = world.simulator.get(nic) ?? {};
    world.simulator.put(nic, { properties: { ...properties, provisioningState: "Failed" } });
    let now = 0;
    const skipped: string[] = [];
    const found: StuckMember[] = [];
    const one = await open(world, ["kubernetes"], {
      monotonic: () => now,
      skipped: (id) => void skipped.push(id),
      found: (member) => void found.push(member),
    });
    const known = [nodeOf("vm-0", { providerID: machineOf("vm-0") })];
    world.simulator.clearLog();
    return {
      ...one,
      skipped,
      found,
      join: () => one.apply([update({ join: ["vm-0"] })], known),
      fail: (failure: Parameters<typeof world.simulator.failNext>[1]) =>
        world.simulator.failNext({ method: "PUT", path: "vm-0-nic" }, failure),
      pass: (minutes: number) => void (now += minutes * 60_000),
      state: () => world.simulator.get(nic)?.properties["provisioningState"],
    };
  }

  test("standalone virtual machines whose network interface is in state Failed join, which repairs it", async () => {
    await using world = await openWorld();
    const { join, writes, state, skipped } = await openFailed(world);
    expect(await join()).toEqual(written(1));
    expect(writes()).toEqual(["Microsoft.Network/networkInterfaces/vm-0-nic"]);
    expect(state()).toBe("Succeeded");
    expect(skipped).toEqual([]);
  });

  test("standalone virtual machines whose network interface ARM refuses to repair are left out for ten minutes without an error", async () => {
    await using world = await openWorld();
    const { join, writes, fail, pass, state, skipped } = await openFailed(world);
    fail({ status: 400, code: "InvalidRequestFormat" });
    expect(await join()).toEqual(written(1));
    pass(9);
    expect(await join()).toEqual(written(0));
    expect(writes()).toHaveLength(1);
    const vm = machineOf("vm-0").slice("azure://".length);
    expect(skipped).toEqual([vm, vm]);
    pass(1);
    expect(await join()).toEqual(written(1));
    expect(state()).toBe("Succeeded");
    expect(skipped).toHaveLength(2);
  });

  test("standalone virtual machines whose network interface stays in state Failed after a write are reported and left out without an error", async () => {
    await using world = await openWorld();
    const { join, fail, state, skipped, found } = await openFailed(world);
    fail({ status: 500, code: "InternalServerError", stage: "operation" });
    expect(await join()).toEqual(written(1));
    expect(state()).toBe("Failed");
    expect(skipped).toHaveLength(1);
    expect(found).toMatchObject([{ state: "Failed", change: "join" }]);
  });

  test("standalone virtual machines whose network interface is in state Failed are written again at once after an outage", async () => {
    await using world = await openWorld();
    const { join, fail, state, skipped } = await openFailed(world);
    fail({ status: 503, code: "ServerUnavailable", times: 10 });
    expect((await join()).failed.size).toBe(1);
    world.simulator.clearFailures();
    expect(await join()).toEqual(written(1));
    expect(state()).toBe("Succeeded");
    expect(skipped).toEqual([]);
  });

  test("standalone virtual machines whose network interface is in state Failed join after another write has superseded theirs", async () => {
    await using world = await openWorld();
    const { join, fail, state, skipped } = await openFailed(world);
    fail({ status: 409, code: "CanceledAndSupersededDueToAnotherOperation", stage: "operation" });
    expect(await join()).toEqual(written(1));
    expect(state()).toBe("Succeeded");
    expect(skipped).toEqual([]);
  });

  test("standalone virtual machines that no list has are skipped when they are to join, and no other one is", async () => {
    await using world = await openWorld();
    putMachine(world, "vm-0");
    const skipped: string[] = [];
    const one = await open(world, ["kubernetes"], { skipped: (id) => skipped.push(id) });
    const known = ["vm-0", "hidden"].map((name) => nodeOf(name, { providerID: machineOf(name) }));
    expect(await one.apply([update({ join: ["vm-0", "hidden"] })], known)).toEqual(written(1));
    expect(skipped).toEqual([machineOf("hidden").slice("azure://".length)]);
  });

  test("standalone virtual machines that no list has, or whose resource group does not exist, are members without a node, and stay", async () => {
    await using world = await openWorld();
    const one = await open(world);
    for (const group of [scope, scope.replace("rg0", "no-group")]) {
      const configuration = `${group}/Microsoft.Network/networkInterfaces/unknown/ipConfigurations/c`;
      const pool = { id: poolId(), backendIPConfigurations: [{ id: configuration }] };
      const found = await one.members.reads.observe([{ backendAddressPools: [pool] }], []);
      expect([...found.values()]).toEqual([
        [{ ipConfigurationId: configuration, node: undefined, gone: false, complete: true }],
      ]);
    }
  });

  test("standalone virtual machines whose list ARM refuses fail their write, and instances of a scale set join", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    putMachine(world, "vm-0");
    const one = await open(world);
    const known = [...nodes(1), nodeOf("vm-0", { providerID: machineOf("vm-0") })];
    world.simulator.failNext({ method: "GET", path: "Microsoft.Compute/virtualMachines" }, { status: 403 });
    const [refused, joined] = [update({ join: ["vm-0"] }), update({ join: ["node-0"] })];
    const result = await one.apply([refused, joined], known);
    expect([...result.failed]).toEqual([[refused, expect.objectContaining({ status: 403 })]]);
    expect(one.writes()).toEqual([modelPath, instancePath(0)]);
  });

  test("standalone virtual machines that the list lacks share one further list, those of several pools as well", async () => {
    await using world = await openWorld({ operationStyle: "none" });
    const one = await open(world);
    const known = ["vm-0", "vm-1", "vm-2"].map((name) => nodeOf(name, { providerID: machineOf(name) }));
    const joins = [update({ join: ["vm-0", "vm-1"] }), update({ join: ["vm-2"], pool: poolId("kubernetes", "more") })];
    world.simulator.clearLog();
    expect(await one.apply(joins, known)).toEqual(written(0));
    expect(world.simulator.log.filter(({ path }) => path.endsWith("/virtualMachines"))).toHaveLength(2);
  });

  test("are written without a look at any scale set, however many they are", async () => {
    await using world = await openWorld();
    const names = ["vm-0", "vm-1", "vm-2", "vm-3", "vm-4"];
    for (const name of names) putMachine(world, name);
    const one = await open(world);
    const known = names.map((name) => nodeOf(name, { providerID: machineOf(name) }));
    world.simulator.clearLog();
    expect(await one.apply([update({ join: names })], known)).toEqual(written(5));
    expect(world.simulator.log.filter(({ path }) => path.includes("virtualMachineScaleSets"))).toEqual([]);
  });
});

describe("virtual machines of a flexible scale set", () => {
  test("join by their network interface, and the model as upstream writes it: with an API version and without an etag", async () => {
    await using world = await openWorld();
    const { simulator } = world;
    simulator.addScaleSet({ name: "flex", orchestrationMode: "Flexible" });
    putMachine(world, "vm-0", {
      virtualMachineScaleSet: { id: `${scope}/Microsoft.Compute/virtualMachineScaleSets/flex` },
    });
    const one = await open(world);
    const known = [nodeOf("vm-0", { providerID: machineOf("vm-0") })];
    simulator.clearLog();
    expect(await one.apply([update({ join: ["vm-0"] })], known)).toEqual(written(2));
    const puts = simulator.log.filter(({ method }) => method === "PUT");
    expect(puts.map(({ path, ifMatch }) => [path.split("/").at(-1), ifMatch === undefined])).toEqual([
      ["flex", true],
      ["vm-0-nic", false],
    ]);
    expect(JSON.stringify(puts[0]?.body)).toContain('"networkApiVersion":"2020-11-01"');
    expect(await one.membersOf(poolId(), known)).toMatchObject([{ node: "vm-0", complete: true }]);
  });

  test("virtual machines of a flexible scale set wait for its model", async () => {
    await using world = await openWorld({ operationStyle: "none" });
    const { simulator } = world;
    const { id } = simulator.addScaleSet({ name: "flex", orchestrationMode: "Flexible" });
    putMachine(world, "vm-0", { virtualMachineScaleSet: { id } });
    const one = await open(world);
    const held = simulator.hold({ method: "PUT", path: /virtualMachineScaleSets\/flex$/u });
    const applied = one.apply([update({ join: ["vm-0"] })], [nodeOf("vm-0", { providerID: machineOf("vm-0") })]);
    await eventually("the model is being written", () => held.waiting() === 1);
    await Bun.sleep(50);
    expect(one.writes()).toEqual([]);
    held.release();
    expect(await applied).toEqual(written(2));
  });
});
