import { expect, test } from "bun:test";

import { systemClock } from "../../../../../host/async/clock.ts";
import { PoolReads } from "../../../../../plugins/azure-cloud/load-balancer/pools/pool-reads.ts";
import { openWorld } from "../../world.ts";

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
