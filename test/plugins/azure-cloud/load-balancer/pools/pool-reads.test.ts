import { expect, test } from "bun:test";

import { systemClock } from "../../../../../host/async/clock.ts";
import { PoolReads } from "../../../../../plugins/azure-cloud/load-balancer/pools/pool-reads.ts";
import { openWorld } from "../../world.ts";

test("instances that are abandoned are taken once, and those that are followed already stay until they are not", async () => {
  await using world = await openWorld();
  const reads = await world.reads({}, { clock: systemClock });
  const pools = new PoolReads({ ...reads, clock: systemClock, standard: true });
  for (const id of ["one", "two", "two"]) pools.abandon(id);
  expect(pools.takeAbandoned(new Set(["one"]))).toEqual(["two"]);
  expect(pools.takeAbandoned(new Set(["one", "two"]))).toEqual([]);
  expect(pools.takeAbandoned(new Set())).toEqual(["one"]);
  expect(pools.takeAbandoned(new Set())).toEqual([]);
});
