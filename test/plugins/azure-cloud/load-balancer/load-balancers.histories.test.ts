import { describe, expect, test } from "bun:test";

import { Random } from "../../../kit/random.ts";
import { azureState } from "./azure-state.ts";
import { openCluster } from "./cluster.ts";
import { History } from "./history.ts";

const seeds = [1015, 2001, 2002, 2003, 2004, 2005, 3000, 3008];

describe("the next process after changes, delays, failures and stops at random", () => {
  for (const seed of seeds)
    test(`serves every Service and leaves nothing of the others (seed ${seed})`, async () => {
      const random = new Random(seed);
      await using cluster = await openCluster(2, { operationPolls: random.between(0, 1) });
      const history = new History(cluster, random);
      const start = azureState(cluster.world.simulator);
      for (let processes = 4; processes > 0; processes -= 1) await history.live();
      expect(await history.settle()).toEqual([]);
      history.expectServed();
      history.deleteAll();
      expect(await history.settle()).toEqual([]);
      expect(azureState(cluster.world.simulator)).toEqual(start);
    }, 120_000);
});
