import { describe, expect, test } from "bun:test";

import { ApiError, type CloudContext, type KubeClient, type Node, type Route } from "cloud-controller-host/sdk";

import { objectsAt } from "../../../../plugins/azure-cloud/json.ts";
import { jumpingClock } from "../../../kit/clocks.ts";
import { errorOf } from "../../../kit/rejection.ts";
import { warningLines } from "../../../kit/warnings.ts";
import { instanceID, nodeOf, openWorld, type TestCloud, type World } from "../world.ts";

const tableId = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/routeTables/rt0";
const count = 30;
const held = expect.objectContaining({ code: "RemovalHeld" });

const nameOf = (index: number): string => `vmss${index.toString(36).padStart(7, "0")}`;
const nodeAt = (index: number): Node => {
  const node = nodeOf(nameOf(index), { providerID: instanceID(index) });
  return { ...node, spec: { ...node.spec, podCIDRs: [`10.244.${index}.0/24`] } };
};
const routeTo = (index: number): Route => ({
  name: "",
  targetNode: nameOf(index),
  destinationCIDR: `10.244.${index}.0/24`,
});
const indices = Array.from({ length: count }, (_, index) => index);
const routesIn = ({ simulator }: World): number => objectsAt(simulator.get(tableId)?.properties, "routes").length;

/** A cluster with a route for each node, and an API server that does not answer about those that are not `gone`. */
async function routed(
  gone: ReadonlySet<string> = new Set(),
  settings: Readonly<Record<string, unknown>> = {},
  clock?: CloudContext["clock"],
): Promise<{ world: World; cloud: TestCloud } & AsyncDisposable> {
  const world = await openWorld();
  await world.simulator.addInstances(count);
  world.nodes.push(...indices.map(nodeAt));
  const client: KubeClient = {
    ...world.leases.client,
    get(_kind, { name }) {
      const status = gone.has(name) ? 404 : 503;
      return Promise.reject(new ApiError(status, status === 404 ? "NotFound" : "ServiceUnavailable", name));
    },
  };
  const options = { context: { client }, ...(clock && { clock }) };
  const cloud = await world.create({ routeTableName: "rt0", ...settings }, options);
  await Promise.all(indices.map((index) => cloud.routes.createRoute("kubernetes", "", routeTo(index))));
  return { world, cloud, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() };
}

const deleteAll = (cloud: TestCloud, from: readonly number[]) =>
  Promise.all(from.map((index) => errorOf(cloud.routes.deleteRoute("kubernetes", routeTo(index)))));

describe("routes of nodes", () => {
  test("stay while only the list of nodes lacks them, and new ones are created", async () => {
    await using lab = await routed();
    const { world, cloud } = lab;
    world.nodes.splice(0, 29);
    expect(routesIn(world)).toBe(count);
    world.nodes.push({ ...nodeAt(0), spec: { ...nodeAt(0).spec, podCIDRs: ["10.245.0.0/24"] } });
    const [errors, created] = await Promise.all([
      deleteAll(cloud, indices.slice(1, 29)),
      errorOf(cloud.routes.createRoute("kubernetes", "", { ...routeTo(0), destinationCIDR: "10.245.0.0/24" })),
    ]);
    expect(errors).toEqual(errors.map(() => held));
    expect(created).toBeUndefined();
    expect(routesIn(world)).toBe(count + 1);
    expect(warningLines(cloud)).toEqual([expect.stringContaining("28 of 30 routes of route table rt0")]);
  });

  test("go with 80 % of the nodes", async () => {
    await using lab = await routed(new Set(indices.slice(6).map(nameOf)));
    const { world, cloud } = lab;
    world.nodes.splice(6);
    expect(await deleteAll(cloud, indices.slice(6))).toEqual(indices.slice(6).map(() => undefined));
    expect(routesIn(world)).toBe(6);
    expect(cloud.warnings?.()).toEqual([]);
  });

  test("go when the nodes have other pod CIDRs", async () => {
    await using lab = await routed();
    const { world, cloud } = lab;
    world.nodes.splice(0, count, ...indices.map((index) => ({ ...nodeAt(index), spec: { podCIDRs: [] } })));
    expect(await deleteAll(cloud, indices)).toEqual(indices.map(() => undefined));
    expect(routesIn(world)).toBe(0);
  });

  test("go when the nodes are being deleted, although they keep their pod CIDRs", async () => {
    await using lab = await routed();
    const { world, cloud } = lab;
    const deletionTimestamp = "2026-01-01T00:00:00Z";
    const leaving = (node: Node): Node => ({ ...node, metadata: { ...node.metadata, deletionTimestamp } });
    world.nodes.splice(0, count, ...indices.map((index) => leaving(nodeAt(index))));
    expect(await deleteAll(cloud, indices)).toEqual(indices.map(() => undefined));
    expect(routesIn(world)).toBe(0);
  });

  test("stay when nodes that keep their pod CIDRs are to lose them", async () => {
    await using lab = await routed();
    expect(await deleteAll(lab.cloud, indices)).toEqual(indices.map(() => held));
    expect(routesIn(lab.world)).toBe(count);
  });

  test("stay, and are reported as held until a pass does not plan to remove them, however rare passes are", async () => {
    const clock = jumpingClock();
    await using lab = await routed(new Set(), {}, clock);
    const { world, cloud } = lab;
    const lines = (): readonly unknown[] => world.logged.filter(({ message }) => message.startsWith("Removals are"));
    const pass = async (): Promise<void> => {
      await cloud.routes.listRoutes("kubernetes");
      if (world.nodes.length < count) await deleteAll(cloud, indices.slice(0, 28));
    };
    const away = world.nodes.splice(0, 28);
    for (let passes = 0; passes < 3; passes++) {
      await pass();
      clock.jump(290_000);
      expect(warningLines(cloud)).toEqual([expect.stringContaining("28 of 30 routes of route table rt0")]);
    }
    expect(lines()).toEqual([expect.objectContaining({ message: "Removals are held" })]);
    world.nodes.push(...away);
    await pass();
    clock.jump(91_000);
    expect(warningLines(cloud)).toEqual([]);
    expect(lines()).toHaveLength(2);
  });

  test("stay when one answer shows the table without them", async () => {
    await using lab = await routed(new Set(), { disableAPICallCache: true });
    const { world, cloud } = lab;
    let answers = 0;
    world.simulator.changeGets((one) => {
      if (!one.id.endsWith("/rt0")) return one;
      answers += 1;
      return answers === 1 ? { ...one, properties: { ...one.properties, routes: [] } } : one;
    });
    const extra = { ...routeTo(0), destinationCIDR: "10.245.0.0/24" };
    expect(await errorOf(cloud.routes.createRoute("kubernetes", "", extra))).toBeUndefined();
    expect(answers).toBeGreaterThan(1);
    expect(routesIn(world)).toBe(count + 1);
  });
});

describe("the config names another route table", () => {
  test.each([
    ["NetworkUnavailable", "RouteCreated", true],
    ["NetworkUnavailable", "CalicoIsUp", false],
    ["Ready", "RouteCreated", false],
  ])("a node with the condition %s=False, %s: its routes are reported as lost: %p", async (type, reason, isLost) => {
    await using lab = await routed();
    lab.world.nodes.splice(0, count, ...indices.map(nodeAt).map((node) => withCondition(node, type, reason)));
    const other = await lab.world.create({ routeTableName: "rt1" });
    const removals = await other.unrequestedRemovals?.({});
    expect(JSON.stringify(removals ?? "").includes("route table rt1")).toBe(isLost);
  });
});

const withCondition = (node: Node, type: string, reason: string): Node => ({
  ...node,
  status: { ...node.status, conditions: [{ type, reason, status: "False" }] },
});
