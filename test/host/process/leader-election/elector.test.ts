import { describe, expect, test } from "bun:test";

import { ApiError, type Lease } from "cloud-controller-host/sdk";
import { type ManualClock, manualClock } from "cloud-controller-host/sdk/testing";
import * as fc from "fast-check";

import { systemClock } from "../../../../host/async/clock.ts";
import {
  type Election,
  type ElectionEnd,
  Elector,
  type ElectorOptions,
} from "../../../../host/process/leader-election/elector.ts";
import { microTime } from "../../../../host/process/leader-election/record.ts";
import { createLogger } from "../../../../host/process/log/log.ts";
import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { rejection } from "../../../kit/rejection.ts";
import { type MemoryLeases, memoryLeases } from "./memory-leases.ts";

const timings = { leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 2_000 };

interface Candidate {
  readonly elector: Elector;
  readonly events: string[];
  readonly metrics: MetricsRegistry;
  /** Runs in an election whose work ends with its signal, or with `work`. */
  readonly run: (work?: Election["lead"]) => Run;
}
interface Run {
  readonly ended: Promise<ElectionEnd>;
  readonly stop: () => void;
  /** What the work has seen so far. */
  readonly seen: string[];
}

function candidate(
  leases: MemoryLeases,
  clock: ElectorOptions["clock"],
  identity = "me",
  options: Partial<ElectorOptions> = {},
): Candidate {
  const events: string[] = [];
  const metrics = new MetricsRegistry();
  const elector = new Elector({
    ...timings,
    client: leases.client,
    clock,
    log: createLogger({ format: "text", verbosity: 4, write: () => undefined }),
    events: {
      event: ({ kind, metadata }, type, reason, message) =>
        events.push(`${kind} ${metadata?.namespace}/${metadata?.name} ${type} ${reason}: ${message}`),
    },
    metrics: metrics.root,
    identity,
    namespace: "kube-system",
    leaseName: "cloud-controller-manager",
    ...options,
  });
  return {
    elector,
    events,
    metrics,
    run(work: Election["lead"] = untilAborted) {
      const stop = new AbortController();
      const seen: string[] = [];
      const ended = elector.run({
        signal: stop.signal,
        lead: async (lost) => {
          seen.push("lead");
          lost.addEventListener("abort", () => seen.push("told"), { once: true });
          const end = await work(lost);
          seen.push("done");
          return end;
        },
      });
      return { ended, seen, stop: () => stop.abort() };
    },
  };
}

const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));

const holder = (leases: MemoryLeases): string => leases.get()?.spec?.holderIdentity ?? "nobody";

/** A clock whose time can pass without a timer that fires, as for a process that does not run. */
function freezable(): { readonly clock: ManualClock; readonly freeze: (ms: number) => void } {
  const clock = manualClock();
  let frozenMs = 0;
  return {
    clock: { ...clock, monotonic: () => clock.monotonic() + frozenMs, now: () => clock.now() + frozenMs },
    freeze: (ms) => (frozenMs += ms),
  };
}

/** Moves time on in small steps, so that everything happens in its order. */
async function pass(clock: ManualClock, ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 100) await clock.advance(Math.min(100, left));
}

/** A candidate that leads, and one that has seen its Lease. */
async function leaderAndStandby() {
  const [leases, clock] = [memoryLeases(), manualClock()];
  const [first, second] = [candidate(leases, clock, "first"), candidate(leases, clock, "second")];
  const one = first.run();
  await clock.advance(0);
  const two = second.run();
  await pass(clock, 2_500);
  return {
    leases,
    clock,
    first,
    second,
    two,
    /** The first leads as before, the second never has, and both end. */
    expectUndisturbed: async (): Promise<void> => {
      await pass(clock, 20_000);
      expect([one.seen, two.seen]).toEqual([["lead"], []]);
      one.stop();
      two.stop();
      await Promise.all([one.ended, two.ended]);
    },
  };
}

describe("an election", () => {
  test("is won at once without a leader, and renewed every retry period", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const { elector, run, metrics, events } = candidate(leases, clock);
    expect((await metrics.render()).body).toContain('master_status{name="cloud-controller-manager"} 0');
    const { seen, stop, ended } = run();
    await clock.advance(0);
    expect(seen).toEqual(["lead"]);
    expect(elector.safelyHeld()).toBeTrue();
    expect(elector.observed()?.holderIdentity).toBe("me");
    expect(events).toEqual(["Lease kube-system/cloud-controller-manager Normal LeaderElection: me became leader"]);
    expect((await metrics.render()).body).toContain('master_status{name="cloud-controller-manager"} 1');
    await pass(clock, 20_000);
    expect(leases.calls.filter((verb) => verb === "update")).toHaveLength(10);
    expect(leases.get()?.spec?.renewTime).toBe(microTime(clock.now()));
    stop();
    expect(await ended).toBe("released");
    expect((await metrics.render()).body).toContain('master_status{name="cloud-controller-manager"} 0');
  });

  test("a clean stop renews until the work has ended, and only then releases the lease", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const drained = Promise.withResolvers<void>();
    const { elector, run, events } = candidate(leases, clock);
    const { seen, stop, ended } = run(() => drained.promise);
    await clock.advance(0);
    stop();
    await pass(clock, 60_000);
    expect(seen).toEqual(["lead", "told"]);
    expect(holder(leases)).toBe("me");
    expect(elector.safelyHeld()).toBeTrue();
    drained.resolve();
    expect(await ended).toBe("released");
    expect(leases.get()?.spec).toMatchObject({ holderIdentity: "", leaseDurationSeconds: 1, leaseTransitions: 0 });
    expect(elector.safelyHeld()).toBeFalse();
    expect(events.at(-1)).toEndWith("me stopped leading");
    expect(clock.sleepers).toBe(0);
  });

  test("a nudged standby takes over a released lease without any wait", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const [first, second] = [candidate(leases, clock, "first"), candidate(leases, clock, "second")];
    const one = first.run();
    await clock.advance(0);
    const two = second.run();
    await clock.advance(0);
    expect(second.elector.nudge(leases.get())).toBeFalse();
    await clock.advance(0);
    expect(two.seen).toEqual([]);
    one.stop();
    expect(await one.ended).toBe("released");
    leases.calls.splice(0);
    const seenMs = clock.monotonic();
    expect(second.elector.nudge(leases.get())).toBeTrue();
    await clock.advance(0);
    expect(two.seen).toEqual(["lead"]);
    expect(leases.get()?.spec?.leaseTransitions).toBe(1);
    expect([leases.calls, second.elector.heldSince]).toEqual([["update"], seenMs]);
    two.stop();
    await two.ended;
  });

  test("a leader that is shown its own release takes it for no offer: its process would read its caches again as it ends", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const { elector, run } = candidate(leases, clock);
    const { stop, ended } = run();
    await clock.advance(0);
    const offers: boolean[] = [];
    // Its watch may be faster than the reply to the write.
    leases.before = (_, lease) => void offers.push(elector.nudge(lease));
    stop();
    expect(await ended).toBe("released");
    expect([holder(leases), offers]).toEqual(["", [false]]);
    expect(elector.nudge(leases.get())).toBeFalse();
  });

  test("records that it leads only after the work under the lease has begun", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const { events, run } = candidate(leases, clock);
    let before: readonly string[] = ["never began"];
    const { ended } = run(async () => void (before = [...events]));
    await clock.advance(0);
    await ended;
    expect([before, events[0]]).toEqual([[], expect.stringContaining("became leader")]);
  });

  test("a standby that is shown a release that is over reads the lease, and leaves it to its holder", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    leases.put({ holderIdentity: "", leaseDurationSeconds: 1, leaseTransitions: 0 });
    const released = leases.get();
    leases.put({ holderIdentity: "other", leaseDurationSeconds: 15, leaseTransitions: 1 });
    const { elector, run } = candidate(leases, clock);
    const { seen, stop, ended } = run();
    await clock.advance(0);
    leases.calls.splice(0);
    elector.nudge(released);
    await clock.advance(0);
    expect(leases.calls).toEqual(["update", "get"]);
    leases.calls.splice(0);
    await pass(clock, 5000);
    expect(new Set(leases.calls)).toEqual(new Set(["get"]));
    expect([seen, holder(leases)]).toEqual([[], "other"]);
    stop();
    await ended;
  });

  test("a held lease passes to the standby no earlier than its duration after the last change", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    leases.put({ holderIdentity: "dead", leaseDurationSeconds: 15, leaseTransitions: 0 });
    const { run } = candidate(leases, clock);
    const { seen, stop, ended } = run();
    await pass(clock, 14_900);
    expect(seen).toEqual([]);
    await pass(clock, 4_700);
    expect(seen).toEqual(["lead"]);
    stop();
    await ended;
  });

  test.each([1, 2_147_483_647])(
    "a held lease into which another client writes a duration of %i s passes to the standby as before that",
    async (leaseDurationSeconds) => {
      const [leases, clock] = [memoryLeases(), manualClock()];
      const held = { holderIdentity: "busy", leaseTransitions: 0 };
      leases.put({ ...held, leaseDurationSeconds: 15 });
      const { run } = candidate(leases, clock);
      const { seen, stop, ended } = run();
      await pass(clock, 2_000);
      leases.put({ ...held, leaseDurationSeconds });
      await pass(clock, 14_900);
      expect(seen).toEqual([]);
      await pass(clock, 9_000);
      expect(seen).toEqual(["lead"]);
      stop();
      await ended;
    },
  );

  test("a lease counts as held for the duration with which its holder has renewed it last", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const held = { holderIdentity: "busy", leaseTransitions: 0 };
    leases.put({ ...held, leaseDurationSeconds: 600, renewTime: "2026-01-01T00:00:00.000000Z" });
    const { run } = candidate(leases, clock);
    const { seen, stop, ended } = run();
    await pass(clock, 2_000);
    leases.put({ ...held, leaseDurationSeconds: 15, renewTime: "2026-01-01T00:00:02.000000Z" });
    await pass(clock, 24_000);
    expect(seen).toEqual(["lead"]);
    stop();
    await ended;
  });

  test("a lease counts as held for as long as its newest holder leads, however long its former one did", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    leases.put({ holderIdentity: "former", leaseDurationSeconds: 600, leaseTransitions: 0 });
    const { run } = candidate(leases, clock);
    const { seen, stop, ended } = run();
    await pass(clock, 2_000);
    leases.put({ holderIdentity: "newest", leaseDurationSeconds: 15, leaseTransitions: 1 });
    await pass(clock, 24_000);
    expect(seen).toEqual(["lead"]);
    stop();
    await ended;
  });

  test("a leader that cannot renew is fenced first, then stops, before another can take over", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const { elector, run, metrics, events } = candidate(leases, clock);
    const { seen, ended } = run();
    await clock.advance(0);
    leases.before = () => {
      throw new ApiError(503, "ServiceUnavailable", "away");
    };
    await pass(clock, 9_900);
    expect(elector.safelyHeld()).toBeTrue();
    await pass(clock, 200);
    expect(elector.safelyHeld()).toBeFalse();
    expect(seen).toEqual(["lead"]);
    await pass(clock, 2_000);
    expect(await ended).toBe("lost");
    await clock.advance(0);
    expect(seen).toEqual(["lead", "told", "done"]);
    expect(events.at(-1)).toEndWith("me stopped leading");
    expect((await metrics.render()).body).toContain('master_status{name="cloud-controller-manager"} 0');
    expect(holder(leases)).toBe("me");
    expect(clock.sleepers).toBe(0);
  });

  test("a leader whose requests hang stops leading", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const { run } = candidate(leases, clock);
    const { ended } = run();
    await clock.advance(0);
    leases.before = () => new Promise(() => undefined);
    await pass(clock, 12_100);
    expect(await ended).toBe("lost");
    expect(clock.sleepers).toBe(0);
  });

  test("a short outage does not cost the lease", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const { elector, run } = candidate(leases, clock);
    const { seen, stop, ended } = run();
    await clock.advance(0);
    leases.before = () => {
      throw new ApiError(500, "InternalError", "away");
    };
    await pass(clock, 8_000);
    leases.before = () => undefined;
    await pass(clock, 2_000);
    expect(elector.safelyHeld()).toBeTrue();
    expect(seen).toEqual(["lead"]);
    stop();
    expect(await ended).toBe("released");
  });

  test("a leader that sees another holder stops at once", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const { elector, run } = candidate(leases, clock);
    const { ended } = run();
    await clock.advance(0);
    leases.put({ holderIdentity: "thief", leaseDurationSeconds: 15, leaseTransitions: 9 });
    await pass(clock, 2_100);
    expect(await ended).toBe("lost");
    expect(elector.safelyHeld()).toBeFalse();
    expect(holder(leases)).toBe("thief");
  });

  test("a leader that observes its Lease deleted creates it again at once, and a standby leaves it alone", async () => {
    const { leases, clock, first, second, expectUndisturbed } = await leaderAndStandby();
    leases.remove();
    second.elector.nudge();
    await clock.advance(0);
    expect(leases.get()).toBeUndefined();
    first.elector.nudge();
    await clock.advance(0);
    expect(holder(leases)).toBe("first");
    await expectUndisturbed();
  });

  test("a Lease whose holder is removed by hand is left to the leader that has not observed it yet", async () => {
    const { leases, clock, first, second, two, expectUndisturbed } = await leaderAndStandby();
    leases.put({ ...leases.get()?.spec, holderIdentity: "" });
    expect(second.elector.nudge(leases.get())).toBeFalse();
    second.elector.nudge();
    await clock.advance(0);
    expect([first.elector.safelyHeld(), two.seen]).toEqual([true, []]);
    leases.put({});
    expect(second.elector.nudge(leases.get())).toBeFalse();
    await clock.advance(0);
    expect([first.elector.safelyHeld(), two.seen]).toEqual([true, []]);
    expect(first.elector.nudge(leases.get())).toBeFalse();
    await clock.advance(0);
    expect([holder(leases), first.elector.safelyHeld()]).toEqual(["first", true]);
    await expectUndisturbed();
  });

  test("a leader that observes another holder in a watch stops at once, and its own renewals do not wake it", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const { elector, run } = candidate(leases, clock);
    const { ended } = run();
    await clock.advance(0);
    const requests = leases.calls.length;
    elector.nudge(leases.get());
    await clock.advance(0);
    expect(leases.calls).toHaveLength(requests);
    leases.put({ holderIdentity: "thief", leaseDurationSeconds: 15, leaseTransitions: 9 });
    elector.nudge(leases.get());
    await clock.advance(0);
    expect(await ended).toBe("lost");
  });

  test.each([
    ["requests that hang", () => new Promise<void>(() => undefined), /no answer to replace within 5 s/],
    [
      "requests that are refused",
      () => Promise.reject(new ApiError(503, "ServiceUnavailable", "etcd is away")),
      /etcd is away/,
    ],
  ])("a lease lost to %s is logged with the reason, at verbosity 0", async (_, before, reason) => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const lines: string[] = [];
    const log = createLogger({ format: "text", verbosity: 0, write: (line) => lines.push(line) });
    const { run } = candidate(leases, clock, "me", { log });
    const { ended } = run();
    await clock.advance(0);
    leases.before = before;
    await pass(clock, 12_100);
    expect(await ended).toBe("lost");
    expect(lines.find((line) => line.includes("Failed to renew lease"))).toMatch(reason);
  });

  test("a lease lost to a write that hangs ends at the renew deadline, with the reason of the last failure before it", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const lines: string[] = [];
    const log = createLogger({ format: "text", verbosity: 0, write: (line) => lines.push(line) });
    const { ended } = candidate(leases, clock, "me", { log }).run();
    await clock.advance(0);
    leases.before = () => Promise.reject(new ApiError(503, "ServiceUnavailable", "etcd is away"));
    await pass(clock, 9_900);
    leases.before = () => new Promise(() => undefined);
    await pass(clock, 2_200);
    expect(await ended).toBe("lost");
    expect(lines.find((line) => line.includes("Failed to renew lease"))).toContain("etcd is away");
  });

  test("a leader that was paused while another one led and released the lease does not continue", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const { elector, run } = candidate(leases, clock);
    const { seen, ended } = run();
    await clock.advance(0);
    leases.put({ holderIdentity: "", leaseDurationSeconds: 1, leaseTransitions: 1 });
    expect(elector.nudge(leases.get())).toBeFalse();
    await pass(clock, 15_000);
    expect(await ended).toBe("lost");
    expect([seen, holder(leases), elector.safelyHeld()]).toEqual([["lead", "told", "done"], "", false]);
  });

  describe("the pause of a leader", () => {
    test("ends its term if it is longer than its lease lasts, though no other candidate took that", async () => {
      const [leases, { clock, freeze }] = [memoryLeases(), freezable()];
      const lines: string[] = [];
      const log = createLogger({ format: "text", verbosity: 0, write: (line) => lines.push(line) });
      const { elector, run } = candidate(leases, clock, "me", { log });
      const { seen, ended } = run();
      await clock.advance(0);
      freeze(15_001);
      await clock.advance(2_100);
      expect(await ended).toBe("lost");
      expect([seen, holder(leases), elector.safelyHeld()]).toEqual([["lead", "told", "done"], "me", false]);
      const reason = "not renewed for 17 s, and the lease lasts 15 s: was the process paused?";
      expect(lines.find((line) => line.includes("Failed to renew lease"))).toContain(reason);
    });

    test("ends its term before the write of a renewal whose read it had sent before", async () => {
      const [leases, { clock, freeze }] = [memoryLeases(), freezable()];
      const { elector, run } = candidate(leases, clock);
      const { ended } = run();
      await clock.advance(0);
      const renewed = leases.get()?.metadata?.resourceVersion;
      leases.before = (verb) => {
        if (verb === "update") throw new ApiError(503, "ServiceUnavailable", "etcd is away");
        freeze(15_001);
        leases.before = () => undefined;
      };
      await clock.advance(2_100);
      expect(await ended).toBe("lost");
      expect([leases.get()?.metadata?.resourceVersion, elector.safelyHeld()]).toEqual([renewed, false]);
    });

    test("does not end its term if it is shorter than that", async () => {
      const [leases, { clock, freeze }] = [memoryLeases(), freezable()];
      const { elector, run } = candidate(leases, clock);
      const { stop, ended } = run();
      await clock.advance(0);
      freeze(12_900);
      await clock.advance(2_100);
      expect(elector.safelyHeld()).toBeTrue();
      stop();
      expect(await ended).toBe("released");
    });
  });

  test("a lease lost to another candidate is logged with its name", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const lines: string[] = [];
    const log = createLogger({ format: "text", verbosity: 0, write: (line) => lines.push(line) });
    const { ended } = candidate(leases, clock, "me", { log }).run();
    await clock.advance(0);
    leases.put({ holderIdentity: "thief", leaseDurationSeconds: 15, leaseTransitions: 9 });
    await pass(clock, 2_100);
    expect(await ended).toBe("lost");
    expect(lines.find((line) => line.includes("Failed to renew lease"))).toContain('holder="thief"');
  });

  test("a leader whose lease was emptied by another client is fenced until it has written it again", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const { elector, run } = candidate(leases, clock);
    const { stop, ended } = run();
    await clock.advance(0);
    leases.put({ holderIdentity: "", leaseDurationSeconds: 1, leaseTransitions: 0 });
    const written = Promise.withResolvers<void>();
    let writes = 0;
    // The first write is the one that meets the conflict.
    leases.before = (verb) => (verb === "update" && ++writes > 1 ? written.promise : undefined);
    await pass(clock, 2_100);
    expect([writes, elector.safelyHeld()]).toEqual([2, false]);
    written.resolve();
    await clock.advance(0);
    expect([holder(leases), elector.safelyHeld()]).toEqual(["me", true]);
    stop();
    await ended;
  });

  test("a stop during an outage is not a loss, does not wait for the next attempt, and leaves the lease to expire", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const { ended, stop } = candidate(leases, clock).run();
    await clock.advance(0);
    leases.before = () => Promise.reject(new ApiError(503, "ServiceUnavailable", "away"));
    await pass(clock, 2_500);
    stop();
    await clock.advance(0);
    expect(await ended).toBe("kept");
    expect([holder(leases), clock.sleepers]).toEqual(["me", 0]);
  });

  test("a stop during a read that hangs returns at once", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    leases.before = () => new Promise(() => undefined);
    const { ended, stop } = candidate(leases, clock).run();
    await clock.advance(0);
    stop();
    await clock.advance(0);
    expect(await ended).toBe("stopped");
  });

  test("candidates spread their attempts: up to 1.2 retry periods are added at random", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    leases.put({ holderIdentity: "other", leaseDurationSeconds: 3600, leaseTransitions: 0 });
    const { ended, stop } = candidate(leases, clock, "me", { random: () => 0.5 }).run();
    await pass(clock, 3_100);
    expect(leases.calls).toHaveLength(1);
    await pass(clock, 200);
    expect(leases.calls).toHaveLength(2);
    stop();
    await ended;
  });

  test("a stop while another leads returns promptly and leaves the lease alone", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    leases.put({ holderIdentity: "other", leaseDurationSeconds: 15, leaseTransitions: 0 });
    const { run } = candidate(leases, clock);
    const { seen, stop, ended } = run();
    await clock.advance(0);
    stop();
    expect(await ended).toBe("stopped");
    expect(seen).toEqual([]);
    expect(holder(leases)).toBe("other");
    expect(clock.sleepers).toBe(0);
  });

  test("work that fails leaves the lease to expire, as it may not have stopped", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const { run, elector } = candidate(leases, clock);
    const { ended } = run(() => Promise.reject(new Error("drain timed out")));
    expect(await rejection(ended)).toBe("drain timed out");
    expect(holder(leases)).toBe("me");
    expect(elector.safelyHeld()).toBeFalse();
  });

  test("work that fails while a renewal hangs is reported once that renewal is given up, and by nothing before", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const { run } = candidate(leases, clock);
    const failing = Promise.withResolvers<never>();
    const outcome = rejection(run(() => failing.promise).ended);
    await clock.advance(0);
    leases.before = () => new Promise(() => undefined);
    await pass(clock, 2_100);
    failing.reject(new Error("the work failed"));
    // An unhandled rejection would be reported in this turn of the event loop.
    await Bun.sleep(1);
    await pass(clock, 10_000);
    expect(await outcome).toBe("the work failed");
  });

  test("work that will never stop leaves the lease to expire", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const { run, elector } = candidate(leases, clock);
    const { ended } = run(() => Promise.resolve("outstanding"));
    expect(await ended).toBe("kept");
    expect(holder(leases)).toBe("me");
    expect(elector.safelyHeld()).toBeFalse();
  });

  test("leaves no timer behind, and can run again after it has ended", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const { run } = candidate(leases, clock);
    for (let i = 0; i < 3; i++) {
      const { ended, stop, seen } = run();
      await clock.advance(0);
      expect(seen).toEqual(["lead"]);
      expect(await rejection(run().ended)).toContain("already running an election");
      stop();
      expect(await ended).toBe("released");
      expect(clock.sleepers).toBe(0);
    }
  });
});

test("a candidate logs its election in client-go's words", async () => {
  const [leases, clock] = [memoryLeases(), manualClock()];
  const lines: string[] = [];
  const log = createLogger({ format: "json", verbosity: 0, write: (line) => lines.push(JSON.parse(line).msg) });
  const run = candidate(leases, clock, "me", { log }).run();
  await pass(clock, 1_000);
  leases.before = () => Promise.reject(new Error("down"));
  await pass(clock, 20_000);
  expect(await run.ended).toBe("lost");
  expect(lines.filter((line) => line !== "Failed to update lock")).toEqual([
    "Attempting to acquire leader lease...",
    "New leader elected",
    "Successfully acquired lease",
    "Failed to renew lease",
  ]);
});

describe("a candidate that may not lead", () => {
  test("leaves a Lease that is free alone, and asks again at each attempt", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    let may = false;
    const run = candidate(leases, clock, "me", { mayLead: () => Promise.resolve(may) }).run();
    await pass(clock, 5_000);
    expect([run.seen, leases.get()]).toEqual([[], undefined]);
    may = true;
    await pass(clock, 5_000);
    expect(run.seen).toEqual(["lead"]);
    run.stop();
    await run.ended;
  });

  test("releases a Lease that it got meanwhile, and leads once it may", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const answers = [true, false];
    const { elector, run: start } = candidate(leases, clock, "me", {
      mayLead: () => Promise.resolve(answers.shift() ?? true),
    });
    const run = start();
    await clock.advance(0);
    expect(leases.calls).toEqual(["get", "create", "update"]);
    expect([run.seen, leases.get()?.spec?.holderIdentity, elector.safelyHeld()]).toEqual([[], "", false]);
    await pass(clock, 5_000);
    expect([run.seen, holder(leases)]).toEqual([["lead"], "me"]);
    run.stop();
    await run.ended;
  });
});

describe("a canceled candidate", () => {
  test("a stop after an acquiring write without an answer releases the lease that it won", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const client = {
      ...leases.client,
      create: (async (kind, object) => {
        await leases.client.create(kind, object);
        return new Promise(() => undefined);
      }) satisfies typeof leases.client.create,
    };
    const { stop, ended, seen } = candidate(leases, clock, "me", { client }).run();
    await clock.advance(0);
    await clock.advance(5_000);
    expect(holder(leases)).toBe("me");
    stop();
    await clock.advance(0);
    expect(await ended).toBe("stopped");
    expect(holder(leases)).toBe("");
    expect(seen).toEqual([]);
  });

  test("release with a renewal in flight", async () => {
    const leases = memoryLeases();
    const { run } = candidate(leases, systemClock, "me", {
      leaseDurationMs: 15_000,
      renewDeadlineMs: 10_000,
      retryPeriodMs: 5,
    });
    const inFlight = Promise.withResolvers<void>();
    leases.before = async (verb, body) => {
      if (verb !== "update" || body?.spec?.holderIdentity !== "me") return;
      inFlight.resolve();
      await Bun.sleep(20);
    };
    const { stop, ended } = run();
    await inFlight.promise;
    stop();
    expect(await ended).toBe("released");
    expect(holder(leases)).toBe("");
  });

  test("stop with the acquiring write in flight releases the lease that it may have won", async () => {
    const leases = memoryLeases();
    const { run } = candidate(leases, systemClock);
    const inFlight = Promise.withResolvers<void>();
    leases.before = async (verb) => {
      if (verb !== "create") return;
      inFlight.resolve();
      await Bun.sleep(20);
    };
    const { stop, ended, seen } = run();
    await inFlight.promise;
    stop();
    expect(await ended).toBe("stopped");
    expect(holder(leases)).toBe("");
    expect(seen).toEqual([]);
  });
});

test("rejects a candidate without identity or with unsafe timings", () => {
  const make = (options: Partial<ElectorOptions>) => () => candidate(memoryLeases(), manualClock(), "me", options);
  expect(make({ identity: "" })).toThrow("identity");
  expect(make({ renewDeadlineMs: 15_000, retryPeriodMs: 14_000 })).toThrow(
    /--leader-elect-lease-duration.*--leader-elect-retry-period/,
  );
});

describe("the health check of leader election", () => {
  test("a candidate that never led is healthy", () => {
    expect(() => candidate(memoryLeases(), manualClock()).elector.check()).not.toThrow();
  });

  test("a leader is healthy for its lease duration and 20 s after the last renewal, and not beyond", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const { elector, run } = candidate(leases, clock);
    const { ended } = run();
    await clock.advance(0);
    leases.before = () => Promise.reject(new ApiError(503, "ServiceUnavailable", "away"));
    await pass(clock, 34_900);
    expect(await ended).toBe("lost");
    expect(() => elector.check()).not.toThrow();
    await pass(clock, 200);
    expect(() => elector.check()).toThrow("cloud-controller-manager");
  });

  test("a standby is healthy however old the other's record is", async () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    leases.put({ holderIdentity: "other", leaseDurationSeconds: 3600, leaseTransitions: 0 });
    const { elector, run } = candidate(leases, clock);
    const { stop, ended } = run();
    await pass(clock, 60_000);
    expect(() => elector.check()).not.toThrow();
    stop();
    await ended;
  });
});

/** One of several candidates whose connection can break, hang, and come back with what hung delivered late. */
class Contender {
  readonly elector: Elector;
  working = 0;
  #connection: "good" | "broken" | PromiseWithResolvers<void> = "good";
  readonly #candidate: Candidate;
  #run: Run | undefined;

  constructor(leases: MemoryLeases, clock: ManualClock, identity: string, random: () => number) {
    const client = leases.clientOver(async () => {
      if (this.#connection === "broken") throw new ApiError(503, "ServiceUnavailable", "away");
      if (this.#connection !== "good") await this.#connection.promise;
    });
    this.#candidate = candidate(leases, clock, identity, { client, random });
    this.elector = this.#candidate.elector;
  }

  start(): void {
    if (this.#run !== undefined) return;
    const run = this.#candidate.run(async (lost) => {
      this.working++;
      await untilAborted(lost);
      this.working--;
    });
    this.#run = run;
    void run.ended.finally(() => (this.#run = undefined));
  }
  stop(): void {
    this.#run?.stop();
  }
  connect(how: "good" | "broken" | "hanging"): void {
    const before = this.#connection;
    this.#connection = how === "hanging" ? Promise.withResolvers<void>() : how;
    if (typeof before === "object") before.resolve();
  }
}

test("never lets two candidates write, whatever breaks, hangs, is deleted or emptied", async () => {
  const step = fc.record({
    action: fc.constantFrom(
      "start",
      "start",
      "stop",
      "good",
      "broken",
      "hanging",
      "deleted",
      "emptied",
      "nudged",
      "shown",
    ),
    who: fc.nat({ max: 2 }),
    waitMs: fc.nat({ max: 20_000 }),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 5, maxLength: 20 }),
      fc.array(fc.double({ min: 0, max: 0.999 }), { minLength: 1 }),
      async (steps, jitter) => {
        let draws = 0;
        const random = (): number => jitter[draws++ % jitter.length] ?? 0;
        const [leases, clock] = [memoryLeases(), manualClock()];
        const contenders = ["a", "b", "c"].map((identity) => new Contender(leases, clock, identity, random));
        const wroteAt = new Map<Contender, number>();
        const shown: Lease[] = [];
        for (const contender of contenders) contender.start();
        for (const { action, who, waitMs } of steps) {
          const contender = contenders[who];
          if (action === "start") contender?.start();
          else if (action === "stop") contender?.stop();
          // A candidate that has never seen the Lease cannot know that it had a holder.
          else if (action === "deleted" && contenders.every(({ elector }) => elector.observed() !== undefined))
            leases.remove();
          else if (action === "emptied" && leases.get() !== undefined)
            leases.put({ ...leases.get()?.spec, holderIdentity: "" });
          else if (action === "nudged") contender?.elector.nudge();
          // By a watch, which may be late.
          else if (action === "shown") contender?.elector.nudge(shown[waitMs % shown.length]);
          else if (action === "good" || action === "broken" || action === "hanging") contender?.connect(action);
          for (let left = waitMs; left > 0; left -= 500) {
            await clock.advance(Math.min(left, 500));
            const writers = contenders.filter(({ elector, working }) => working > 0 && elector.safelyHeld());
            expect(writers.length).toBeLessThanOrEqual(1);
            for (const writer of writers) {
              for (const [other, atMs] of wroteAt)
                if (other !== writer) expect(atMs).toBeLessThanOrEqual(writer.elector.heldSince);
              wroteAt.set(writer, clock.monotonic());
            }
            shown.unshift(leases.get() ?? {});
          }
        }
        for (const contender of contenders) {
          contender.connect("good");
          contender.stop();
        }
        await pass(clock, 30_000);
        expect(clock.sleepers).toBe(0);
      },
    ),
    { seed: 4, numRuns: 300 },
  );
}, 120_000);
