import { expect, setDefaultTimeout, test } from "bun:test";

import type { CloudWrite, Node, Route } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { objectsAt } from "../../../../plugins/azure-cloud/json.ts";
import { instanceID, nodeOf, openWorld } from "../world.ts";

setDefaultTimeout(120_000);

const tableId = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/routeTables/rt0";

const nodeAt = (index: number): Node => {
  const node = nodeOf(`vmss000000${index}`, { providerID: instanceID(index) });
  return { ...node, spec: { ...node.spec, podCIDRs: [`10.244.${index}.0/24`] } };
};
const routeTo = (index: number): Route => ({
  name: "",
  targetNode: `vmss000000${index}`,
  destinationCIDR: `10.244.${index}.0/24`,
});

/** A route table with routes to two nodes and one of another owner. */
async function routed() {
  const world = await openWorld();
  await world.simulator.addInstances(2);
  world.nodes.push(nodeAt(0), nodeAt(1));
  const records: CloudWrite[] = [];
  const events: string[] = [];
  const context = {
    recordWrite: (write: CloudWrite) => void records.push(write),
    events: {
      event: (subject: { readonly metadata?: { readonly name?: string } }, _type: string, reason: string) =>
        void events.push(`${subject.metadata?.name} ${reason}`),
    },
  };
  const cloud = await world.create({ routeTableName: "rt0", disableAPICallCache: true }, { context });
  const create = (index: number) => cloud.routes.createRoute("kubernetes", "", routeTo(index));
  await Promise.all([0, 1].map(create));
  const change = (edit: (routes: readonly Record<string, unknown>[]) => readonly object[]): void => {
    const stored = world.simulator.get(tableId);
    if (stored === undefined) throw new Error("missing: route table");
    const routes = edit(objectsAt(stored.properties, "routes").map((route) => ({ ...route })));
    world.simulator.put(tableId, { ...stored, properties: { ...stored.properties, routes } });
  };
  const drifts = () => records.filter(({ operation }) => operation === "drift");
  return { world, cloud, create, change, drifts, events, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() };
}

const foreign = { name: "to-firewall", properties: { addressPrefix: "10.9.0.0/16", nextHopType: "Internet" } };

test("a route of a node that another writer removes is a drift, with an event on the node, and repaired once it is there again", async () => {
  await using lab = await routed();
  const list = () => lab.cloud.routes.listRoutes("kubernetes");
  await list();
  lab.change((routes) => routes.slice(0, 1));
  await list();
  await list();
  expect(lab.drifts().map(({ resource, repaired }) => [resource, repaired])).toEqual([[tableId, false]]);
  expect(JSON.stringify(lab.drifts()[0]?.change?.before)).toContain("vmss0000001____102441024");
  expect(lab.events).toEqual(["vmss0000001 AzureResourceChanged"]);
  await lab.create(1);
  expect(lab.drifts().map(({ repaired }) => repaired)).toEqual([false, true]);
});

test("a route of another owner, and writes of this process, are not drift", async () => {
  await using lab = await routed();
  await lab.cloud.routes.listRoutes("kubernetes");
  lab.change((routes) => [...routes, foreign]);
  await lab.cloud.routes.listRoutes("kubernetes");
  await lab.cloud.routes.createRoute("kubernetes", "", { ...routeTo(0), destinationCIDR: "10.245.0.0/24" });
  lab.world.nodes.pop();
  await lab.cloud.routes.deleteRoute("kubernetes", routeTo(1));
  await lab.cloud.routes.listRoutes("kubernetes");
  expect(lab.drifts()).toEqual([]);
  expect(lab.events).toEqual([]);
});

test("a read during a write of the route table by this process is not drift, although it shows what is being written", async () => {
  await using lab = await routed();
  await lab.cloud.routes.listRoutes("kubernetes");
  lab.world.nodes.pop();
  const hold = lab.world.simulator.hold({ method: "PUT", path: "/routeTables/" }, "response");
  const deletion = lab.cloud.routes.deleteRoute("kubernetes", routeTo(1));
  await eventually("the table is written", () => Promise.resolve(hold.waiting() > 0), 20_000);
  expect(objectsAt(lab.world.simulator.get(tableId)?.properties, "routes")).toHaveLength(1);
  await lab.cloud.routes.listRoutes("kubernetes");
  expect(lab.drifts()).toEqual([]);
  hold.release();
  await deletion;
  await lab.cloud.routes.listRoutes("kubernetes");
  expect(lab.drifts()).toEqual([]);
});

test("a write of the route table that fails is not drift, and what another writer changed meanwhile is found later", async () => {
  await using lab = await routed();
  lab.world.simulator.failNext({ method: "PUT", path: "/routeTables/" }, { status: 409, code: "Conflict", times: 1 });
  await lab.create(0);
  await lab.cloud.routes
    .createRoute("kubernetes", "", { ...routeTo(0), destinationCIDR: "10.245.0.0/24" })
    .catch(() => 0);
  await lab.cloud.routes.listRoutes("kubernetes");
  expect(lab.drifts()).toEqual([]);
  lab.change(() => []);
  await lab.cloud.routes.listRoutes("kubernetes");
  expect(lab.drifts()).toHaveLength(1);
});
