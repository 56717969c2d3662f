import { afterEach, beforeEach, expect, test } from "bun:test";

import { eventually } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../host/async/clock.ts";
import type { Loaded } from "../../../host/generation/plugins/load.ts";
import { Supervisor } from "../../../host/generation/supervisor.ts";
import { leading } from "./leading.ts";
import { main, SlotRig } from "./slot-rig.ts";

let rig: SlotRig;
let supervisor: Supervisor;
let leader: AsyncDisposable;
/** What the loads result in, the last one from then on. */
let loads: Loaded[];

/** A supervisor for which time passes a thousand times as fast. */
beforeEach(async () => {
  const clock = {
    ...systemClock,
    monotonic: () => systemClock.monotonic() * 1_000,
    sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / 1_000, signal),
  };
  rig = await SlotRig.start({ initTimeout: 3_600_000 }, clock);
  const plugins = rig.plugins([rig.controller("alpha", main)], "one");
  loads = [{ ok: true, plugins }];
  const source = { description: "a test", read: async () => "version: 1\n" };
  const load = async (): Promise<Loaded> => (loads.length > 1 ? loads.shift() : undefined) ?? { ok: true, plugins };
  supervisor = new Supervisor(rig.scope, source, { hash: async () => plugins.hash, load });
  leader = await leading(supervisor, plugins);
});
afterEach(async () => {
  await leader[Symbol.asyncDispose]();
  await rig[Symbol.asyncDispose]();
});

const logged = (text: string): readonly string[] => rig.lines.filter((line) => line.includes(text));

/** Requests a reload with a new config, and waits until a later attempt has succeeded. */
async function reloaded(): Promise<void> {
  supervisor.reload("a change", { text: "version: 2\n" });
  await eventually("it runs", () => supervisor.status.reloads === 1);
  expect(supervisor.status).toMatchObject({ lastRefusal: undefined, lastOutcome: { result: "reloaded" } });
}

test("a reload whose cloud cannot be created for now is tried again until it can, with the same config", async () => {
  let attempts = 0;
  rig.createCloud = async () => {
    attempts += 1;
    if (attempts < 4) throw new Error("the token endpoint does not answer");
  };
  await reloaded();
  expect(attempts).toBe(4);
  const refusals = logged("Reload refused; the running generation continues");
  expect(refusals).toHaveLength(3);
  for (const line of refusals)
    expect(line).toMatch(/"retryAfter":"\d+s".*does not answer; the reload is tried again"/u);
  const event =
    'ReloadRefused: the running generation continues: cloud "memory" cannot be created: the token endpoint does not answer; the reload is tried again';
  expect(rig.announced.filter((text) => text.startsWith("ReloadRefused"))).toEqual([event, event, event]);
});

test("a reload whose plugins were not imported in time is tried again", async () => {
  const problem = "plugin /plugins/odd/plugin.ts cannot be imported: import did not return within 30 s";
  loads = [{ ok: false, problems: [problem], timedOut: true }, ...loads];
  await reloaded();
  expect(logged("Reload refused")).toEqual([expect.stringContaining(`plugins are refused: ${problem}`)]);
});

test("a reload whose plugins are wrong is not tried again", async () => {
  loads = [{ ok: false, problems: ["plugin /plugins/odd/plugin.ts has no default export"], timedOut: false }, ...loads];
  supervisor.reload("a change", { text: "version: 2\n" });
  await eventually("it is refused", () => supervisor.status.lastRefusal !== undefined);
  expect(supervisor.status.lastRefusal?.reason).not.toContain("tried again");
  expect(logged("Reload refused")[0]).not.toContain("retryAfter");
  // Twelve times the longest pause before the first retry.
  await Bun.sleep(120);
  expect(logged("Reload started")).toHaveLength(1);
});
