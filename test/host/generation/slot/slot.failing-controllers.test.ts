import { afterEach, beforeEach, describe, expect, test } from "bun:test";

import { defineController, defineKind, kinds, messageOf, skipped } from "cloud-controller-host/sdk";
import { eventually, type ManualClock, manualClock } from "cloud-controller-host/sdk/testing";

import { type Made, main, SlotRig, untilAborted } from "../slot-rig.ts";

let rig: SlotRig;
let clock: ManualClock;
beforeEach(async () => {
  clock = manualClock();
  rig = await SlotRig.start({ drainTimeout: 200 }, clock);
  rig.thirdParty.add("guest");
});
afterEach(() => rig[Symbol.asyncDispose]());

/** Longer than the first pause, shorter than the second. */
const pauseMs = 10_000;

/** A third-party controller whose attempts are driven by the test: each one is `{ fail, made, signal }`. */
function guest() {
  const attempts: { fail: (error: Error) => void; made: Made; signal: AbortSignal }[] = [];
  const plugin = rig.controller("guest", main, (signal, made) => {
    const failure = Promise.withResolvers<void>();
    attempts.push({ fail: failure.reject, made, signal });
    return Promise.race([failure.promise, untilAborted(signal)]);
  });
  const attempt = async (number: number) => {
    const found = await eventually(`attempt ${number}`, () => attempts[number - 1]);
    await eventually("it runs", () => rig.running.has("1 guest"));
    return found;
  };
  return { plugin, attempts, attempt };
}

function lead() {
  const led: { end?: string } = {};
  void rig.lead().then(({ failure }) => (led.end = failure?.message ?? ""));
  return led;
}

const stopped = (): Promise<unknown> => eventually("it has stopped", () => rig.slot.active?.leftOut.length === 1);
const lines = (text: string): readonly string[] => rig.lines.filter((line) => line.includes(text));

describe("a third-party controller that fails with nothing to go back to", () => {
  test("is stopped and tried again with a growing pause, while ours run in the same generation", async () => {
    const led = lead();
    const { plugin, attempts, attempt } = guest();
    await rig.install(rig.controller("own", main), plugin);
    (await attempt(1)).fail(new Error("boom"));
    await stopped();
    expect([...rig.running]).toEqual(["1 own"]);
    await clock.advance(4_999);
    expect(attempts).toHaveLength(1);
    await clock.advance(pauseMs - 4_999);
    (await attempt(2)).fail(new Error("boom"));
    await stopped();
    await clock.advance(9_999);
    expect(attempts).toHaveLength(2);
    await clock.advance(2 * pauseMs - 9_999);
    await attempt(3);
    expect([[...rig.running].toSorted(), rig.slot.active?.number, led.end]).toEqual([
      ["1 guest", "1 own"],
      1,
      undefined,
    ]);
    expect(rig.overlaps).toEqual([]);
  });

  test("begins with the shortest pause again after ten minutes of work, and never waits longer than five", async () => {
    lead();
    const { plugin, attempts, attempt } = guest();
    await rig.install(plugin);
    for (let number = 1; number < 12; number++) {
      (await attempt(number)).fail(new Error("boom"));
      await stopped();
      await clock.advance(300_000);
    }
    const last = await attempt(12);
    await clock.advance(600_000);
    last.fail(new Error("boom"));
    await stopped();
    await clock.advance(pauseMs);
    await attempt(13);
    expect(attempts).toHaveLength(13);
  });

  test("shows in log, metrics, /statusz and health, and no more once it runs again", async () => {
    lead();
    const { plugin, attempt } = guest();
    await rig.install(rig.controller("own", main), plugin);
    const running = 'running_managed_controllers{name="guest",manager="cloud-controller-manager"}';
    const metrics = async (): Promise<string> => (await rig.metrics.render()).body;
    (await attempt(1)).fail(new Error("boom"));
    await stopped();
    expect(lines("Controller failed; the others continue, and it is tried again")).toEqual([
      expect.stringMatching(/"controller":"guest".*"class":"Located"/u),
    ]);
    expect(rig.announced.slice(1)).toEqual([
      expect.stringMatching(/^ControllerFailed: guest of generation 1: boom; /u),
    ]);
    expect(rig.report.status.refusedPlugins).toMatchObject([{ plugin: "guest", reason: "boom" }]);
    expect(rig.slot.active?.skipped).toEqual([{ name: "guest", reason: "boom" }]);
    expect(rig.slot.active?.controllers).toEqual(["own"]);
    expect(rig.checks).toEqual(["own"]);
    expect(await metrics()).toContain('host_controller_failures_total{name="guest"} 1');
    expect(await metrics()).toContain("host_refused_plugins 1");
    expect(await metrics()).toContain("host_skipped_controllers 1");
    expect(await metrics()).toContain(`${running} 0`);
    await clock.advance(pauseMs);
    const second = await attempt(2);
    for (const each of rig.slot.active?.checks ?? [])
      if (each.name === "guest") await each.check(new AbortController().signal);
    expect(rig.checked).toEqual([second.made]);
    expect(lines("Starting a failed controller again")).toEqual([
      expect.stringMatching(/"controller":"guest","generation":1/u),
    ]);
    expect(rig.report.status.refusedPlugins).toEqual([]);
    expect([rig.slot.active?.skipped, rig.slot.active?.controllers]).toEqual([[], ["own", "guest"]]);
    expect(rig.checks).toEqual(["own", "guest"]);
    expect(await metrics()).toContain(`${running} 1`);
    expect(await metrics()).toContain("host_skipped_controllers 0");
  });

  test("can write no more with what it left running, neither to the API server nor to the cloud", async () => {
    lead();
    const { plugin, attempt } = guest();
    await rig.install(plugin);
    const first = await attempt(1);
    const write = ({ context }: Made): Promise<unknown> =>
      context.client
        .patch(kinds.Node, { name: "node-0" }, "merge", { metadata: { labels: { a: "b" } } })
        .catch(messageOf);
    expect(await write(first.made)).not.toContain("refused");
    first.fail(new Error("boom"));
    await stopped();
    expect(await write(first.made)).toContain("its controller has failed");
    const { context, cloud } = first.made;
    expect([first.signal.aborted, context.signal.aborted]).toEqual([true, true]);
    const node = { metadata: { name: "node-0" } };
    const service = { metadata: { name: "web", namespace: "default" } };
    await expect(cloud.loadBalancers?.ensureLoadBalancer("test", service, [node])).rejects.toThrow(
      "its controller has failed",
    );
    await clock.advance(pauseMs);
    const second = await attempt(2);
    expect(await write(second.made)).not.toContain("refused");
    expect(await write(first.made)).toContain("its controller has failed");
  });

  test("is not tried again while a cloud call that it left behind is in flight", async () => {
    lead();
    const { plugin, attempts, attempt } = guest();
    const call = Promise.withResolvers<void>();
    rig.cloudWork = () => call.promise;
    await rig.install(plugin);
    const first = await attempt(1);
    const service = { metadata: { name: "web", namespace: "default" } };
    const leftBehind = first.made.cloud.loadBalancers?.ensureLoadBalancer("test", service, []).catch(messageOf);
    first.fail(new Error("boom"));
    await stopped();
    await clock.advance(10 * pauseMs);
    expect(attempts).toHaveLength(1);
    call.resolve();
    await leftBehind;
    await attempt(2);
  });

  test("keeps the lease, as work that has not returned, when it hangs after a later stop", async () => {
    const { plugin, attempt } = guest();
    const led = rig.lead();
    await rig.install(plugin);
    (await attempt(1)).fail(new Error("boom"));
    await stopped();
    rig.createController = () => new Promise(() => undefined);
    await clock.advance(pauseMs);
    await eventually("its init is under way", () => rig.outstanding.entries.some(({ kind }) => kind === "init"));
    rig.stop();
    expect((await led).outstanding).toMatchObject([{ kind: "init", name: "init of guest" }]);
  });

  test("is not created again while an init that was given up is at work", async () => {
    lead();
    const { plugin, attempt } = guest();
    await rig.install(plugin);
    (await attempt(1)).fail(new Error("boom"));
    await stopped();
    let inits = 0;
    const hanging = Promise.withResolvers<void>();
    rig.createController = () => {
      inits += 1;
      return hanging.promise;
    };
    await clock.advance(pauseMs);
    await eventually("its init is under way", () => inits === 1);
    await clock.advance(30_000);
    await eventually("it is given up", () => rig.slot.active?.skipped[0]?.reason.includes("did not return"));
    await clock.advance(20 * pauseMs);
    expect([inits, rig.outstanding.entries.filter(({ kind }) => kind === "init")]).toMatchObject([1, [{}]]);
    rig.createController = undefined;
    hanging.resolve();
    await clock.advance(20 * pauseMs);
    await attempt(2);
  });

  test("a third-party controller that fails with nothing to go back to that cannot be initialized again is tried again later", async () => {
    lead();
    const { plugin, attempt } = guest();
    await rig.install(plugin);
    (await attempt(1)).fail(new Error("boom"));
    await stopped();
    rig.createController = () => Promise.reject(new Error("not yet"));
    await clock.advance(pauseMs);
    await eventually("the reason is shown", () => rig.slot.active?.skipped[0]?.reason.includes("not yet"));
    expect(rig.made.get("guest")?.context.signal.aborted).toBe(true);
    rig.createController = undefined;
    await clock.advance(2 * pauseMs);
    await attempt(2);
  });

  test("a third-party controller that fails with nothing to go back to whose informers no longer sync does not run, and is tried again later", async () => {
    lead();
    const { plugin, attempts, attempt } = guest();
    await rig.install(plugin);
    (await attempt(1)).fail(new Error("boom"));
    await stopped();
    rig.watchedKinds = [
      defineKind({ group: "example.com", version: "v1", kind: "Foo", plural: "foos", namespaced: true }),
    ];
    await clock.advance(pauseMs);
    await eventually("it waits for them", () => rig.outstanding.entries.some(({ kind }) => kind === "sync"));
    await clock.advance(30_000);
    await eventually("the reason is shown", () => rig.slot.active?.skipped[0]?.reason.includes("did not sync"));
    expect([attempts.length, rig.made.get("guest")?.context.signal.aborted]).toEqual([1, true]);
    rig.watchedKinds = [];
    await clock.advance(2 * pauseMs);
    await attempt(2);
  });

  test("a third-party controller that skips itself after a failure is shown with that reason, and does not run", async () => {
    lead();
    let inits = 0;
    const plugin = defineController({
      name: "guest",
      construct: () => () =>
        ++inits === 1 ? { run: () => Promise.reject(new Error("boom")) } : skipped("no longer needed"),
    });
    await rig.install(rig.controller("own", main), plugin);
    await eventually("it has failed", () => rig.slot.active?.skipped[0]?.reason === "boom");
    await clock.advance(pauseMs);
    await eventually("it skips itself", () => rig.slot.active?.skipped[0]?.reason !== "boom");
    expect(rig.slot.active?.skipped).toEqual([{ name: "guest", reason: "no longer needed" }]);
    await clock.advance(10 * pauseMs);
    expect([inits, rig.slot.active?.controllers, [...rig.running]]).toEqual([2, ["own"], ["1 own"]]);
  });

  test("is waited for by a drain once it runs again", async () => {
    lead();
    const { plugin, attempts, attempt } = guest();
    const late = Promise.withResolvers<void>();
    const slow: typeof plugin = rig.controller("guest", main, async (signal, made) => {
      const attempted = Promise.withResolvers<void>();
      attempts.push({ fail: attempted.reject, made, signal });
      await (attempts.length === 1 ? attempted.promise : late.promise);
    });
    await rig.install(slow);
    (await attempt(1)).fail(new Error("boom"));
    await stopped();
    await clock.advance(pauseMs);
    await attempt(2);
    const drained = rig.slot.active?.drain(200);
    await clock.advance(200);
    expect(await drained).toEqual(["guest"]);
    late.resolve();
  });

  test("waits for its next attempt no longer than until a stop or a reload", async () => {
    lead();
    const { plugin, attempts, attempt } = guest();
    await rig.install(plugin);
    (await attempt(1)).fail(new Error("boom"));
    await stopped();
    await rig.install(rig.controller("own", main));
    await eventually("the next one runs", () => rig.running.has("2 own"));
    await clock.advance(10 * pauseMs);
    expect(attempts).toHaveLength(1);
  });
});

describe("the generation", () => {
  test("the generation of a third-party controller that fails within a minute of a reload gives way to the one before it", async () => {
    lead();
    const { plugin, attempts } = guest();
    await rig.install(rig.controller("own", main));
    await rig.install(rig.controller("own", main), plugin);
    await eventually("it runs", () => rig.running.has("2 guest"));
    attempts[0]?.fail(new Error("boom"));
    await eventually("the previous one runs", () => rig.running.has("3 own"));
    expect(lines("the previous generation runs again")).toHaveLength(1);
  });

  test("the generation of our own controller that fails ends, beside a third-party controller that waits", async () => {
    const led = lead();
    const { plugin, attempt } = guest();
    const own = Promise.withResolvers<void>();
    await rig.install(
      rig.controller("own", main, () => own.promise),
      plugin,
    );
    (await attempt(1)).fail(new Error("boom"));
    await stopped();
    own.reject(new Error("ours"));
    await eventually("it ends", () => led.end !== undefined);
    expect(led.end).toContain('controller "own" failed: ours');
  });
});
