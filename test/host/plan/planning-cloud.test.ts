import { expect, test } from "bun:test";

import { type Cloud, type CloudContext, defineCloud, Type } from "cloud-controller-host/sdk";

import { systemClock } from "../../../host/async/clock.ts";
import { Activity } from "../../../host/plan/activity.ts";
import { planningPlugin } from "../../../host/plan/planning-cloud.ts";
import { RecordedWrites } from "../../../host/plan/recorded.ts";
import { wholeCloud } from "../../kit/whole-cloud.ts";

/** The cloud of a plan's controllers, made from this one. */
async function planned(cloud: Cloud): Promise<Cloud> {
  const plugin = defineCloud({
    name: "memory",
    configSchema: Type.Object({}),
    decode: () => ({ ok: true, value: {}, warnings: [] }),
    create: () => Promise.resolve(cloud),
  });
  const parts = { writes: new RecordedWrites("memory", { keepsReads: false }), activity: new Activity(systemClock) };
  const bound = planningPlugin(plugin, parts).bind({}, {});
  if (!bound.ok) throw new Error(bound.problems.join("; "));
  const context: Partial<CloudContext> = {};
  return bound.value(Object.assign(Object.create(null), context));
}

const methods = (capability: object | undefined): readonly string[] => Object.keys(capability ?? {}).toSorted();

test("the cloud of a plan has every method of each capability that the cloud itself has", async () => {
  const own = wholeCloud();
  const made = await planned(own);
  for (const name of ["instances", "loadBalancers", "routes", "nodeMasks"] as const) {
    expect(methods(own[name]).length).toBeGreaterThan(0);
    expect([name, methods(made[name])]).toEqual([name, methods(own[name])]);
  }
});
