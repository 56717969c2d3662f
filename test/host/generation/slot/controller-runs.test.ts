import { afterEach, beforeEach, describe, expect, test } from "bun:test";

import { type Controller, type ControllerContext, defineController, kinds, messageOf } from "cloud-controller-host/sdk";
import { eventually, type ManualClock, manualClock } from "cloud-controller-host/sdk/testing";

import { main, SlotRig, untilAborted } from "../slot-rig.ts";

let rig: SlotRig;
let clock: ManualClock;
/** What runs on every replica now, as `generation name`. */
let everywhere: string[];

beforeEach(async () => {
  clock = manualClock();
  rig = await SlotRig.start({ drainTimeout: 200 }, clock);
  everywhere = [];
});
afterEach(() => rig[Symbol.asyncDispose]());

type Work = (signal: AbortSignal, context: ControllerContext) => Promise<void>;

/** A controller that runs until it is stopped, and does this on every replica. */
const exporter = (work: Work = untilAborted, run: Controller["run"] = untilAborted) =>
  defineController({
    name: "exporter",
    construct: () => (context) => ({
      run,
      async everyReplica(signal) {
        const name = `${context.generation} exporter`;
        everywhere.push(name);
        try {
          await work(signal, context);
        } finally {
          everywhere = everywhere.filter((each) => each !== name);
        }
      },
    }),
  });

const runsEverywhere = (...names: readonly string[]): Promise<unknown> =>
  eventually(`[${names.join(", ")}] run on every replica`, () => everywhere.join() === names.join());

describe("a controller's work on every replica", () => {
  test("begins while the replica stands by, continues as it leads, and returns before the lease is released", async () => {
    await rig.install(exporter());
    await runsEverywhere("1 exporter");
    expect(rig.slot.active?.startedUnder(main)).toEqual([]);
    const led = rig.lead();
    await eventually("it leads", () => rig.slot.running);
    expect(everywhere).toEqual(["1 exporter"]);
    rig.stop();
    expect((await led).outstanding).toEqual([]);
    expect(everywhere).toEqual([]);
  });

  test("exposes its gauges on standby", async () => {
    const work: Work = (signal, { metrics }) => {
      metrics.gauge({ name: "exported", help: "Exported." }).set(7);
      return untilAborted(signal);
    };
    await rig.install(exporter(work));
    await runsEverywhere("1 exporter");
    expect((await rig.metrics.render()).body).toContain("exported 7");
    await rig.install();
    await runsEverywhere();
    await eventually("it is disposed of", async () => !(await rig.metrics.render()).body.includes("exported 7"));
    expect((await rig.metrics.render()).body).not.toContain("exported 7");
  });

  test("moves to the next generation, on standby and while leading", async () => {
    await rig.install(exporter());
    await rig.install(exporter());
    await runsEverywhere("2 exporter");
    void rig.lead();
    await eventually("it leads", () => rig.slot.running);
    await rig.install(exporter());
    await runsEverywhere("3 exporter");
  });

  test("reads the API server on standby, where its writes are refused", async () => {
    const outcomes: string[] = [];
    const work: Work = async (signal, { client }) => {
      outcomes.push(`${(await client.list(kinds.Node)).length} read`);
      const node = { apiVersion: "v1", kind: "Node", metadata: { name: "node-1" } };
      await client.create(kinds.Node, node).catch((error: unknown) => outcomes.push(messageOf(error)));
      await untilAborted(signal);
    };
    await rig.install(exporter(work));
    await eventually("both requests have returned", () => outcomes.length === 2);
    expect(outcomes).toEqual(["0 read", expect.stringContaining("does not run yet")]);
  });

  test("is tried again after it failed or returned, with a growing pause, while its controller runs on", async () => {
    let attempts = 0;
    const end = Promise.withResolvers<void>();
    const work: Work = async () => {
      attempts += 1;
      if (attempts === 1) throw new Error("the port is taken");
      await end.promise;
    };
    void rig.lead();
    await rig.install(exporter(work));
    await eventually("the first attempt has failed", () =>
      rig.lines.some((line) => line.includes("the port is taken")),
    );
    await clock.advance(4_999);
    expect(attempts).toBe(1);
    await clock.advance(5_001);
    await eventually("the second attempt", () => attempts === 2);
    end.resolve();
    await runsEverywhere();
    await clock.advance(9_999);
    expect(attempts).toBe(2);
    await clock.advance(10_001);
    await eventually("the third attempt", () => attempts === 3);
    expect([rig.slot.active?.number, rig.slot.active?.leftOut]).toEqual([1, []]);
  });

  test("is tried again after the shortest pause once it has run for ten minutes", async () => {
    let attempts = 0;
    const end = Promise.withResolvers<void>();
    const work: Work = async () => {
      if (++attempts < 4) throw new Error("the port is taken");
      await end.promise;
    };
    await rig.install(exporter(work));
    await eventually("the first attempt", () => attempts === 1);
    await clock.advance(70_000);
    expect(attempts).toBe(4);
    await clock.advance(600_000);
    end.resolve();
    await runsEverywhere();
    await clock.advance(10_000);
    expect(attempts).toBe(5);
  });

  test("stops with a controller that failed, and begins again with it", async () => {
    rig.thirdParty.add("exporter");
    const failure = Promise.withResolvers<void>();
    let runs = 0;
    void rig.lead();
    await rig.install(exporter(untilAborted, (signal) => (++runs === 1 ? failure.promise : untilAborted(signal))));
    await runsEverywhere("1 exporter");
    failure.reject(new Error("boom"));
    await runsEverywhere();
    await clock.advance(10_000);
    await runsEverywhere("1 exporter");
    expect(runs).toBe(2);
    expect(rig.lines.filter((line) => line.includes("Per-replica work failed"))).toEqual([]);
  });

  test("has returned before the next generation begins it on standby, and before its context is released", async () => {
    const last = Promise.withResolvers<void>();
    const seen: string[] = [];
    const slow: Work = async (signal, { metrics }) => {
      metrics.gauge({ name: "exported", help: "Exported." }).set(7);
      await untilAborted(signal);
      seen.push("aborted");
      await last.promise;
    };
    await rig.install(exporter(slow));
    await runsEverywhere("1 exporter");
    await rig.install(exporter());
    await eventually("the first was asked to return", () => seen.length === 1);
    await clock.advance(100);
    expect(everywhere).toEqual(["1 exporter"]);
    expect((await rig.metrics.render()).body).toContain("exported 7");
    last.resolve();
    await runsEverywhere("2 exporter");
    await eventually("its context is released", async () => !(await rig.metrics.render()).body.includes("exported 7"));
  });

  test("begins beside the former one on standby when that does not return within the drain timeout", async () => {
    const last = Promise.withResolvers<void>();
    await rig.install(exporter(() => last.promise));
    await runsEverywhere("1 exporter");
    await rig.install(exporter());
    await clock.advance(199);
    expect(everywhere).toEqual(["1 exporter"]);
    await clock.advance(1);
    await runsEverywhere("1 exporter", "2 exporter");
    last.resolve();
  });

  /** A controller has failed and runs again, while its work on every replica has not returned. */
  async function failed() {
    rig.thirdParty.add("exporter");
    const failure = Promise.withResolvers<void>();
    const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const count = { runs: 0, begun: 0 };
    const work: Work = () => (++count.begun === 1 ? first.promise : second.promise);
    void rig.lead();
    await rig.install(exporter(work, (signal) => (++count.runs === 1 ? failure.promise : untilAborted(signal))));
    await runsEverywhere("1 exporter");
    failure.reject(new Error("boom"));
    await eventually("it was stopped", () => rig.slot.active?.leftOut.length === 1);
    // Less than a drain takes.
    for (let step = 0; step < 100 && count.runs < 2; step++) await clock.advance(100);
    expect(count).toEqual({ runs: 2, begun: 1 });
    return { first, second, count };
  }

  test("has returned before it begins again with a controller that failed, and a drain waits for it", async () => {
    const { first, second, count } = await failed();
    first.resolve();
    await eventually("its work begins again", () => count.begun === 2);
    const drained = rig.slot.active?.drain(200);
    await clock.advance(200);
    expect(await drained).toEqual(["exporter on every replica"]);
    second.resolve();
  });

  test("is waited for by a drain when its controller failed and runs again", async () => {
    const { first, count } = await failed();
    const drained = rig.slot.active?.drain(200);
    await clock.advance(1);
    await clock.advance(199);
    expect(await drained).toEqual(["exporter on every replica"]);
    first.resolve();
    await runsEverywhere();
    expect(count.begun).toBe(1);
  });
});

test("what runs in the place of a skipped controller runs until its generation ends", async () => {
  const seen: string[] = [];
  const instead = defineController({
    name: "instead",
    construct: () => () => ({
      skipped: "not here",
      async run(signal) {
        seen.push("begun");
        await untilAborted(signal);
        seen.push("ended");
      },
    }),
  });
  void rig.lead();
  await rig.install(instead);
  await eventually("it runs", () => seen.length === 1);
  expect(rig.slot.active?.controllers).toEqual([]);
  expect(rig.slot.active?.skipped).toEqual([{ name: "instead", reason: "not here" }]);
  await rig.install();
  await eventually("the next generation runs", () => rig.slot.active?.number === 2);
  expect(seen).toEqual(["begun", "ended"]);
});
