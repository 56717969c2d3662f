import { afterEach, beforeEach, describe, expect, test } from "bun:test";

import { type Clock, kinds, messageOf, skipped } from "cloud-controller-host/sdk";
import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import type { GenerationSettings } from "../../../../host/generation/scope/scope.ts";
import type { WorkEnd } from "../../../../host/generation/slot/slot.ts";
import { main, SlotRig, untilAborted } from "../slot-rig.ts";

const deaf = (): Promise<void> => new Promise(() => undefined);
const boom = async (): Promise<void> => {
  await Bun.sleep(20);
  throw new Error("boom");
};

const throwing = (): never => {
  throw new Error("boom at its start");
};

/** A controller that fails as the test says, and runs when it is started again. */
function failingOnce() {
  const failure = Promise.withResolvers<void>();
  let started = 0;
  const failsOnce = (signal: AbortSignal): Promise<void> => (started++ === 0 ? failure.promise : untilAborted(signal));
  return { failure, failsOnce };
}

let rig: SlotRig;
beforeEach(async () => void (rig = await SlotRig.start({ drainTimeout: 200 })));
afterEach(() => rig[Symbol.asyncDispose]());

async function restart(settings: Partial<GenerationSettings>, clock?: Clock): Promise<void> {
  await rig[Symbol.asyncDispose]();
  rig = await SlotRig.start(settings, clock);
}

const runs = (...names: readonly string[]): Promise<unknown> =>
  eventually(`these run: ${names.join(", ")}`, () => Bun.deepEquals([...rig.running].toSorted(), names));
const left = ({ outstanding }: WorkEnd): readonly string[] => outstanding.map(({ kind, name }) => `${kind} ${name}`);

describe("work that has not returned", () => {
  test("work that has not returned of an earlier generation keeps the lease at a later clean stop", async () => {
    const led = rig.lead();
    await rig.install(rig.controller("alpha", main, deaf));
    await rig.install(rig.controller("beta", main));
    await runs("1 alpha", "2 beta");
    rig.stop();
    expect(left(await led)).toEqual(["run alpha"]);
    expect(rig.lines.join("")).toContain("Not releasing the lease");
  });

  test("beside a controller that failed keeps the lease as the process ends", async () => {
    const led = rig.lead();
    await rig.install(rig.controller("alpha", main, deaf), rig.controller("beta", main, boom));
    const end = await led;
    expect(left(end)).toEqual(["run alpha"]);
    expect(end.failure?.message).toContain('controller "beta" failed: boom');
  });

  test("work that has not returned of a generation that was disabled keeps the lease", async () => {
    const led = rig.lead();
    await rig.install(rig.controller("alpha", main, deaf));
    await rig.slot.disable("hash");
    rig.stop();
    expect(left(await led)).toEqual(["run alpha"]);
  });

  test("work that has not returned of a cloud keeps the lease", async () => {
    const led = rig.lead();
    rig.cloudRun = deaf;
    await rig.install(rig.controller("alpha", main));
    rig.stop();
    expect(left(await led)).toEqual(["run memory-cloud"]);
  });

  test("stops blocking the lease once it returns", async () => {
    const led = rig.lead();
    const late = Promise.withResolvers<void>();
    await rig.install(rig.controller("alpha", main, () => late.promise));
    await rig.install(rig.controller("beta", main));
    late.resolve();
    rig.stop();
    expect(await led).toEqual({ outstanding: [], failure: undefined });
  });

  test("work that has not returned in a cloud's disposal delays neither a reload nor a stop, and keeps the lease", async () => {
    const clock = manualClock();
    await restart({}, clock);
    const led = rig.lead();
    rig.disposeCloud = deaf;
    await rig.install(rig.controller("alpha", main));
    rig.disposeCloud = () => Promise.resolve();
    await rig.install(rig.controller("alpha", main));
    await runs("2 alpha");
    rig.stop();
    await clock.advance(5_000);
    expect(left(await led)).toEqual(["dispose disposal of generation 1"]);
  });
});

describe("a drain", () => {
  test("names the controllers that have not returned after a second, long before its limit", async () => {
    const clock = manualClock();
    await restart({ drainTimeout: 1_600 }, clock);
    const led = rig.lead();
    await rig.install(rig.controller("alpha", main, deaf), rig.controller("beta", main));
    rig.stop();
    await clock.advance(1_000);
    const slow = rig.lines.filter((line) => line.includes("Waiting for controllers to return"));
    expect(slow).toEqual([expect.stringContaining('"controllers":"alpha"')]);
    expect(rig.report.status).toMatchObject({ lastOverdueDrain: undefined, waitingFor: ["alpha"] });
    await clock.advance(600);
    await led;
    expect(rig.report.status.waitingFor).toEqual([]);
    expect(rig.report.status.lastOverdueDrain?.reason).toContain("alpha of generation 1 did not return within 1.6 s");
    expect((await rig.metrics.render()).body).toContain('host_drain_overdue_total{name="alpha"} 1');
    expect(rig.announced).toContainEqual(expect.stringMatching(/^DrainOverdue: .*alpha/u));
  });

  test("shorter than a second has one line about controllers that have not returned", async () => {
    const led = rig.lead();
    await rig.install(rig.controller("alpha", main, deaf));
    rig.stop();
    await led;
    expect(rig.lines.filter((line) => line.includes("Waiting for controllers"))).toEqual([]);
    expect(rig.lines.filter((line) => line.includes("did not return in time"))).toHaveLength(1);
  });

  test("a drain during the start interval starts no further controller", async () => {
    const clock = manualClock();
    await restart({ controllerStartInterval: 1_000 }, clock);
    const led = rig.lead();
    await rig.install(rig.controller("alpha", main), rig.controller("beta", main));
    await runs("1 alpha");
    rig.stop();
    await led;
    expect(rig.lines.filter((line) => line.includes("Starting controller"))).toHaveLength(1);
  });

  test("logs an error that a controller throws while it stops", async () => {
    const led = rig.lead();
    const failing = async (signal: AbortSignal): Promise<void> => {
      await untilAborted(signal);
      throw new Error("boom while draining");
    };
    await rig.install(rig.controller("alpha", main, failing));
    rig.stop();
    await led;
    expect(rig.lines.join("")).toContain("boom while draining");
  });

  test("keeps the fences open until it ends, and closes them even when a controller has not returned", async () => {
    const clock = manualClock();
    await restart({ drainTimeout: 200 }, clock);
    const led = rig.lead();
    await rig.install(rig.controller("alpha", main, deaf));
    const fence = rig.cloudFence;
    const installing = rig.install(rig.controller("beta", main));
    await eventually("it drains", () => rig.slot.phase === "draining");
    await clock.advance(199);
    expect(fence?.closed).toBe(false);
    await clock.advance(1);
    await installing;
    expect([fence?.closed, fence?.signal.aborted]).toEqual([true, true]);
    rig.stop();
    await led;
  });

  test("ends before the next generation starts", async () => {
    await restart({ drainTimeout: 30_000 });
    const led = rig.lead();
    const slow = async (signal: AbortSignal): Promise<void> => {
      await untilAborted(signal);
      await Bun.sleep(60);
    };
    await rig.install(rig.controller("alpha", main, slow));
    await Promise.all([rig.install(rig.controller("alpha", main, slow)), rig.install(rig.controller("alpha", main))]);
    await runs("3 alpha");
    expect(rig.overlaps).toEqual([]);
    rig.stop();
    await led;
  });
});

describe("the start of a generation", () => {
  test("is followed by one collection of its predecessor, after that was disposed of; the end by none", async () => {
    const seen: string[] = [];
    rig.disposeCloud = async () => void seen.push("disposed");
    rig.collectGarbage = () => void seen.push(`collected while ${[...rig.running].join(" ")}`);
    const led = rig.lead();
    await rig.install(rig.controller("alpha", main));
    await runs("1 alpha");
    await rig.install(rig.controller("alpha", main));
    await eventually("the predecessor is collected", () => seen.length === 2);
    expect(seen).toEqual(["disposed", "collected while 2 alpha"]);
    rig.stop();
    await led;
    expect(seen).toEqual(["disposed", "collected while 2 alpha", "disposed"]);
  });

  test("comes after a collection of what is young, while its predecessor still runs; the end does not", async () => {
    const seen: string[] = [];
    rig.collectYoungGarbage = () => {
      const stopping = rig.made.get("alpha")?.context.signal.aborted === true;
      seen.push(`${[...rig.running].join(" ")}${stopping ? ", stopping" : ""}`);
    };
    const led = rig.lead();
    await rig.install(rig.controller("alpha", main));
    await runs("1 alpha");
    expect(seen).toEqual([]);
    await rig.install(rig.controller("beta", main));
    await runs("2 beta");
    rig.stop();
    await led;
    expect(seen).toEqual(["1 alpha"]);
  });

  test("waits until the caches contain the writes of its predecessor", async () => {
    const led = rig.lead();
    await rig.install(rig.controller("alpha", main));
    const shown = Promise.withResolvers<void>();
    rig.showWrites = () => shown.promise;
    const installing = rig.install(rig.controller("beta", main));
    await Bun.sleep(50);
    expect([[...rig.running], rig.slot.phase]).toEqual([[], "fenced"]);
    shown.resolve();
    await installing;
    await runs("2 beta");
    rig.stop();
    await led;
  });

  test("waits, after the lease was acquired, until the caches are at least that fresh; a reload does not wait", async () => {
    const fresh = Promise.withResolvers<void>();
    rig.refresh = () => fresh.promise;
    await rig.install(rig.controller("alpha", main));
    const led = rig.lead();
    await Bun.sleep(50);
    expect([[...rig.running], rig.slot.phase]).toEqual([[], "preparing"]);
    fresh.resolve();
    await runs("1 alpha");
    rig.refresh = () => new Promise(() => undefined);
    await rig.install(rig.controller("alpha", main));
    await runs("2 alpha");
    rig.stop();
    await led;
  });
});

describe("the end of a generation", () => {
  test("the end of a generation that is offered after the end of the work comes at once, and its cloud is disposed of", async () => {
    const led = rig.lead();
    rig.stop();
    await led;
    let disposed = false;
    rig.disposeCloud = async () => void (disposed = true);
    rig.createCloud = () => Promise.resolve();
    await rig.installLate(rig.controller("alpha", main));
    await eventually("it is disposed of", () => disposed);
    expect([...rig.running]).toEqual([]);
  });

  test("disposes of it once, after a reload as well, and the work under the lease ends after that", async () => {
    const disposed: string[] = [];
    const led = rig.lead();
    // The first is longer than the grace period for what is outstanding, and ends after the second.
    for (const [name, tookMs] of [
      ["one", 1_500],
      ["two", 50],
    ] as const) {
      rig.disposeCloud = async () => {
        await Bun.sleep(tookMs);
        disposed.push(name);
      };
      await rig.install(rig.controller("alpha", main));
    }
    await runs("2 alpha");
    rig.stop();
    expect(await led).toEqual({ outstanding: [], failure: undefined });
    expect(disposed).toEqual(["two", "one"]);
  });

  test("its own parts are disposed of after the work has ended, so that the lease is released sooner; its cloud before", async () => {
    const led = rig.lead();
    const order: string[] = [];
    rig.disposeCloud = async () => void order.push("cloud");
    rig.releaseShare = () => void order.push("informers");
    await rig.install(rig.controller("alpha", main));
    await runs("1 alpha");
    rig.stop();
    await led;
    order.push("end");
    expect(rig.slot.mayWrite).toBe(false);
    await rig.slot.close();
    // Those of the controller and of the cloud.
    expect(order).toEqual(["cloud", "end", "informers", "informers"]);
  });

  test("the end of a generation that stands by is waited for as the slot is closed", async () => {
    let disposed = false;
    rig.disposeCloud = async () => {
      await Bun.sleep(50);
      disposed = true;
    };
    await rig.install(rig.controller("alpha", main));
    await rig.slot.close();
    expect(disposed).toBe(true);
    expect(rig.made.get("alpha")?.context.signal.aborted).toBe(true);
  });

  test("the end of a generation by a disabled config shows in /statusz, and the time until the next one does not count as the gap of a reload", async () => {
    const clock = manualClock();
    await restart({}, clock);
    const led = rig.lead();
    await rig.install(rig.controller("alpha", main));
    expect(rig.report.status.generationStartedAt).toBeDefined();
    await rig.slot.disable("hash");
    expect(rig.report.status).toMatchObject({
      disabled: true,
      generationStartedAt: undefined,
      lastOverdueDrain: undefined,
    });
    await clock.advance(3_600_000);
    await rig.install(rig.controller("alpha", main));
    await runs("2 alpha");
    const completed = rig.lines.filter((line) => line.includes('"msg":"Reload completed"')).at(-1);
    expect(JSON.parse(completed ?? "")).toMatchObject({ trigger: "test", gapMs: 0 });
    rig.stop();
    await led;
  });
});

describe("a config that disables the cloud provider", () => {
  test("drops the next generation when it arrives while the former one is fenced, and the one after that runs", async () => {
    const led = rig.lead();
    await rig.install(rig.controller("alpha", main));
    const shown = Promise.withResolvers<void>();
    rig.showWrites = () => shown.promise;
    const installing = rig.install(rig.controller("beta", main));
    await eventually("it is fenced", () => rig.slot.phase === "fenced");
    let settled = false;
    const disabling = rig.slot.disable("hash").then(() => (settled = true));
    await installing;
    expect([settled, rig.slot.phase, rig.report.status.disabled]).toEqual([false, "fenced", false]);
    shown.resolve();
    await disabling;
    expect([rig.slot.phase, rig.slot.active, rig.report.status.disabled]).toEqual(["disabled", undefined, true]);
    expect(rig.report.status.recentReloads.at(-1)).toMatchObject({ result: "superseded", trigger: "test" });
    const superseded = rig.lines.find((line) => line.includes('"msg":"Reload superseded"'));
    expect(JSON.parse(superseded ?? "")).toMatchObject({ generation: 2, trigger: "test" });
    expect(rig.announced.at(-1)).toStartWith("CloudProviderDisabled: ");
    await rig.install(rig.controller("gamma", main));
    await runs("3 gamma");
    expect([rig.report.status.disabled, [...rig.made.keys()], rig.overlaps]).toEqual([
      false,
      ["alpha", "beta", "gamma"],
      [],
    ]);
    rig.stop();
    await led;
  });

  test.each([
    ["is handed over", "stopping"],
    ["is lost", "fenced"],
  ] as const)("changes nothing when it arrives while the lease %s", async (_, phase) => {
    const late = Promise.withResolvers<void>();
    const led = rig.lead();
    await rig.install(rig.controller("alpha", main, () => late.promise));
    if (phase === "fenced") rig.lose();
    else rig.stop();
    const disabling = rig.slot.disable("hash");
    expect(rig.slot.phase).toBe(phase);
    late.resolve();
    await disabling;
    expect(await led).toEqual({ outstanding: [], failure: undefined });
    expect([rig.slot.phase, rig.report.status.disabled]).toEqual(["stopped", false]);
    expect(rig.lines.join("")).not.toContain("disableCloudProvider");
  });
});

describe("a generation that runs", () => {
  test("has metrics of its controllers, and a controller that skips itself is not a refused plugin", async () => {
    const led = rig.lead();
    const idle = rig.controller("idle", main);
    const bind: typeof idle.bind = () => ({ ok: true, warnings: [], value: () => () => skipped("nothing to do") });
    await rig.install(rig.controller("alpha", main), { ...idle, bind });
    const running = 'running_managed_controllers{name="alpha",manager="cloud-controller-manager"}';
    expect((await rig.metrics.render()).body).toContain(`${running} 1`);
    expect(rig.slot.active?.skipped).toEqual([{ name: "idle", reason: "nothing to do" }]);
    expect(rig.report.status.refusedPlugins).toEqual([]);
    rig.stop();
    await led;
    expect(rig.lines.filter((line) => line.includes("Controller stopped"))).toHaveLength(1);
    await rig.slot.close();
    expect((await rig.metrics.render()).body).not.toContain(running);
  });

  test("has the short name of a controller in its metrics, as Kubernetes has", async () => {
    const led = rig.lead();
    await rig.install({ ...rig.controller("alpha-controller", main), aliases: ["alpha", "first"] });
    const { body } = await rig.metrics.render();
    expect(body).toContain('running_managed_controllers{name="alpha",manager="cloud-controller-manager"} 1');
    rig.stop();
    await led;
  });

  test("logs its start with config and controllers, and a skipped controller as a warning unless a flag turned it off", async () => {
    const led = rig.lead();
    const skipping = (name: string, reason: string) => ({
      ...rig.controller(name, main),
      bind: () => ({ ok: true as const, warnings: [], value: () => () => skipped(reason) }),
    });
    const off = skipping("off", "--allocate-node-cidrs is false");
    await rig.install(
      rig.controller("alpha", main),
      rig.controller("beta", main),
      off,
      skipping("idle", "nothing to do"),
    );
    await runs("1 alpha", "1 beta");
    const logged = (text: string) => rig.lines.filter((line) => line.includes(text)).map((line) => JSON.parse(line));
    expect(logged('"Generation started"')).toMatchObject([
      { level: "info", generation: 1, configHash: "hash", controllers: "alpha,beta" },
    ]);
    expect(logged("Controller skipped").map(({ level, msg }) => `${level}: ${msg}`)).toEqual([
      "info: Controller skipped: --allocate-node-cidrs is false",
      "warn: Controller skipped: nothing to do",
    ]);
    expect(rig.announced.slice(0, 2)).toEqual([
      "ControllerSkipped: off does not run in generation 1: --allocate-node-cidrs is false",
      "ControllerSkipped: idle does not run in generation 1: nothing to do",
    ]);
    rig.stop();
    await led;
  });
});

describe("a generation without controllers", () => {
  test("is logged with a warning, and no other is", async () => {
    const led = rig.lead();
    const warned = (): number => rig.lines.filter((line) => line.includes("No controllers run")).length;
    await rig.install(rig.controller("alpha", main));
    expect(warned()).toBe(0);
    await rig.install();
    expect(warned()).toBe(1);
    rig.stop();
    await led;
  });
});

describe("a standby", () => {
  const logged = (text: string): readonly string[] => rig.lines.filter((line) => line.includes(text));

  test("a standby that is stopped as it acquires the lease runs nothing", async () => {
    await rig.install(rig.controller("alpha", main));
    rig.stop();
    expect(await rig.lead()).toEqual({ outstanding: [], failure: undefined });
    expect(logged("Generation started")).toEqual([]);
  });

  test("reports each reload once, when its generation stands by", async () => {
    await rig.install(rig.controller("alpha", main));
    await rig.install(rig.controller("beta", main));
    expect(logged("the new generation stands by")).toHaveLength(2);
    const led = rig.lead();
    await runs("2 beta");
    expect(logged("Reload superseded")).toEqual([]);
    expect(logged("Reload completed")).toHaveLength(2);
    expect(rig.report.status.reloads).toBe(2);
    rig.stop();
    await led;
  });

  test("a standby that is reloaded while its caches are refreshed waits for those of the newest generation", async () => {
    const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    await rig.install(rig.controller("alpha", main));
    rig.refresh = () => first.promise;
    const led = rig.lead();
    rig.refresh = () => second.promise;
    const installing = rig.install(rig.controller("beta", main));
    await eventually("the second is the candidate", () => rig.slot.active?.number === 2);
    first.resolve();
    await Bun.sleep(20);
    expect(rig.slot.phase).toBe("preparing");
    second.resolve();
    await installing;
    await runs("2 beta");
    rig.stop();
    await led;
  });
});

describe("a lost lease", () => {
  test("a lost lease during a reload's drain closes the fences and aborts writes at once", async () => {
    const clock = manualClock();
    await restart({ drainTimeout: 3_000 }, clock);
    const led = rig.lead();
    await rig.install(rig.controller("alpha", main, deaf));
    const fence = rig.cloudFence;
    void rig.install(rig.controller("beta", main));
    await eventually("it drains", () => rig.slot.phase === "draining");
    rig.lose();
    expect([fence?.closed, fence?.signal.aborted]).toEqual([true, true]);
    await clock.advance(3_000);
    await led;
    expect(rig.made.has("beta")).toBe(true);
    expect([...rig.running]).toEqual(["1 alpha"]);
  });

  test("a lost lease during a clean stop closes the fences and aborts writes at once", async () => {
    const clock = manualClock();
    await restart({ drainTimeout: 1_500 }, clock);
    const led = rig.lead();
    await rig.install(rig.controller("alpha", main, deaf));
    rig.stop();
    expect(rig.cloudFence?.signal.aborted).toBe(false);
    rig.slot.lost();
    expect(rig.cloudFence?.signal.aborted).toBe(true);
    await clock.advance(1_500);
    await led;
  });
});

describe("a generation that fails", () => {
  test("a generation that fails after a disabled config is rolled back to the one that ran before that", async () => {
    const led = rig.lead();
    await rig.install(rig.controller("alpha", main));
    await rig.install(rig.controller("beta", main));
    await rig.slot.disable("hash");
    await rig.install(rig.controller("gamma", main, boom));
    await runs("4 beta");
    rig.stop();
    await led;
  });

  test.each([
    ["throws synchronously", throwing, "boom at its start"],
    ["returns before its abort", () => Promise.resolve(), "run() returned before its signal was aborted"],
  ])("a generation that fails because its run %s is rolled back, with the reason", async (_what, run, reason) => {
    const led = rig.lead();
    await rig.install(rig.controller("alpha", main));
    await rig.install(rig.controller("beta", main, run));
    await runs("3 alpha");
    expect(rig.report.status.lastRollback).toMatchObject({ generation: 2, controller: "beta", reason });
    rig.stop();
    await led;
  });

  test("is reported in /statusz, log and metrics as a failed reload", async () => {
    const led = rig.lead();
    await rig.install(rig.controller("alpha", main));
    await rig.install(rig.controller("beta", main, boom));
    await runs("3 alpha");
    expect(rig.report.status).toMatchObject({
      lastRefusal: { reason: expect.stringContaining('controller "beta" failed: boom') },
      lastRollback: { generation: 2, controller: "beta", outcome: "the previous generation runs again" },
    });
    expect((await rig.metrics.render()).body).toMatch(/^host_last_reload_successful 0$/m);
    rig.stop();
    await led;
  });

  test("a generation that is restarted after a failure is not reported as a refused reload", async () => {
    const clock = manualClock();
    await restart({ drainTimeout: 200 }, clock);
    const led = rig.lead();
    const { failure, failsOnce } = failingOnce();
    await rig.install(rig.controller("alpha", main, failsOnce));
    await runs("1 alpha");
    await clock.advance(60_001);
    failure.reject(new Error("boom"));
    await runs("2 alpha");
    expect(rig.report.status).toMatchObject({
      lastRefusal: undefined,
      lastRollback: { generation: 1, reason: "boom", outcome: "its generation is started again" },
    });
    expect((await rig.metrics.render()).body).toMatch(/^host_last_reload_successful 1$/m);
    rig.stop();
    await led;
  });

  test("within a minute of its start is rolled back; later it is restarted", async () => {
    const clock = manualClock();
    await restart({ drainTimeout: 200 }, clock);
    const led = rig.lead();
    const { failure, failsOnce } = failingOnce();
    await rig.install(rig.controller("alpha", main));
    await rig.install(rig.controller("beta", main, failsOnce));
    await runs("2 beta");
    await clock.advance(60_001);
    failure.reject(new Error("boom"));
    await runs("3 beta");
    rig.stop();
    await led;
  });
});

describe("preparing", () => {
  const unlisted = { group: "example.com", version: "v1", kind: "Foo", plural: "foos", namespaced: true };
  const unsynced = (name: string) => {
    const controller = rig.controller(name, main);
    return {
      ...controller,
      bind: (own: unknown) => {
        const decoded = controller.bind(own);
        if (!decoded.ok) return decoded;
        const value: typeof decoded.value = (config, cloud) => (context) => {
          context.informers.of(unlisted);
          return decoded.value(config, cloud)(context);
        };
        return { ...decoded, value };
      },
    };
  };

  test("does not start when its signal has aborted", async () => {
    rig.stop(new Error("stopped"));
    await expect(rig.install(rig.controller("alpha", main))).rejects.toThrow("stopped");
    expect(rig.made.size).toBe(0);
  });

  test("times out when informers do not sync, naming the controller and its kinds", async () => {
    await restart({ initTimeout: 300 });
    expect(await rig.install(unsynced("alpha")).then(() => "", messageOf)).toMatch(
      /controller "alpha": foos\.example\.com did not sync within 0\.3 s \(--plugin-init-timeout\);.*list and watch$/,
    );
    expect(await rig.outstanding.settled(10_000)).toEqual([]);
  });

  test("refuses a cloud whose own informers cannot sync, and starts none on empty stores", async () => {
    await restart({ initTimeout: 300 });
    rig.cloudKinds = [unlisted];
    await expect(rig.install(rig.controller("alpha", main))).rejects.toThrow(
      'cloud "memory": foos.example.com did not sync within 0.3 s',
    );
  });

  test("waits until informers have synced", async () => {
    const led = rig.lead();
    let synced = false;
    const controller = rig.controller("alpha", main, async (signal) => {
      synced = rig.made.get("alpha")?.context.informers.of(kinds.Node).hasSynced() ?? false;
      await untilAborted(signal);
    });
    const bind: typeof controller.bind = (own) => {
      const decoded = controller.bind(own);
      if (!decoded.ok) return decoded;
      const value: typeof decoded.value = (config, cloud) => (context) => {
        context.informers.of(kinds.Node);
        return decoded.value(config, cloud)(context);
      };
      return { ...decoded, value };
    };
    await rig.install({ ...controller, bind });
    await runs("1 alpha");
    expect(synced).toBe(true);
    rig.stop();
    await led;
  });

  test("disposes of a cloud that is created after the timeout", async () => {
    await restart({ initTimeout: 100 });
    const late = Promise.withResolvers<void>();
    let disposed = 0;
    rig.createCloud = () => late.promise;
    rig.disposeCloud = async () => void (disposed += 1);
    await expect(rig.install(rig.controller("alpha", main))).rejects.toThrow('cloud "memory": create did not return');
    expect(rig.outstanding.entries).toMatchObject([{ kind: "create" }]);
    late.resolve();
    await eventually("it is disposed of", () => disposed === 1);
    await eventually("it is forgotten", () => rig.outstanding.entries.length === 0);
  });

  test("names the controller whose construct or init fails", async () => {
    const broken = (init: () => never) => ({
      ...rig.controller("alpha", main),
      bind: () => ({ ok: true as const, warnings: [], value: init }),
    });
    const faulty = broken(() => {
      throw new Error("boom in construct");
    });
    await expect(rig.install(faulty)).rejects.toThrow('controller "alpha" cannot be initialized: boom in construct');
  });

  test("does not wait for a cleanup that hangs", async () => {
    const clock = manualClock();
    await restart({ initTimeout: 100 }, clock);
    rig.disposeCloud = deaf;
    const waits = (kind: string): Promise<unknown> =>
      eventually(`it waits for: ${kind}`, () => rig.outstanding.entries.some((entry) => entry.kind === kind));
    const installing = rig.install(unsynced("alpha")).catch(messageOf);
    await waits("sync");
    await clock.advance(100);
    await waits("dispose");
    await clock.advance(5_000);
    expect(await installing).toContain("did not sync");
    expect(rig.outstanding.entries).toMatchObject([{ kind: "dispose" }]);
  });
});
