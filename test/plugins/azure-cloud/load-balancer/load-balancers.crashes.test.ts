import { describe, expect, test } from "bun:test";

import { Random } from "../../../kit/random.ts";
import { azureState, expectConverged } from "./azure-state.ts";
import { openCluster } from "./cluster.ts";
import { Scenario } from "./scenario.ts";

const seed = 1311;
const crashes = 40;

describe(`a process that crashes (seed ${seed})`, () => {
  test("a process that crashes at any of 40 random moments leaves no orphan and no duplicate after the next one has synced", async () => {
    const random = new Random(seed);
    await using cluster = await openCluster(3);
    const scenario = new Scenario(cluster, random);
    let interrupted = 0;
    for (let count = 0; count < crashes; count++) {
      scenario.change(random.between(1, 5));
      cluster.world.simulator.clearLog();
      cluster.world.simulator.setLatency(random.between(0, 3));
      const doomed = await cluster.start();
      const work = scenario.sync(doomed);
      const until = random.between(0, 12);
      while (cluster.writes().length < until && !(await Promise.race([work.then(() => true), Bun.sleep(1)]))) continue;
      doomed.crash();
      if ((await work).length > 0) interrupted += 1;
      // What the crashed process had sent may still be carried out.
      while (cluster.world.simulator.underway() > 0) await Bun.sleep(1);
      cluster.world.simulator.setLatency(0);
      const next = await cluster.start();
      expect({ count, errors: await scenario.sync(next) }).toEqual({ count, errors: [] });
      expect({ count, settled: scenario.settled }).toEqual({ count, settled: true });
      expectConverged(cluster);
      next.crash();
    }
    expect(interrupted).toBeGreaterThan(crashes / 4);
    expect(azureState(cluster.world.simulator).publicIPs.length).toBeLessThanOrEqual(8);
  }, 180_000);
});
