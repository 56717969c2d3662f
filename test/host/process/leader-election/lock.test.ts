import { describe, expect, test } from "bun:test";

import { ApiError, kinds, type Lease } from "cloud-controller-host/sdk";
import { type ManualClock, manualClock } from "cloud-controller-host/sdk/testing";
import * as fc from "fast-check";

import { leaseTimingProblems } from "../../../../host/config/validate/election-timings.ts";
import { LeaseLock } from "../../../../host/process/leader-election/lock.ts";
import { leaseWith, microTime, recordOf, sameRecord } from "../../../../host/process/leader-election/record.ts";
import { createLogger } from "../../../../host/process/log/log.ts";
import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { type MemoryLeases, memoryLeases } from "./memory-leases.ts";

const name = { namespace: "kube-system", name: "cloud-controller-manager" };

interface Setup {
  readonly clock: ManualClock;
  readonly leases: MemoryLeases;
  readonly lock: LeaseLock;
  readonly metrics: MetricsRegistry;
  readonly lines: string[];
}

function setup(identity = "me", leases = memoryLeases(), clock = manualClock()): Setup {
  const lines: string[] = [];
  const metrics = new MetricsRegistry();
  const lock = new LeaseLock({
    client: leases.client,
    clock,
    identity,
    name,
    log: createLogger({ format: "text", verbosity: 4, write: (line) => lines.push(line) }),
    leaseDurationMs: 15_000,
    requestTimeMs: 5_000,
    slowPath: metrics.root.counter({ name: "leader_election_slowpath_total", help: "h", labels: ["name"] }),
  });
  return { clock, leases, lock, metrics, lines };
}

const held = (holderIdentity: string, more: Lease["spec"] = {}): NonNullable<Lease["spec"]> => ({
  holderIdentity,
  leaseDurationSeconds: 15,
  acquireTime: microTime(0),
  renewTime: microTime(0),
  leaseTransitions: 1,
  ...more,
});

describe("an attempt to acquire or renew the Lease", () => {
  test("acquire from no object", async () => {
    const { lock, leases, clock } = setup();
    expect(await lock.tryAcquireOrRenew()).toBeTrue();
    expect(leases.calls).toEqual(["get", "create"]);
    const now = microTime(clock.now());
    expect(leases.get()?.spec).toEqual(held("me", { acquireTime: now, renewTime: now, leaseTransitions: 0 }));
    expect(now).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
  });

  test("a Lease that is missing is not created on an earlier look once its holder has been observed", async () => {
    const { lock, leases, clock } = setup();
    const lookedMs = clock.monotonic();
    leases.put(held("other"));
    expect(await lock.tryAcquireOrRenew()).toBeFalse();
    leases.remove();
    expect(await lock.tryTake(undefined, lookedMs)).toBeFalse();
    expect(leases.get()).toBeUndefined();
  });

  test("acquire from an object without a spec", async () => {
    const { lock, leases } = setup();
    leases.put({});
    expect(await lock.tryAcquireOrRenew()).toBeTrue();
    expect(leases.get()?.spec).toMatchObject({ holderIdentity: "me", leaseTransitions: 1 });
  });

  test("acquire from an object whose record has a duration of zero", async () => {
    const { lock, leases } = setup();
    leases.put(held("other", { leaseDurationSeconds: 0 }));
    expect(await lock.tryAcquireOrRenew()).toBeTrue();
    expect(recordOf(leases.get() ?? {}).holderIdentity).toBe("me");
  });

  test("acquire from a stale holder, counted from our own first look by the record's own duration", async () => {
    const { lock, leases, clock } = setup();
    leases.put(held("other", { leaseDurationSeconds: 60 }));
    expect(await lock.tryAcquireOrRenew()).toBeFalse();
    await clock.advance(59_000);
    expect(await lock.tryAcquireOrRenew()).toBeFalse();
    await clock.advance(1_001);
    expect(await lock.tryAcquireOrRenew()).toBeTrue();
    expect(leases.get()?.spec).toMatchObject({ holderIdentity: "me", leaseTransitions: 2, leaseDurationSeconds: 15 });
  });

  test("acquire from an empty holder at once", async () => {
    const { lock, leases } = setup();
    leases.put(held("", { leaseDurationSeconds: 1, leaseTransitions: 4 }));
    expect(await lock.tryAcquireOrRenew()).toBeTrue();
    expect(leases.get()?.spec).toMatchObject({ holderIdentity: "me", leaseTransitions: 5 });
  });

  test("do not acquire from a live holder, because every renewal restarts the wait", async () => {
    const { lock, leases, clock } = setup();
    for (let i = 0; i < 5; i++) {
      leases.put(held("other", { renewTime: microTime(i) }));
      expect(await lock.tryAcquireOrRenew()).toBeFalse();
      await clock.advance(14_000);
    }
    expect(lock.heldByAnother).toBeTrue();
    expect(leases.calls).toEqual(["get", "get", "get", "get", "get"]);
  });

  test("renew an object that is already ours, keeping the tenure and counting a slow path", async () => {
    const { lock, leases, metrics } = setup();
    leases.put(held("me", { acquireTime: microTime(5), leaseTransitions: 7 }));
    expect(await lock.tryAcquireOrRenew()).toBeTrue();
    expect(leases.get()?.spec).toMatchObject({ acquireTime: microTime(5), leaseTransitions: 7 });
    expect((await metrics.render()).body).toContain(
      'leader_election_slowpath_total{name="cloud-controller-manager"} 1',
    );
  });

  test("any clock of the other side is tolerated: its times are never compared with ours", async () => {
    const { lock, leases, clock } = setup();
    leases.put(held("other", { renewTime: microTime(0) }));
    expect(await lock.tryAcquireOrRenew()).toBeFalse();
    await clock.advance(15_001);
    leases.put(held("other", { renewTime: "2999-01-01T00:00:00.000000Z" }));
    expect(await lock.tryAcquireOrRenew()).toBeFalse();
    await clock.advance(15_001);
    expect(await lock.tryAcquireOrRenew()).toBeTrue();
  });

  test("an answer with an error is a failed try", async () => {
    const { lock, leases, lines } = setup();
    leases.before = () => {
      throw new ApiError(500, "InternalError", "etcd is away");
    };
    expect(await lock.tryAcquireOrRenew()).toBeFalse();
    expect(lines.join("")).toContain("etcd is away");
  });

  test("an answer that never comes is a failed try", async () => {
    const { lock, leases, clock } = setup();
    leases.before = () => new Promise(() => undefined);
    const tried = lock.tryAcquireOrRenew();
    await clock.advance(0);
    await clock.advance(5_000);
    expect(await tried).toBeFalse();
    expect(clock.sleepers).toBe(0);
  });

  test("sends nothing once its signal has aborted", async () => {
    const { lock, leases } = setup();
    expect(await lock.tryAcquireOrRenew({ reads: AbortSignal.abort() })).toBeFalse();
    expect(leases.calls).toEqual([]);
    expect(await lock.tryAcquireOrRenew()).toBeTrue();
    const { length } = leases.calls;
    expect(await lock.tryAcquireOrRenew({ reads: AbortSignal.abort() })).toBeFalse();
    expect(leases.calls).toHaveLength(length);
  });

  test("is logged each time that a leader's attempt fails, and forgotten once one succeeds", async () => {
    const { lock, leases, lines } = setup();
    await lock.tryAcquireOrRenew();
    leases.before = () => Promise.reject(new ApiError(500, "InternalError", "etcd is away"));
    for (let attempt = 0; attempt < 3; attempt++) expect(await lock.tryAcquireOrRenew()).toBeFalse();
    expect(lines.filter((line) => line.startsWith("E") && line.includes("etcd is away"))).toHaveLength(3);
    expect(lock.lastFailure).toBeDefined();
    leases.before = () => undefined;
    expect(await lock.tryAcquireOrRenew()).toBeTrue();
    expect(lock.lastFailure).toBeUndefined();
  });

  test("is logged once while a standby's fail alike, and again when one has succeeded in between", async () => {
    const { lock, leases, lines } = setup();
    leases.put(held("other"));
    const fails = (): void => {
      throw new ApiError(500, "InternalError", "it fails");
    };
    const errors = async (before: typeof leases.before): Promise<number> => {
      leases.before = before;
      await lock.tryAcquireOrRenew();
      return lines.filter((line) => line.startsWith("E") && line.includes("Failed to update lock")).length;
    };
    expect([await errors(fails), await errors(fails)]).toEqual([1, 1]);
    expect([await errors(() => undefined), await errors(fails)]).toEqual([1, 2]);
  });

  test("a race for a free lease has one winner", async () => {
    const leases = memoryLeases();
    const candidates = Array.from({ length: 8 }, (_, i) => setup(`candidate-${i}`, leases).lock);
    const results = await Promise.all(candidates.map((lock) => lock.tryAcquireOrRenew()));
    expect(results.filter(Boolean)).toHaveLength(1);
    const again = await Promise.all(candidates.map((lock) => lock.tryAcquireOrRenew()));
    expect(again).toEqual(results);
  });
});

describe("a renewal without a read", () => {
  test("exercise fast path after lock acquired", async () => {
    const { lock, leases } = setup();
    for (let i = 0; i < 3; i++) expect(await lock.tryAcquireOrRenew()).toBeTrue();
    expect(leases.calls).toEqual(["get", "create", "update", "update"]);
  });

  test("fallback to slow path after fast path fails", async () => {
    const { lock, leases } = setup();
    await lock.tryAcquireOrRenew();
    let failed = false;
    leases.before = (verb) => {
      if (verb !== "update" || failed) return;
      failed = true;
      throw new ApiError(409, "Conflict", "modified");
    };
    expect(await lock.tryAcquireOrRenew()).toBeTrue();
    expect(leases.calls).toEqual(["get", "create", "update", "get", "update"]);
  });

  test("no fast path once the lease has expired", async () => {
    const { lock, leases, clock } = setup();
    await lock.tryAcquireOrRenew();
    await clock.advance(15_001);
    await lock.tryAcquireOrRenew();
    expect(leases.calls).toEqual(["get", "create", "get", "update"]);
  });

  test("a lease that is deleted under its leader is recreated", async () => {
    const { lock, leases } = setup();
    await lock.tryAcquireOrRenew();
    leases.remove();
    expect(await lock.tryAcquireOrRenew()).toBeTrue();
    expect(leases.get()?.spec?.holderIdentity).toBe("me");
  });

  test("what others write into the lease's metadata stays, and their change costs no tenure", async () => {
    const { lock, leases } = setup();
    await lock.tryAcquireOrRenew();
    const { spec = {}, metadata = {} } = leases.get() ?? {};
    leases.put(spec, { ...metadata, labels: { theirs: "1" }, annotations: { note: "2" } });
    expect(await lock.tryAcquireOrRenew()).toBeTrue();
    expect(leases.get()).toMatchObject({
      metadata: { labels: { theirs: "1" }, annotations: { note: "2" } },
      spec: { leaseTransitions: 0, acquireTime: spec.acquireTime ?? "" },
    });
  });
});

describe("a Lease that a watch has shown to be released", () => {
  test("is acquired by one write, and is held since it was seen", async () => {
    const { lock, leases, clock, lines } = setup();
    leases.put(held("", { leaseTransitions: 4 }));
    await clock.advance(500);
    expect(await lock.tryTake(leases.get() ?? {}, 300)).toBeTrue();
    expect(leases.calls).toEqual(["update"]);
    expect(leases.get()?.spec).toMatchObject({ holderIdentity: "me", leaseTransitions: 5 });
    expect([lock.held, lock.availableSinceMs, lock.renewalAgeMs]).toEqual([true, 300, 0]);
    expect(lines.join("")).toContain("New leader elected");
  });

  test("is not acquired when it has been written since", async () => {
    const { lock, leases } = setup();
    leases.put(held(""));
    const seen = leases.get() ?? {};
    leases.put(held("other"));
    expect(await lock.tryTake(seen, 0)).toBeFalse();
    expect(leases.get()?.spec?.holderIdentity).toBe("other");
    expect([lock.held, lock.maybeHeld]).toEqual([false, false]);
  });

  test("ends a run of failures when it is acquired: one like them is logged again", async () => {
    const { lock, leases, lines } = setup();
    leases.put(held(""));
    const fail = async (): Promise<number> => {
      leases.before = () => {
        throw new ApiError(500, "InternalError", "it fails");
      };
      await lock.tryAcquireOrRenew();
      leases.before = () => undefined;
      return lines.filter((line) => line.startsWith("E") && line.includes("Failed to update lock")).length;
    };
    expect([await fail(), await fail()]).toEqual([1, 1]);
    expect(await lock.tryTake(leases.get() ?? {}, 0)).toBeTrue();
    expect(lock.lastFailure).toBeUndefined();
    await lock.release(10_000);
    expect(await fail()).toBe(2);
  });

  test("is read first where it has a holder, lacks its version, or may be ours already", async () => {
    const { lock, leases } = setup();
    leases.put(held("other"));
    expect(await lock.tryTake(leases.get() ?? {}, 0)).toBeFalse();
    expect(await lock.tryTake({ spec: held("") }, 0)).toBeFalse();
    expect(leases.calls).toEqual([]);
    leases.put(held("", { leaseDurationSeconds: 1 }));
    leases.before = (verb) => {
      if (verb === "update") throw new ApiError(504, "Timeout", "no answer");
    };
    await lock.tryAcquireOrRenew();
    leases.before = () => undefined;
    leases.calls.splice(0);
    expect(await lock.tryTake(leases.get() ?? {}, 0)).toBeFalse();
    expect(leases.calls).toEqual([]);
  });
});

describe("the time since which a lease was available", () => {
  test("is when it was read, before the write that acquires it", async () => {
    const { lock, leases, clock } = setup();
    expect(lock.availableSinceMs).toBe(Number.POSITIVE_INFINITY);
    leases.put(held("", { leaseDurationSeconds: 1 }));
    leases.before = (verb) => (verb === "update" ? clock.advance(700) : undefined);
    await clock.advance(100);
    expect(await lock.tryAcquireOrRenew()).toBeTrue();
    expect([lock.availableSinceMs, clock.monotonic()]).toEqual([100, 800]);
  });

  test("is when none was found, before it is created", async () => {
    const { lock, leases, clock } = setup();
    leases.before = (verb) => (verb === "create" ? clock.advance(700) : undefined);
    await clock.advance(100);
    expect(await lock.tryAcquireOrRenew()).toBeTrue();
    expect([lock.availableSinceMs, clock.monotonic()]).toEqual([100, 800]);
  });
});

describe("release", () => {
  test("clears the holder, keeps the transitions, and can be acquired at once", async () => {
    const { lock, leases } = setup();
    leases.put(held("me", { leaseTransitions: 3 }));
    await lock.tryAcquireOrRenew();
    expect(await lock.release(10_000)).toBeTrue();
    expect(leases.get()?.spec).toMatchObject({ holderIdentity: "", leaseDurationSeconds: 1, leaseTransitions: 3 });
    expect([lock.held, lock.renewalAgeMs]).toEqual([false, Number.POSITIVE_INFINITY]);
    expect(await setup("other", leases).lock.tryAcquireOrRenew()).toBeTrue();
  });

  test("takes one write, on the condition that the lease is as last renewed", async () => {
    const { lock, leases } = setup();
    await lock.tryAcquireOrRenew();
    leases.calls.splice(0);
    expect(await lock.release(10_000)).toBeTrue();
    expect(leases.calls).toEqual(["update"]);
    expect(leases.get()?.spec?.holderIdentity).toBe("");
  });

  test("reads first where the last write got no answer", async () => {
    const { lock, leases } = setup();
    await lock.tryAcquireOrRenew();
    leases.before = (verb) => {
      if (verb === "update") throw new ApiError(504, "Timeout", "no answer");
    };
    await lock.tryAcquireOrRenew();
    leases.before = () => undefined;
    leases.calls.splice(0);
    expect(await lock.release(10_000)).toBeTrue();
    expect(leases.calls).toEqual(["get", "update"]);
  });

  test("reads what was written meanwhile, and leaves a lease of another holder unchanged", async () => {
    const { lock, leases } = setup();
    await lock.tryAcquireOrRenew();
    leases.put(held("other"));
    leases.calls.splice(0);
    expect(await lock.release(10_000)).toBeTrue();
    expect(leases.calls).toEqual(["update", "get"]);
    expect(leases.get()?.spec?.holderIdentity).toBe("other");
    leases.remove();
    expect(await lock.release(10_000)).toBeTrue();
  });

  test("a release that meets a conflict is tried again", async () => {
    const { lock, leases } = setup();
    await lock.tryAcquireOrRenew();
    let conflicts = 2;
    leases.before = (verb) => {
      if (verb === "update" && conflicts-- > 0) throw new ApiError(409, "Conflict", "modified");
    };
    leases.calls.splice(0);
    expect(await lock.release(10_000)).toBeTrue();
    expect(leases.calls).toEqual(["update", "get", "update", "get", "update"]);
  });

  test("gives up within its budget when no answer comes", async () => {
    const { lock, leases, clock, lines } = setup();
    await lock.tryAcquireOrRenew();
    leases.before = () => new Promise(() => undefined);
    const released = lock.release(10_000);
    await clock.advance(0);
    await clock.advance(10_000);
    expect(await released).toBeFalse();
    expect(lines.join("")).toContain("it expires by itself");
  });
});

describe("a record", () => {
  test("survives the way to the wire and back", () => {
    const record = fc.record({
      holderIdentity: fc.string(),
      leaseDurationSeconds: fc.nat(),
      acquireTime: fc.nat().map(microTime),
      renewTime: fc.nat().map(microTime),
      leaseTransitions: fc.nat(),
    });
    fc.assert(
      fc.property(record, (one) => {
        const back = recordOf(leaseWith(one, name));
        expect(back).toEqual(one);
        expect(sameRecord(back, one)).toBeTrue();
      }),
      { seed: 15, numRuns: 200 },
    );
  });

  test("differs from one with any other field", () => {
    const one = recordOf({ metadata: name, spec: held("one") });
    expect(sameRecord(one, { ...one })).toBeTrue();
    for (const other of [
      { holderIdentity: "two" },
      { leaseDurationSeconds: 99 },
      { acquireTime: "2026-01-01T00:00:00.000001Z" },
      { renewTime: "2026-01-01T00:00:00.000001Z" },
      { leaseTransitions: 99 },
    ])
      expect([other, sameRecord(one, { ...one, ...other })]).toEqual([other, false]);
  });

  test("drops what plain election does not know", () => {
    const read: Lease = { metadata: name, spec: held("other", { strategy: "OldestEmulationVersion" }) };
    expect(leaseWith(recordOf(read), name, read).spec).not.toHaveProperty("strategy");
  });
});

describe("a Lease that was emptied but not released", () => {
  for (const [what, holder, waitMs] of [
    ["acquired a lease duration of ours later", {}, 15_000],
    ["waited for as long as its last holder asked for", { leaseDurationSeconds: 60 }, 60_000],
  ] as const)
    test.each([0, 15, 2_000_000_000])(
      `is ${what}, also when its own duration is %d s`,
      async (leaseDurationSeconds) => {
        const { lock, leases, clock } = setup();
        leases.put(held("other", holder));
        await lock.tryAcquireOrRenew();
        leases.put(held("", { leaseDurationSeconds }));
        expect(await lock.tryAcquireOrRenew()).toBeFalse();
        await clock.advance(waitMs);
        expect(await lock.tryAcquireOrRenew()).toBeFalse();
        await clock.advance(1);
        expect(await lock.tryAcquireOrRenew()).toBeTrue();
      },
    );

  test("is left to its last holder also by a candidate that starts then", async () => {
    const { lock, leases, clock } = setup();
    leases.put(held(""));
    expect(await lock.tryAcquireOrRenew()).toBeFalse();
    await clock.advance(15_000);
    expect(await lock.tryAcquireOrRenew()).toBeFalse();
    await clock.advance(1);
    expect(await lock.tryAcquireOrRenew()).toBeTrue();
  });

  test.each([
    [15_000, true],
    [15_001, false],
  ])("is renewed by its last holder %d ms after the last renewal: %p", async (ms, renewed) => {
    const { lock, leases, clock } = setup();
    await lock.tryAcquireOrRenew();
    await clock.advance(ms);
    // Perhaps another candidate has created, held and released it since: that ends without a transition, too.
    leases.put(held("", { leaseDurationSeconds: 1, leaseTransitions: 0 }));
    expect(await lock.tryAcquireOrRenew({ renewal: true })).toBe(renewed);
  });
});

describe("a deleted Lease", () => {
  test.each(["other", ""])(
    "is not created for a lease duration after it was found missing (holder %p)",
    async (last) => {
      const { lock, leases, clock } = setup();
      leases.put(held("other"));
      expect(await lock.tryAcquireOrRenew()).toBeFalse();
      // What this candidate has seen may be long out of date when the Lease is deleted.
      leases.put(held(last));
      leases.remove();
      await clock.advance(20_000);
      expect(await lock.tryAcquireOrRenew()).toBeFalse();
      await clock.advance(15_000);
      expect(await lock.tryAcquireOrRenew()).toBeFalse();
      expect(leases.get()).toBeUndefined();
      await clock.advance(1);
      expect(await lock.tryAcquireOrRenew()).toBeTrue();
      // A tenure of its own, not that of the last holder.
      expect(recordOf(leases.get() ?? {})).toMatchObject({
        holderIdentity: "me",
        leaseTransitions: 0,
        acquireTime: microTime(clock.now()),
      });
    },
  );

  test.each([1, 60])(
    "a deleted Lease whose holder asked for %d s is waited for as long as that, and no less than our own duration",
    async (seconds) => {
      const { lock, leases, clock } = setup();
      leases.put(held("other", { leaseDurationSeconds: seconds }));
      await lock.tryAcquireOrRenew();
      leases.remove();
      await lock.tryAcquireOrRenew();
      await clock.advance(Math.max(seconds, 15) * 1_000);
      expect(await lock.tryAcquireOrRenew()).toBeFalse();
      await clock.advance(1);
      expect(await lock.tryAcquireOrRenew()).toBeTrue();
    },
  );

  test("is not created at once by a former holder whose record has expired", async () => {
    const { lock, leases, clock } = setup();
    expect(await lock.tryAcquireOrRenew()).toBeTrue();
    await clock.advance(15_001);
    leases.remove();
    expect(await lock.tryAcquireOrRenew()).toBeFalse();
    expect(leases.get()).toBeUndefined();
  });

  test("a deleted Lease that is recreated and deleted again is waited for again", async () => {
    const { lock, leases, clock } = setup();
    for (let round = 0; round < 2; round++) {
      leases.put(held("other", { renewTime: microTime(round) }));
      expect(await lock.tryAcquireOrRenew()).toBeFalse();
      leases.remove();
      expect(await lock.tryAcquireOrRenew()).toBeFalse();
      await clock.advance(14_000);
      expect(await lock.tryAcquireOrRenew()).toBeFalse();
    }
  });

  test("is recreated by its holder with the same acquire time and transitions", async () => {
    const { lock, leases, clock } = setup();
    leases.put(held("me", { acquireTime: microTime(5), leaseTransitions: 7 }));
    expect(await lock.tryAcquireOrRenew()).toBeTrue();
    leases.remove();
    await clock.advance(2_000);
    expect(await lock.tryAcquireOrRenew()).toBeTrue();
    expect(leases.get()?.spec).toMatchObject({
      holderIdentity: "me",
      acquireTime: microTime(5),
      leaseTransitions: 7,
      renewTime: microTime(clock.now()),
    });
  });

  test("a deleted Lease that another candidate creates first is a lost race and not an error", async () => {
    const { lock, leases, lines } = setup();
    leases.before = (verb) => {
      if (verb === "create") leases.put(held("other"));
    };
    expect(await lock.tryAcquireOrRenew()).toBeFalse();
    expect(lock.maybeHeld).toBeFalse();
    expect(lock.heldByAnother).toBeTrue();
    expect(lines.join("")).toContain("written by another candidate first");
    expect(lines.filter((line) => line.startsWith("E"))).toEqual([]);
  });
});

describe("a write that gets no answer", () => {
  /** A lock whose writes are applied but never answered. */
  function unanswered(): Setup {
    const leases = memoryLeases();
    const { client } = leases;
    const lost = async <T>(write: Promise<T>): Promise<T> => {
      await write;
      return new Promise<T>(() => undefined);
    };
    const deaf = {
      ...client,
      create: ((kind, object) => lost(client.create(kind, object))) satisfies typeof client.create,
      replace: ((kind, object) => lost(client.replace(kind, object))) satisfies typeof client.replace,
    };
    return setup("me", { ...leases, client: deaf });
  }

  test("may have won the lease: a stop releases it", async () => {
    const { lock, leases, clock } = unanswered();
    const attempt = lock.tryAcquireOrRenew();
    await clock.advance(0);
    await clock.advance(5_000);
    expect(await attempt).toBeFalse();
    expect(recordOf(leases.get() ?? {}).holderIdentity).toBe("me");
    expect(lock.held).toBeFalse();
    expect(lock.maybeHeld).toBeTrue();
  });

  test("is recognized as ours when a later write meets it", async () => {
    const { lock, leases, clock } = setup();
    const { client } = leases;
    // The first create is applied only after the second one has read that the Lease is missing.
    const slow = Promise.withResolvers<void>();
    let creates = 0;
    leases.before = async (verb) => {
      if (verb === "create" && creates++ === 0) await slow.promise;
    };
    const first = lock.tryAcquireOrRenew();
    await clock.advance(0);
    await clock.advance(5_000);
    expect(await first).toBeFalse();
    leases.before = async (verb) => {
      if (verb !== "create") return;
      slow.resolve();
      await Bun.sleep(1);
    };
    expect(await lock.tryAcquireOrRenew()).toBeFalse();
    expect(recordOf(await client.get(kinds.Lease, name)).holderIdentity).toBe("me");
    // The read after the lost race finds the earlier write.
    expect(lock.held).toBeTrue();
  });

  test("may have won the lease for as long as it is unknown which write came first", async () => {
    const { lock, leases, clock } = setup();
    const slow = Promise.withResolvers<void>();
    leases.before = (verb) => (verb === "create" ? slow.promise : undefined);
    const first = lock.tryAcquireOrRenew();
    await clock.advance(0);
    await clock.advance(5_000);
    expect(await first).toBeFalse();
    let created = false;
    leases.before = async (verb) => {
      if (verb === "get" && created) throw new ApiError(500, "InternalError", "etcd is away");
      if (verb !== "create") return;
      created = true;
      slow.resolve();
      await Bun.sleep(1);
    };
    expect(await lock.tryAcquireOrRenew()).toBeFalse();
    expect([created, lock.held, lock.maybeHeld]).toEqual([true, false, true]);
  });

  test("is timed from when the request was sent, not from its response", async () => {
    const { lock, leases, clock } = setup();
    const answer = Promise.withResolvers<void>();
    leases.before = (verb) => (verb === "create" ? answer.promise : undefined);
    const attempt = lock.tryAcquireOrRenew();
    await clock.advance(0);
    await clock.advance(3_000);
    answer.resolve();
    expect(await attempt).toBeTrue();
    expect(lock.renewalAgeMs).toBe(3_000);
  });
});

describe("timings", () => {
  const good = { leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 2_000 };

  test("timings of upstream are accepted", () => {
    expect(leaseTimingProblems(good)).toEqual([]);
  });

  test("timings that are unsafe are rejected, all at once and naming the flags", () => {
    const given =
      "--leader-elect-lease-duration=10s, --leader-elect-renew-deadline=10s, --leader-elect-retry-period=9s";
    expect(leaseTimingProblems({ leaseDurationMs: 10_000, renewDeadlineMs: 10_000, retryPeriodMs: 9_000 })).toEqual([
      `--leader-elect-lease-duration must exceed --leader-elect-renew-deadline; got ${given}`,
      `--leader-elect-renew-deadline must exceed 1.2 times --leader-elect-retry-period; got ${given}`,
    ]);
    expect(leaseTimingProblems({ leaseDurationMs: 0, renewDeadlineMs: 0, retryPeriodMs: 0 })).toHaveLength(4);
    expect(leaseTimingProblems({ ...good, leaseDurationMs: Number.NaN })).toHaveLength(1);
  });

  test("compare the lease duration in the whole seconds that a Lease can hold", () => {
    expect(leaseTimingProblems({ leaseDurationMs: 15_900, renewDeadlineMs: 15_700, retryPeriodMs: 2_000 })).toEqual([
      "--leader-elect-lease-duration must exceed --leader-elect-renew-deadline; got --leader-elect-lease-duration=15.9s, --leader-elect-renew-deadline=15.7s, --leader-elect-retry-period=2s (a Lease counts whole seconds: 15s)",
    ]);
    expect(leaseTimingProblems({ leaseDurationMs: 15_900, renewDeadlineMs: 14_900, retryPeriodMs: 2_000 })).toEqual([]);
  });
});
