import { afterEach, beforeEach, describe, expect, test } from "bun:test";

import { CodedError, FencedError, kinds, type Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import type { GenerationSettings } from "../../../../host/generation/scope/scope.ts";
import { elsewhere, main, side, SlotRig, untilAborted } from "../slot-rig.ts";

let rig: SlotRig;
let led: Promise<unknown> | undefined;
beforeEach(async () => void (rig = await SlotRig.start()));
afterEach(async () => {
  rig.stop();
  await led;
  led = undefined;
  await rig[Symbol.asyncDispose]();
});

/** Wins the main lock. A failure to go on leading is the business of the test that expects one. */
function lead(): void {
  led = rig.lead().catch((error: unknown) => error);
}

async function restart(settings: Partial<GenerationSettings>): Promise<void> {
  await rig[Symbol.asyncDispose]();
  rig = await SlotRig.start(settings);
}

const running = (): readonly string[] => [...rig.running].toSorted();
const alpha = () => rig.controller("alpha", main);
const beta = () => rig.controller("beta", side);
const runs = (...names: readonly string[]): Promise<unknown> =>
  eventually(`these run: ${names.join(", ")}`, () => Bun.deepEquals(running(), names));

/** Writes with a controller's own client; resolves with the refusal, or undefined. */
const refusalOf = (name: string): Promise<unknown> =>
  Promise.resolve(
    rig.made.get(name)?.context.client.create(kinds.ConfigMap, {
      metadata: { name: `${name}-${Bun.randomUUIDv7()}`, namespace: "default" },
    }),
  ).then(
    () => undefined,
    (error: unknown) => error,
  );

const service: Service = { metadata: { name: "web", namespace: "default", uid: "1" }, spec: {} };
const cloudRefusalOf = (name: string): Promise<unknown> =>
  Promise.resolve(rig.made.get(name)?.cloud.loadBalancers?.ensureLoadBalancer("c", service, [])).then(
    () => undefined,
    (error: unknown) => error,
  );

describe("a generation under several locks", () => {
  test("runs the controllers of the main lock, and the others once their lock is acquired", async () => {
    lead();
    await rig.install(alpha(), beta());
    expect(running()).toEqual(["1 alpha"]);
    expect(rig.health.names("healthz")).toEqual(["alpha"]);
    expect(rig.slot.active?.controllers).toEqual(["alpha", "beta"]);
    rig.slot.lockWon(side);
    expect(running()).toEqual(["1 alpha", "1 beta"]);
    expect(rig.health.names("healthz")).toEqual(["alpha", "beta"]);
    expect([main, side].map((lock) => rig.slot.active?.startedUnder(lock))).toEqual([["alpha"], ["beta"]]);
  });

  test("a generation under several locks that is swapped in runs under every held lock, never beside the old generation", async () => {
    lead();
    await rig.install(alpha(), beta());
    await rig.install(alpha(), beta());
    expect(running()).toEqual(["2 alpha"]);
    rig.slot.lockWon(side);
    await rig.install(alpha(), beta());
    expect(running()).toEqual(["3 alpha", "3 beta"]);
    expect(rig.health.names("healthz")).toEqual(["alpha", "beta"]);
    expect(rig.overlaps).toEqual([]);
  });

  test("runs under a lock that was acquired before it was ready", async () => {
    rig.slot.lockWon(side);
    await rig.install(alpha(), beta());
    expect(running()).toEqual([]);
    lead();
    await runs("1 alpha", "1 beta");
  });

  test("does not construct controllers that another component runs", async () => {
    lead();
    await rig.install(alpha(), rig.controller("gamma", elsewhere));
    rig.slot.lockWon(side);
    expect(running()).toEqual(["1 alpha"]);
    expect(rig.made.has("gamma")).toBe(false);
    expect(rig.slot.active?.controllers).toEqual(["alpha"]);
  });

  test("restarts the start interval for a lock that is acquired later, and stops during it", async () => {
    await restart({ controllerStartInterval: 20 });
    lead();
    const gamma = rig.controller("gamma", side);
    await rig.install(alpha(), beta(), gamma);
    rig.slot.lockWon(side);
    await runs("1 alpha", "1 beta", "1 gamma");
    await restart({ controllerStartInterval: 3_600_000 });
    lead();
    await rig.install(alpha(), beta(), rig.controller("gamma", side));
    rig.slot.lockWon(side);
    await runs("1 alpha", "1 beta");
    rig.stop();
    expect(await led).toEqual({ outstanding: [], failure: undefined });
    expect(running()).toEqual([]);
  });

  test("a lock that is acquired later starts its controllers once the caches have been read again since", async () => {
    lead();
    rig.watchedKinds = [kinds.Service];
    await rig.install(alpha(), beta());
    const read = Promise.withResolvers<void>();
    let reads = 0;
    rig.refresh = () => {
      reads += 1;
      return read.promise;
    };
    const since = performance.now();
    rig.heldSince = () => since;
    rig.slot.lockWon(side);
    await eventually("the caches are being read", () => reads > 0);
    expect(running()).toEqual(["1 alpha"]);
    read.resolve();
    await runs("1 alpha", "1 beta");
  });

  test("a generation that is replaced while its caches are read again for a lock starts nothing under it", async () => {
    lead();
    rig.watchedKinds = [kinds.Service];
    await rig.install(alpha(), beta());
    const reads: PromiseWithResolvers<void>[] = [];
    rig.refresh = () => {
      const read = Promise.withResolvers<void>();
      reads.push(read);
      return read.promise;
    };
    const since = performance.now();
    rig.heldSince = (lock) => (lock === side ? since : Number.NEGATIVE_INFINITY);
    rig.slot.lockWon(side);
    await eventually("the caches are being read", () => reads.length > 0);
    const former = reads.length;
    rig.refresh = () => Promise.resolve();
    await rig.install(alpha(), beta());
    await runs("2 alpha", "2 beta");
    const checks = rig.checks;
    for (const read of reads.slice(0, former)) read.resolve();
    await Bun.sleep(50);
    expect([running(), rig.overlaps]).toEqual([["2 alpha", "2 beta"], []]);
    expect(rig.checks).toBe(checks);
    expect(rig.lines.filter((line) => line.includes('"generation":1') && line.includes(side))).toEqual([]);
  });

  test("a generation that drains while its caches are read again for a lock starts nothing under it", async () => {
    lead();
    rig.watchedKinds = [kinds.Service];
    const returned = Promise.withResolvers<void>();
    let begun = false;
    const slow = rig.controller("alpha", main, async (signal) => {
      await untilAborted(signal);
      await returned.promise;
    });
    const late = rig.controller("beta", side, async (signal) => {
      begun = true;
      await untilAborted(signal);
    });
    await rig.install(slow, late);
    let reads = 0;
    rig.refresh = () => {
      reads += 1;
      return new Promise(() => undefined);
    };
    const since = performance.now();
    rig.heldSince = (lock) => (lock === side ? since : Number.NEGATIVE_INFINITY);
    rig.slot.lockWon(side);
    await eventually("the caches are being read", () => reads > 0);
    const disabled = rig.slot.disable("hash");
    await Bun.sleep(50);
    expect([running(), begun]).toEqual([["1 alpha"], false]);
    returned.resolve();
    await disabled;
    expect(running()).toEqual([]);
  });

  test("a lock that is held already starts its controllers once the caches of a new generation are no older than it", async () => {
    lead();
    rig.slot.lockWon(side);
    rig.watchedKinds = [kinds.Service];
    const read = Promise.withResolvers<void>();
    let asked: string = main;
    let since: number | undefined;
    rig.heldSince = (lock) => {
      asked = lock;
      // Asked for once the caches have been listed.
      return lock === side ? (since ??= performance.now()) : Number.NEGATIVE_INFINITY;
    };
    rig.refresh = () => (asked === side ? read.promise : Promise.resolve());
    await rig.install(alpha(), beta());
    await runs("1 alpha");
    await Bun.sleep(20);
    expect(running()).toEqual(["1 alpha"]);
    read.resolve();
    await runs("1 alpha", "1 beta");
  });

  test("resumes under every lock after the cloud provider was disabled", async () => {
    lead();
    await rig.install(alpha(), beta());
    await rig.slot.disable("hash");
    rig.slot.lockWon(side);
    expect(running()).toEqual([]);
    expect(rig.health.names("healthz")).toEqual(["ping"]);
    await rig.install(alpha(), beta());
    expect(running()).toEqual(["2 alpha", "2 beta"]);
  });

  test("is rolled back when it fails under a later lock", async () => {
    lead();
    await rig.install(alpha(), beta());
    rig.slot.lockWon(side);
    const failing = rig.controller("beta", side, async () => {
      throw new CodedError("Broken", "fails as it runs");
    });
    await rig.install(alpha(), failing);
    await runs("3 alpha", "3 beta");
    expect(rig.overlaps).toEqual([]);
  });

  test("ends the process when neither it nor its predecessor can run", async () => {
    lead();
    const failing = rig.controller("beta", side, async () => {
      throw new CodedError("Broken", "fails as it runs");
    });
    await rig.install(alpha(), failing);
    rig.slot.lockWon(side);
    expect(await led).toMatchObject({ failure: { code: "RunFailed" } });
    expect(running()).toEqual([]);
  });
});

describe("the fences of a generation under several locks", () => {
  test("check, for each controller, the lock that it belongs to", async () => {
    lead();
    await rig.install(alpha(), beta());
    expect(await refusalOf("alpha")).toBeUndefined();
    expect(await refusalOf("beta")).toBeInstanceOf(FencedError);
    expect(await cloudRefusalOf("beta")).toBeInstanceOf(FencedError);
    rig.slot.lockWon(side);
    expect(await refusalOf("beta")).toBeUndefined();
    expect(await cloudRefusalOf("beta")).toBeUndefined();
    rig.held.delete(side);
    expect(await refusalOf("beta")).toBeInstanceOf(FencedError);
    expect(await cloudRefusalOf("beta")).toBeInstanceOf(FencedError);
    expect(await refusalOf("alpha")).toBeUndefined();
    expect(await cloudRefusalOf("alpha")).toBeUndefined();
  });

  test("check, for the cloud's own requests, every lock with running work", async () => {
    lead();
    await rig.install(alpha(), beta());
    rig.held.delete(side);
    expect(rig.cloudFence?.closed).toBe(false);
    rig.held.add(side);
    rig.slot.lockWon(side);
    expect(rig.cloudFence?.closed).toBe(false);
    for (const lock of [main, side]) {
      rig.held.delete(lock);
      expect(rig.cloudFence?.closed).toBe(true);
      rig.held.add(lock);
    }
    expect(rig.cloudFence?.closed).toBe(false);
  });

  test.each([main, side])("all close before the drain when %s is lost, and abort writes in flight", async (lost) => {
    lead();
    const seen: unknown[] = [];
    const lateWriter = (name: string, lock: string) =>
      rig.controller(name, lock, async (signal) => {
        await untilAborted(signal);
        seen.push(await refusalOf(name), rig.cloudFence?.signal.aborted);
      });
    await rig.install(lateWriter("alpha", main), lateWriter("beta", side));
    rig.slot.lockWon(side);
    rig.held.delete(lost);
    rig.stop();
    await led;
    expect(seen).toEqual([expect.any(FencedError), true, expect.any(FencedError), true]);
  });

  test.each([
    ["without a reason", undefined],
    ["with another reason than the loss of the lease", new CodedError("Stopping", "the process stops")],
  ])("stay open in the drain of a clean stop %s", async (_, reason) => {
    lead();
    const seen: unknown[] = [];
    const lateWriter = rig.controller("beta", side, async (signal) => {
      await untilAborted(signal);
      seen.push(await refusalOf("beta"));
    });
    await rig.install(alpha(), lateWriter);
    rig.slot.lockWon(side);
    rig.stop(reason);
    await led;
    expect(seen).toEqual([undefined]);
    expect(rig.cloudFence?.closed).toBe(true);
  });
});
