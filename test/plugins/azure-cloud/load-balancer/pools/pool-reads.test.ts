import { expect, test } from "bun:test";

import type { Node } from "cloud-controller-host/sdk";

import { systemClock } from "../../../../../host/async/clock.ts";
import { PoolReads } from "../../../../../plugins/azure-cloud/load-balancer/pools/pool-reads.ts";
import { instanceID, openWorld } from "../../world.ts";

const networkInterface = (name: string): string =>
  `/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/networkInterfaces/${name}`;

test("network interfaces that are being updated have an operation in progress, and those that are ready, failed or gone have none", async () => {
  await using world = await openWorld();
  for (const [name, provisioningState] of Object.entries({ a: "Updating", b: "Succeeded", c: "Failed" }))
    world.simulator.put(networkInterface(name), { properties: { provisioningState } });
  const reads = await world.reads({}, { clock: systemClock });
  const pools = new PoolReads({ ...reads, clock: systemClock, standard: true });
  const ids = ["a", "b", "c", "gone"].map(networkInterface);
  expect(await pools.unended(ids, "fresh")).toEqual([networkInterface("a")]);
  world.simulator.clearLog();
  expect(await pools.unended(ids, "cached")).toEqual([networkInterface("a")]);
  expect(world.simulator.log.map(({ path }) => path.split("/").at(-1))).toEqual(["networkInterfaces"]);
});

test("a member has the name of the node that is there, or of a deleted one where no other node has its instance", async () => {
  await using world = await openWorld();
  const reads = await world.reads({}, { clock: systemClock });
  const pools = new PoolReads({ ...reads, clock: systemClock, standard: true });
  const [shared, left] = [0, 1].map((index) => instanceID(index));
  const node = (name: string, providerID = ""): Node => ({ metadata: { name }, spec: { providerID } });
  const members = [shared, left].map((id = "") => ({
    id: `${id.replace("azure://", "")}/networkInterfaces/nic/ipConfigurations/ipconfig1`,
  }));
  const pool = { id: "/loadBalancers/kubernetes/backendAddressPools/kubernetes", backendIPConfigurations: members };
  const deleted = [node("former", shared), node("deleted", left)];
  const found = await pools.observe([{ backendAddressPools: [pool] }], [node("present", shared)], deleted);
  expect(found.get(pool.id.toLowerCase())?.map((member) => member.node)).toEqual(["present", "deleted"]);
});
