import { expect, test } from "bun:test";

import type { PlannedWrite } from "cloud-controller-host/sdk";

import { openWorld } from "../../world.ts";

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

test("what the steps of a plan take away from traffic is what Azure has, not what an earlier step has added", async () => {
  await using world = await openWorld();
  const { network } = await world.clients();
  await network.loadBalancers.createOrUpdate("rg0", "old", withMembers("10.0.0.4", "10.0.0.5"));
  const writes: PlannedWrite[] = [];
  const ignore = (): void => undefined;
  const planning = {
    record: (write: PlannedWrite) => void writes.push(write),
    unknown: ignore,
    hold: ignore,
    inFlight: ignore,
  };
  const planned = (await world.clients({}, { context: { planning } })).network.loadBalancers;
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
  const ignore = (): void => undefined;
  const planning = { record: ignore, unknown: ignore, hold: ignore, inFlight: ignore };
  const planned = (await world.clients({}, { context: { planning } })).network.loadBalancers;
  await planned.createOrUpdate("rg0", "written", withMembers("10.0.0.4", "10.0.0.5"));
  await planned.createOrUpdate("rg0", "new", withMembers("10.0.0.6"));
  await planned.delete("rg0", "gone");
  const listed = await Array.fromAsync(planned.list("rg0"));
  const shown = listed.map(({ name, backendAddressPools: [pool] = [] }) =>
    [name, ...(pool?.loadBalancerBackendAddresses ?? []).map(({ ipAddress }) => ipAddress)].join(" "),
  );
  expect(shown.toSorted()).toEqual(["kept 10.0.0.4", "new 10.0.0.6", "written 10.0.0.4 10.0.0.5"]);
});
