import { expect, test } from "bun:test";

import type { PlannedWrite } from "cloud-controller-host/sdk";

import { errorOf } from "../../../../kit/rejection.ts";
import { openWorld, type World } from "../../world.ts";

const subnet =
  "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/virtualNetworks/vnet0/subnets/subnet0";

/** A load balancer whose pool has these members. */
const withMembers = (...addresses: readonly string[]) => ({
  location: "eastus",
  sku: { name: "Standard" },
  frontendIPConfigurations: [{ name: "front", subnet: { id: subnet } }],
  backendAddressPools: [
    {
      name: "nodes",
      loadBalancerBackendAddresses: addresses.map((ipAddress) => ({ name: ipAddress, ipAddress })),
    },
  ],
});

/** The clients of a plan for what Azure has, and the writes that it records. */
async function openPlan(world: World) {
  const writes: PlannedWrite[] = [];
  const ignore = (): void => undefined;
  const record = (write: PlannedWrite): void => void writes.push(write);
  const planning = { record, unknown: ignore, hold: ignore, inFlight: ignore };
  const { network } = await world.clients({}, { context: { planning } });
  return { planned: network.loadBalancers, writes };
}

test("what the steps of a plan take away from traffic is what Azure has, not what an earlier step has added", async () => {
  await using world = await openWorld();
  const { network } = await world.clients();
  await network.loadBalancers.createOrUpdate("rg0", "old", withMembers("10.0.0.4", "10.0.0.5"));
  const { planned, writes } = await openPlan(world);
  const interruptionsOf = async (name: string, ...addresses: readonly string[]): Promise<readonly string[]> => {
    await planned.createOrUpdate("rg0", name, withMembers(...addresses));
    return writes.at(-1)?.interruptions ?? [];
  };
  expect(await interruptionsOf("new", "10.0.0.4", "10.0.0.5")).toEqual([]);
  expect(await interruptionsOf("new", "10.0.0.4")).toEqual([]);
  expect(await interruptionsOf("old", "10.0.0.4", "10.0.0.5", "10.0.0.6")).toEqual([]);
  expect(await interruptionsOf("old", "10.0.0.5")).toEqual(["pool nodes loses 10.0.0.4"]);
  expect(await interruptionsOf("old", "10.0.0.6")).toEqual(["pool nodes loses 10.0.0.4", "pool nodes loses 10.0.0.5"]);
});

test("a list shows what a plan has written in place of what Azure has, without what it has deleted, and all else as it is", async () => {
  await using world = await openWorld();
  const { network } = await world.clients();
  for (const name of ["kept", "written", "gone"])
    await network.loadBalancers.createOrUpdate("rg0", name, withMembers("10.0.0.4"));
  const { planned } = await openPlan(world);
  await planned.createOrUpdate("rg0", "written", withMembers("10.0.0.4", "10.0.0.5"));
  await planned.createOrUpdate("rg0", "new", withMembers("10.0.0.6"));
  await planned.delete("rg0", "gone");
  const listed = await Array.fromAsync(planned.list("rg0"));
  const shown = listed.map(({ name, backendAddressPools: [pool] = [] }) =>
    [name, ...(pool?.loadBalancerBackendAddresses ?? []).map(({ ipAddress }) => ipAddress)].join(" "),
  );
  expect(shown.toSorted()).toEqual(["kept 10.0.0.4", "new 10.0.0.6", "written 10.0.0.4 10.0.0.5"]);
});

test("a read shows what a plan has written, and that what it has deleted does not exist", async () => {
  await using world = await openWorld();
  const { network } = await world.clients();
  await network.loadBalancers.createOrUpdate("rg0", "one", withMembers("10.0.0.4"));
  const { planned, writes } = await openPlan(world);
  await planned.createOrUpdate("rg0", "one", withMembers("10.0.0.5"));
  expect(JSON.stringify(await planned.get("rg0", "one"))).toContain("10.0.0.5");
  await planned.delete("rg0", "one");
  expect(await errorOf(planned.get("rg0", "one"))).toMatchObject({ status: 404, code: "ResourceNotFound" });
  await planned.delete("rg0", "one");
  expect(writes).toHaveLength(2);
  expect(JSON.stringify(await network.loadBalancers.get("rg0", "one"))).toContain("10.0.0.4");
});

test("a write of a plan that rests on an outdated read is refused with 412, and not recorded", async () => {
  await using world = await openWorld();
  const { network } = await world.clients();
  const { etag = "" } = await network.loadBalancers.createOrUpdate("rg0", "one", withMembers("10.0.0.4"));
  const { planned, writes } = await openPlan(world);
  const onlyIf = (headers: Readonly<Record<string, string>>) => ({ requestOptions: { headers } });
  const put = (headers: Readonly<Record<string, string>>) =>
    planned.createOrUpdate("rg0", "one", withMembers("10.0.0.5"), onlyIf(headers));
  const refused = { status: 412, code: "PreconditionFailed" };
  expect(await errorOf(put({ "If-None-Match": "*" }))).toMatchObject(refused);
  expect(writes).toEqual([]);
  await put({ "If-Match": etag });
  expect(await errorOf(put({ "If-Match": etag }))).toMatchObject(refused);
  expect(await errorOf(planned.delete("rg0", "one", onlyIf({ "If-Match": etag })))).toMatchObject(refused);
  expect(writes).toHaveLength(1);
});

test("a plan shows that a write repairs a resource in state Failed, though nothing else of it changes", async () => {
  await using world = await openWorld();
  const { network } = await world.clients();
  await network.loadBalancers.createOrUpdate("rg0", "one", withMembers("10.0.0.4"));
  const path = "/providers/Microsoft.Network/loadBalancers/one";
  const known = world.simulator.get(path);
  world.simulator.put(path, { ...known, properties: { ...known?.properties, provisioningState: "Failed" } });
  const { planned, writes } = await openPlan(world);
  await planned.createOrUpdate("rg0", "one", withMembers("10.0.0.4"));
  expect(writes).toMatchObject([
    { before: { provisioningState: "Failed" }, after: { provisioningState: "Succeeded" }, interruptions: [] },
  ]);
});

test("a plan refuses a write of whose resource ARM denies the read, and one that it cannot carry out, and sends neither", async () => {
  await using world = await openWorld();
  const { planned, writes } = await openPlan(world);
  world.simulator.failNext({ method: "GET", path: "/loadBalancers/one" }, { status: 403, code: "AuthorizationFailed" });
  expect(await errorOf(planned.createOrUpdate("rg0", "one", withMembers("10.0.0.4")))).toMatchObject({ status: 403 });
  expect(await errorOf(planned.updateTags("rg0", "one", { tags: {} }))).toMatchObject({
    status: 400,
    code: "NotPlanned",
  });
  expect(world.simulator.log.filter(({ method }) => method !== "GET" && method !== "POST")).toEqual([]);
  expect(writes).toEqual([]);
});
