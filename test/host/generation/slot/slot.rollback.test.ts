import { afterEach, beforeEach, describe, expect, test } from "bun:test";

import type { ControllerPlugin } from "cloud-controller-host/sdk";
import { eventually, type ManualClock, manualClock } from "cloud-controller-host/sdk/testing";

import { main, SlotRig, untilAborted } from "../slot-rig.ts";

let rig: SlotRig;
let clock: ManualClock;
beforeEach(async () => {
  clock = manualClock();
  rig = await SlotRig.start({ drainTimeout: 2_000 }, clock);
});
afterEach(() => rig[Symbol.asyncDispose]());

const minuteMs = 60_000;

/** Leads until the test ends or nothing can run any more. */
function lead() {
  const led: { end?: string } = {};
  void rig.lead().then(({ failure }) => (led.end = failure?.message ?? ""));
  return led;
}

const runs = (...names: readonly string[]): Promise<unknown> =>
  eventually(`these run: ${names.join(", ")}`, () => Bun.deepEquals([...rig.running].toSorted(), names));

/** A controller that fails on demand. */
function failing(name: string) {
  const failure = Promise.withResolvers<void>();
  const work = (signal: AbortSignal): Promise<void> => Promise.race([failure.promise, untilAborted(signal)]);
  return { plugin: rig.controller(name, main, work), fail: () => failure.reject(new Error(`${name} failed`)) };
}

/** A controller that returns only when it is let. */
function slow(name: string) {
  const { promise, resolve } = Promise.withResolvers<void>();
  const plugin = rig.controller(name, main, async (signal) => {
    await untilAborted(signal);
    await promise;
  });
  return { plugin, finish: resolve };
}

describe("a generation that fails within its first minute", () => {
  test("gives way to the one that it replaced, which runs with its own plugins and config", async () => {
    lead();
    await rig.install(rig.controller("alpha", main));
    const beta = failing("beta");
    await rig.install(beta.plugin);
    await clock.advance(minuteMs - 1);
    beta.fail();
    await runs("3 alpha");
    expect(rig.report.status.lastRollback).toMatchObject({
      generation: 2,
      outcome: "the previous generation runs again",
      replacement: { generation: 3, of: 1 },
    });
    const failed = rig.lines.filter((line) => line.includes("the previous generation runs again"));
    expect(failed).toEqual([expect.stringContaining('"class":"Located"')]);
  });

  test("ends the work when it is the first one", async () => {
    const led = lead();
    const alpha = failing("alpha");
    await rig.install(alpha.plugin);
    alpha.fail();
    await eventually("it ends", () => led.end !== undefined);
    expect(led.end).toContain('controller "alpha" failed: alpha failed');
  });

  test("ends the work when it is what ran again: a rollback never goes round", async () => {
    const led = lead();
    let starts = 0;
    const once = (signal: AbortSignal): Promise<void> => {
      starts += 1;
      return starts > 1 ? Promise.reject(new Error("again")) : untilAborted(signal);
    };
    await rig.install(rig.controller("alpha", main, once));
    const beta = failing("beta");
    await rig.install(beta.plugin);
    beta.fail();
    await eventually("it ends", () => led.end !== undefined);
    expect([starts, led.end]).toEqual([2, expect.stringContaining('controller "alpha" failed: again')]);
  });

  test("gives way to what the reload before it gave way to, where it took the place of a rollback", async () => {
    lead();
    await rig.install(rig.controller("alpha", main));
    const [beta, gamma, waiting] = [failing("beta"), failing("gamma"), slow("slow")];
    await rig.install(beta.plugin, waiting.plugin);
    beta.fail();
    await eventually("it drains", () => rig.slot.phase === "draining");
    const installing = rig.install(gamma.plugin);
    await eventually("gamma is prepared", () => rig.made.has("gamma"));
    waiting.finish();
    await installing;
    await runs("3 gamma");
    expect(rig.report.status.lastRollback?.replacement).toBeUndefined();
    gamma.fail();
    await eventually("alpha runs", () => [...rig.running].join().endsWith(" alpha"));
  });

  test("a generation that fails within its first minute while another one is prepared to run again takes no way back from the next reload", async () => {
    lead();
    await rig.install(rig.controller("alpha", main));
    const [beta, gamma] = [failing("beta"), failing("gamma")];
    await rig.install(beta.plugin);
    const preparing = Promise.withResolvers<void>();
    rig.createCloud = () => preparing.promise;
    beta.fail();
    await eventually("it recovers", () => rig.slot.phase === "recovering");
    rig.createCloud = () => Promise.resolve();
    await rig.install(gamma.plugin);
    preparing.resolve();
    await runs("4 gamma");
    gamma.fail();
    await runs("5 alpha");
  });
});

describe("a generation that fails after its first minute", () => {
  test("is started again, and the work ends when it fails within a minute of that", async () => {
    const led = lead();
    await rig.install(rig.controller("old", main));
    const outage = failing("new");
    await rig.install(outage.plugin);
    await clock.advance(minuteMs);
    outage.fail();
    await eventually("it ends", () => led.end !== undefined);
    expect(rig.lines.filter((line) => line.includes("its generation is started again"))).toHaveLength(1);
    expect(led.end).toContain('controller "new" failed');
    expect(rig.lines.filter((line) => line.includes("Generation started"))).toHaveLength(3);
  });

  test("is started again each time that it has run for a minute", async () => {
    lead();
    const outages: (() => void)[] = [];
    const work = (signal: AbortSignal): Promise<void> =>
      Promise.race([
        new Promise<void>((_, reject) => outages.push(() => reject(new Error("away")))),
        untilAborted(signal),
      ]);
    await rig.install(rig.controller("alpha", main, work));
    for (const generation of [2, 3]) {
      await clock.advance(minuteMs);
      outages.at(-1)?.();
      await runs(`${generation} alpha`);
    }
  });

  test("is what a reload that arrives meanwhile gives way to", async () => {
    lead();
    const [alpha, beta, waiting] = [failing("alpha"), failing("beta"), slow("slow")];
    await rig.install(alpha.plugin, waiting.plugin);
    await clock.advance(minuteMs);
    alpha.fail();
    await eventually("it drains", () => rig.slot.phase === "draining");
    const installing = rig.install(beta.plugin);
    waiting.finish();
    await installing;
    beta.fail();
    const again = (): number => rig.made.get("alpha")?.context.generation ?? 0;
    await eventually("what failed before runs again", () => again() > 2);
  });
});

describe("the plugins of a generation are kept", () => {
  const held = new Map<string, number>();
  beforeEach(() => held.clear());

  /** Installs a generation whose plugins count their holders. */
  async function install(name: string, ...controllers: readonly ControllerPlugin[]): Promise<void> {
    await rig.installPlugins({
      ...rig.plugins(controllers, name),
      retain: () => {
        held.set(name, (held.get(name) ?? 0) + 1);
        let mine = true;
        return () => {
          if (mine) held.set(name, (held.get(name) ?? 0) - 1);
          mine = false;
        };
      },
    });
  }
  const kept = (): readonly string[] => [...held].flatMap(([name, count]) => (count > 0 ? [name] : []));

  test("the plugins of a generation are kept for a minute after it was replaced, and no longer", async () => {
    lead();
    await install("alpha", rig.controller("alpha", main));
    await install("beta", rig.controller("beta", main));
    await runs("2 beta");
    await clock.advance(minuteMs - 1);
    await eventually("alpha is disposed of", () => (held.get("alpha") ?? 0) === 1);
    expect(kept()).toEqual(["alpha", "beta"]);
    await clock.advance(1);
    expect(kept()).toEqual(["beta"]);
  });

  test("only once each, however many reloads took the place of a rollback; none after the end", async () => {
    const led = lead();
    await install("good", rig.controller("good", main));
    for (const round of ["one", "two", "three"]) {
      const [bad, waiting] = [failing(`bad-${round}`), slow(`slow-${round}`)];
      await install(`bad-${round}`, bad.plugin, waiting.plugin);
      bad.fail();
      await eventually("it drains", () => rig.slot.phase === "draining");
      const installing = install(round, rig.controller(round, main));
      waiting.finish();
      await installing;
    }
    await eventually("only the last two are kept", () => kept().length === 2);
    expect(kept().toSorted()).toEqual(["three", "two"]);
    rig.stop();
    await eventually("it ends", () => led.end !== undefined);
    await rig.slot.close();
    await eventually("nothing is kept", () => kept().length === 0);
  });
});
