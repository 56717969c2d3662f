import { describe, expect, test } from "bun:test";

import { ApiError, defaultLoadBalancerName, type Logger, retryAfterOf } from "cloud-controller-host/sdk";
import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import { LockKeeper, ResourceLock } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/resource-lock.ts";
import { memoryLeases } from "../../../../host/process/leader-election/memory-leases.ts";
import { errorOf } from "../../../../kit/rejection.ts";
import { azureState, expectConverged } from "../azure-state.ts";
import { type Cluster, fast, openCluster, serviceOf } from "../cluster.ts";

const name = "aks-managed-resource-locker";
const previous = "aks-managed-resource-locker-previous-holder";

const leaseOf = ({ world }: Cluster) => world.leases.get(name);

/** Another component takes the lock, for so long. */
const takenByOther = ({ world }: Cluster, leaseDurationSeconds: number): void =>
  world.leases.put(
    { holderIdentity: "aks-rp", leaseDurationSeconds, renewTime: new Date(Date.now() - 60_000).toISOString() },
    { name },
  );

const holders = async ({ world }: Cluster, work: () => Promise<unknown>): Promise<readonly (string | undefined)[]> => {
  const seen: (string | undefined)[] = [];
  world.leases.before = (verb, body) => void (verb === "update" && seen.push(body?.spec?.holderIdentity));
  await work();
  return seen;
};

describe("the lock of Azure resources", () => {
  test("is taken before the first write and released after the last, with ours as the previous holder", async () => {
    await using cluster = await openCluster(2);
    const generation = await cluster.start();
    expect(await holders(cluster, () => cluster.ensure(generation, serviceOf("web")))).toEqual([
      "cloud-controller-manager",
      "",
    ]);
    expect(leaseOf(cluster)).toMatchObject({
      metadata: { annotations: { [previous]: "cloud-controller-manager" } },
      spec: { leaseDurationSeconds: 900, holderIdentity: "" },
    });
  });

  test("is not taken where nothing is to be written", async () => {
    await using cluster = await openCluster(2);
    const generation = await cluster.start();
    await cluster.ensure(generation, serviceOf("web"));
    cluster.world.leases.calls.splice(0);
    await cluster.ensure(generation, serviceOf("web"));
    await cluster.ensure(await cluster.start(), serviceOf("web"));
    expect(cluster.world.leases.calls).toEqual([]);
  });

  test("the lock of Azure resources that another component holds fails Services that need a write, names the holder, and writes nothing", async () => {
    await using cluster = await openCluster(2);
    const generation = await cluster.start();
    await cluster.ensure(generation, serviceOf("done"));
    takenByOther(cluster, 900);
    cluster.world.simulator.clearLog();
    const [failed, unchanged] = await Promise.all([
      errorOf(cluster.ensure(generation, serviceOf("web"))),
      errorOf(cluster.ensure(generation, serviceOf("done"))),
    ]);
    expect(String(failed)).toContain("EnsureLoadBalancer failed due to fail to lock azure resources.");
    expect(String(failed)).toContain("held by aks-rp");
    expect(unchanged).toBeUndefined();
    const removed = await errorOf(cluster.remove(generation, serviceOf("done")));
    expect(String(removed)).toContain("EnsureLoadBalancerDeleted failed due to fail to lock azure resources.");
    expect(cluster.writes()).toEqual([]);
  });

  test("is taken when another component has not renewed it in time, or the last process crashed with it", async () => {
    await using cluster = await openCluster(2);
    const generation = await cluster.start();
    takenByOther(cluster, 59);
    await cluster.ensure(generation, serviceOf("web"));
    const renewTime = new Date().toISOString();
    cluster.world.leases.put(
      { holderIdentity: "Cloud-Controller-Manager", leaseDurationSeconds: 900, renewTime },
      { name, annotations: { [previous]: "cloud-controller-manager" } },
    );
    const lease = leaseOf(cluster);
    expect(lease?.spec?.holderIdentity).toBe("Cloud-Controller-Manager");
    await cluster.ensure(generation, serviceOf("other"));
    expectConverged(cluster);
  });

  test("the lock of Azure resources that another component has held since makes everything be read again first", async () => {
    await using cluster = await openCluster(2);
    const generation = await cluster.start();
    await cluster.ensure(generation, serviceOf("web"));
    const { spec, metadata } = leaseOf(cluster) ?? {};
    cluster.world.leases.put({ ...spec }, { ...metadata, annotations: { [previous]: "aks-rp" } });
    cluster.world.simulator.clearLog();
    await cluster.ensure(generation, serviceOf("other"));
    const [first] =
      cluster.world.simulator.log.findIndex(({ method }) => method === "PUT") > 0 ? cluster.world.simulator.log : [];
    expect(first?.method).toBe("GET");
    const lists = cluster.world.simulator.log.filter(
      ({ method, path }) => method === "GET" && path.endsWith("/loadBalancers"),
    );
    expect(lists).toHaveLength(1);
    expectConverged(cluster);
  });

  test("the lock of Azure resources that cannot be released fails the Service, which the next attempt finds done", async () => {
    await using cluster = await openCluster(2);
    const generation = await cluster.start();
    const { leases } = cluster.world;
    leases.before = (verb, body) => {
      if (verb === "update" && body?.spec?.holderIdentity === "")
        throw new ApiError(409, "Conflict", "the object has been modified");
    };
    const failed = await errorOf(cluster.ensure(generation, serviceOf("web")));
    expect(String(failed)).toContain("EnsureLoadBalancer failed due to fail to unlock azure resources.");
    leases.before = () => undefined;
    cluster.world.simulator.clearLog();
    await cluster.ensure(generation, serviceOf("web"));
    expect(cluster.writes()).toEqual([]);
    await cluster.ensure(generation, serviceOf("other"));
    expect(leaseOf(cluster)?.spec?.holderIdentity).toBe("");
    expectConverged(cluster);
  });

  test("the lock of Azure resources that cannot be released after a failed write is reported beside the failure", async () => {
    await using cluster = await openCluster(2);
    const generation = await cluster.start();
    const bad = serviceOf("bad");
    const write = { method: "PUT", path: "/publicIPAddresses/" };
    cluster.world.leases.before = (verb, body) => {
      if (verb === "update" && body?.spec?.holderIdentity === "")
        throw new ApiError(409, "Conflict", "the object has been modified");
    };
    for (const [failure, delayMs] of [
      [{ status: 400, code: "InvalidResource", message: "Not like that." }, undefined],
      [{ status: 429, code: "TooManyRequests", message: "Later.", headers: { "retry-after": "7" } }, 7_000],
    ] as const) {
      cluster.world.simulator.failNext(write, failure);
      const error = await errorOf(cluster.ensure(generation, bad));
      expect(String(error)).toMatch(
        /EnsureLoadBalancer failed due to ARM .*, and when unlocking azure resources another error happened: .*has been modified/u,
      );
      expect(retryAfterOf(error)).toBe(delayMs);
    }
    const warnings = cluster.world.logged.filter(({ message }) => message === "Failed to unlock azure resources");
    expect(warnings).toHaveLength(2);
  });

  test("the lock of Azure resources that cannot be released fails no Service that was done while it was held, and is released in the end", async () => {
    await using cluster = await openCluster(2);
    const { simulator, leases } = cluster.world;
    const generation = await cluster.start({}, fast(20));
    const slow = serviceOf("slow");
    const hold = simulator.hold({ method: "PUT", path: `/kubernetes-${defaultLoadBalancerName(slow)}` });
    const ensured = errorOf(cluster.ensure(generation, slow));
    await eventually("it is being written", () => hold.waiting() === 1);
    let releases = 0;
    leases.before = (verb, body) => {
      if (verb !== "update" || body?.spec?.holderIdentity !== "") return;
      releases += 1;
      if (releases < 3) throw new ApiError(409, "Conflict", "the object has been modified");
    };
    expect(await errorOf(cluster.ensure(generation, serviceOf("other")))).toBeUndefined();
    expect(releases).toBe(0);
    hold.release();
    expect(String(await ensured)).toContain("fail to unlock azure resources");
    await eventually(
      "it is released without a change of any Service",
      () => leaseOf(cluster)?.spec?.holderIdentity === "",
    );
    expect(releases).toBe(3);
    await cluster.ensure(generation, slow);
    expectConverged(cluster);
  });

  test("the lock of Azure resources whose release failed once is released with the next sync of a Service, which writes nothing", async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start();
    let releases = 0;
    cluster.world.leases.before = (verb, body) => {
      if (verb === "update" && body?.spec?.holderIdentity === "" && releases++ === 0)
        throw new ApiError(500, "InternalError", "etcd is not there for a moment");
    };
    expect(await errorOf(cluster.ensure(generation, serviceOf("web")))).toBeDefined();
    expect(await errorOf(cluster.ensure(generation, serviceOf("web")))).toBeUndefined();
    expect(leaseOf(cluster)?.spec?.holderIdentity).toBe("");
  });

  test("is renewed while a write is in flight for longer than the lock lasts", async () => {
    await using cluster = await openCluster(1);
    // The lock lasts for 1.8 seconds.
    const clock = { ...fast(500), now: () => Math.round(performance.timeOrigin + performance.now() * 500) };
    const hold = cluster.world.simulator.hold({ method: "PUT", path: "/publicIPAddresses/" });
    const generation = await cluster.start({}, clock);
    const ensured = cluster.ensure(generation, serviceOf("web"));
    await eventually("it is being written", () => hold.waiting() === 1);
    const renewals = async (): Promise<number> => {
      cluster.world.leases.calls.splice(0);
      await Bun.sleep(2_500);
      return cluster.world.leases.calls.length;
    };
    expect(await renewals()).toBeGreaterThan(0);
    expect(leaseOf(cluster)?.spec?.holderIdentity).toBe("cloud-controller-manager");
    hold.release();
    await ensured;
    // A renewal that was under way makes the first release a conflict, which is tried again.
    await eventually("the lock is released", () => leaseOf(cluster)?.spec?.holderIdentity === "");
  });

  for (const verb of ["get", "create", "update"])
    test(`the lock of Azure resources that cannot be had because of a failed ${verb} of its Lease fails the Service before any write`, async () => {
      await using cluster = await openCluster(2);
      const generation = await cluster.start();
      cluster.world.leases.before = (requested) => {
        if (requested === verb) throw new ApiError(403, "Forbidden", "not allowed");
      };
      expect(String(await errorOf(cluster.ensure(generation, serviceOf("web"))))).toContain("not allowed");
      expect(azureState(cluster.world.simulator).publicIPs).toEqual([]);
      cluster.world.leases.before = () => undefined;
      await cluster.ensure(generation, serviceOf("web"));
      expectConverged(cluster);
    });

  test("is held until a write that no Service waits for ends", async () => {
    await using cluster = await openCluster(2);
    let nowMs = 0;
    const generation = await cluster.start(
      {},
      {
        now: () => Date.now(),
        monotonic: () => (nowMs += 100),
        sleep: () => Bun.sleep(1),
      },
    );
    const hold = cluster.world.simulator.hold({ method: "PUT", path: "/virtualMachines/1" });
    await cluster.ensure(generation, serviceOf("web"));
    expect(leaseOf(cluster)?.spec?.holderIdentity).toBe("cloud-controller-manager");
    hold.release();
    while (leaseOf(cluster)?.spec?.holderIdentity !== "") await Bun.sleep(1);
    expectConverged(cluster);
  });

  test("is held until a write ends for which its Service alone waits", async () => {
    await using cluster = await openCluster(2);
    const generation = await cluster.start({}, fast(100));
    const hold = cluster.world.simulator.hold({ method: "PUT", path: "publicIPAddresses/" });
    const ensured = cluster.ensure(generation, serviceOf("web"));
    await cluster.ensure(generation, serviceOf("inside", { annotations: { "azure-load-balancer-internal": "true" } }));
    expect(hold.waiting()).toBe(1);
    expect(leaseOf(cluster)?.spec?.holderIdentity).toBe("cloud-controller-manager");
    hold.release();
    await ensured;
    await eventually("it is released", () => leaseOf(cluster)?.spec?.holderIdentity === "");
  });
});

describe("the lock of a process", () => {
  const ours = "cloud-controller-manager";
  const ignore = (): void => undefined;
  const log: Logger = { debug: ignore, info: ignore, warn: ignore, error: ignore, with: () => log };
  const setUp = () => {
    const [leases, clock] = [memoryLeases(), manualClock()];
    const lock = new ResourceLock({ client: leases.client, clock: { ...clock, sleep: () => Promise.resolve() } });
    /** The error of a release whose write the API server answers like that. */
    const releaseAnswered = async (...answer: ConstructorParameters<typeof ApiError>): Promise<unknown> => {
      leases.before = (verb) => {
        if (verb === "update") throw new ApiError(...answer);
      };
      const error = await errorOf(lock.release());
      leases.before = () => undefined;
      return error;
    };
    const takenByAnother = (): void => {
      const renewTime = new Date(clock.now()).toISOString();
      leases.put({ holderIdentity: "aks-rp", leaseDurationSeconds: 900, renewTime }, { name });
    };
    return { leases, clock, lock, spec: () => leases.get(name)?.spec, releaseAnswered, takenByAnother };
  };

  test("is taken once, and released once", async () => {
    const { lock, leases, spec } = setUp();
    expect(lock.isLeft).toBe(false);
    await lock.take();
    const { calls } = leases;
    const taken = calls.length;
    await lock.take();
    expect(calls).toHaveLength(taken);
    expect([lock.isLeft, spec()?.holderIdentity]).toEqual([true, ours]);
    await lock.release();
    expect([lock.isLeft, spec()?.holderIdentity]).toEqual([false, ""]);
  });

  describe("among deployments", () => {
    const usersIn = (leases: ReturnType<typeof memoryLeases>): string | undefined =>
      leases.get(name)?.metadata?.annotations?.["cloud-controller-host/held-by-shards"];
    const lockOf = ({ client }: ReturnType<typeof memoryLeases>, of: { shard?: string; own?: string }) => {
      const clock = { ...manualClock(), sleep: () => Promise.resolve() };
      return new ResourceLock({ client, clock, ...of, ...(of.own !== undefined && { shards: { own: of.own } }) });
    };

    test("the lock of shards is released by the last of them, and a conflict between them is not a failure", async () => {
      const { leases, spec } = setUp();
      const [a, b] = [lockOf(leases, { shard: "a" }), lockOf(leases, { shard: "", own: "main" })];
      await Promise.all([a.take(), b.take()]);
      expect(usersIn(leases)?.split(",").toSorted()).toEqual(["a", "main"]);
      let conflicts = 3;
      leases.before = (verb) => {
        if (verb === "update" && conflicts-- > 0) throw new ApiError(409, "Conflict", "the object has been modified");
      };
      await a.release();
      expect([usersIn(leases), spec()?.holderIdentity, conflicts]).toEqual(["main", ours, -1]);
      await b.release();
      expect([usersIn(leases), spec()?.holderIdentity]).toEqual([undefined, ""]);
    });

    test("two deployments without a shard's name hold it under the names of their Leases", async () => {
      const { leases, spec } = setUp();
      const [one, other] = ["one", "other"].map((own) => lockOf(leases, { shard: "", own }));
      await one?.take();
      await other?.take();
      await one?.release();
      expect([usersIn(leases), spec()?.holderIdentity]).toEqual(["other", ours]);
      await other?.release();
      expect([usersIn(leases), spec()?.holderIdentity]).toEqual([undefined, ""]);
    });

    test.each([
      ["before", [0, 1]],
      ["after", [1, 0]],
    ] as const)(
      "the one that serves all other Services has it until it releases it, when it took it %s another one",
      async (_when, [first, second]) => {
        const { leases, spec } = setUp();
        const both = [lockOf(leases, {}), lockOf(leases, { shard: "", own: "other" })];
        await both[first]?.take();
        await both[second]?.take();
        await both[1]?.release();
        expect([usersIn(leases), spec()?.holderIdentity]).toEqual([undefined, ours]);
        await both[1]?.take();
        await both[0]?.release();
        expect([usersIn(leases), spec()?.holderIdentity]).toEqual(["other", ours]);
        await both[1]?.release();
        expect([usersIn(leases), spec()?.holderIdentity]).toEqual([undefined, ""]);
      },
    );

    test("alone, the one that serves all Services writes what upstream does", async () => {
      const { leases, spec } = setUp();
      const lock = lockOf(leases, { own: "main" });
      await lock.take();
      expect([leases.get(name)?.metadata?.annotations, spec()?.holderIdentity]).toEqual([undefined, ours]);
      leases.calls.splice(0);
      await lock.release();
      expect(leases.calls).toHaveLength(1);
      expect(leases.get(name)?.metadata?.annotations).toEqual({ [previous]: ours });
    });
  });

  test("the lock of a process whose release failed is left, and released from the Lease as it is then", async () => {
    const { lock, leases, spec, releaseAnswered } = setUp();
    await lock.take();
    expect(await releaseAnswered(409, "Conflict", "the object has been modified")).toBeDefined();
    expect([lock.isLeft, spec()?.holderIdentity]).toEqual([true, ours]);
    const { spec: now, metadata } = leases.get(name) ?? {};
    leases.put({ ...now }, { ...metadata, annotations: { theirs: "kept" } });
    await lock.release();
    expect([lock.isLeft, spec()?.holderIdentity]).toEqual([false, ""]);
    expect(leases.get(name)?.metadata?.annotations).toMatchObject({ theirs: "kept" });
  });

  test("the lock of a process whose release failed is not taken from another component that holds it since", async () => {
    const { lock, spec, releaseAnswered, takenByAnother } = setUp();
    await lock.take();
    expect(await releaseAnswered(500, "InternalError", "not now")).toBeDefined();
    takenByAnother();
    await lock.release();
    expect([lock.isLeft, spec()?.holderIdentity]).toEqual([false, "aks-rp"]);
  });

  test("is requested again after a release that failed: another component may hold it since", async () => {
    const { lock, releaseAnswered, takenByAnother } = setUp();
    await lock.take();
    expect(await releaseAnswered(500, "InternalError", "not now")).toBeDefined();
    takenByAnother();
    expect(await errorOf(lock.take())).toMatchObject({ code: "ResourcesLocked" });
  });

  test("is released with one request again once it was taken after a release that failed", async () => {
    const { lock, leases, releaseAnswered } = setUp();
    await lock.take();
    expect(await releaseAnswered(500, "InternalError", "not now")).toBeDefined();
    await lock.take();
    leases.calls.splice(0);
    await lock.release();
    expect(leases.calls).toHaveLength(1);
  });

  test("outdates what is known of Azure once where another component has held it before, and never with a new Lease", async () => {
    const { lock, leases, clock } = setUp();
    expect(await lock.take()).toBe(false);
    await lock.release();
    leases.put({ holderIdentity: "", leaseDurationSeconds: 900 }, { name, annotations: { [previous]: "aks-rp" } });
    expect(await lock.take()).toBe(true);
    await clock.advance(460_000);
    expect(await lock.take()).toBe(false);
  });

  test("is renewed in the second half of its time, so that it does not expire under a write", async () => {
    const { lock, clock, spec } = setUp();
    await lock.take();
    const first = spec()?.renewTime;
    await clock.advance(449_000);
    await lock.take();
    expect(spec()?.renewTime).toBe(first);
    await clock.advance(2_000);
    await lock.take();
    expect(Date.parse(spec()?.renewTime ?? "") - Date.parse(first ?? "")).toBe(451_000);
  });

  test("is still good for its Services when a renewal fails, and the first pause after a failed release is as short as ever", async () => {
    const { lock, leases, clock } = setUp();
    await lock.take();
    const pauses: number[] = [];
    const keeper = new LockKeeper(lock, { log }, (ms) => void pauses.push(ms));
    leases.before = () => {
      throw new ApiError(403, "Forbidden", "no");
    };
    await clock.advance(460_000);
    expect(await keeper.keep({ isWriting: true, isIdle: false })).toBeUndefined();
    expect(await keeper.keep({ isWriting: false, isIdle: true })).toMatchObject({ code: "ResourcesLocked" });
    expect(pauses).toEqual([300_000, 5_000]);
  });

  test("is released again after pauses of 5 s to a minute, which start over after a release that succeeded", async () => {
    const { lock, leases } = setUp();
    const pauses: number[] = [];
    const keeper = new LockKeeper(lock, { log }, (ms) => void pauses.push(ms));
    const release = () => keeper.keep({ isWriting: false, isIdle: true });
    const failing = (): never => {
      throw new ApiError(403, "Forbidden", "no");
    };
    await lock.take();
    leases.before = failing;
    for (let attempts = 0; attempts < 6; attempts += 1) await release();
    leases.before = () => undefined;
    expect(await release()).toBeUndefined();
    await lock.take();
    leases.before = failing;
    await release();
    expect(pauses).toEqual([5_000, 10_000, 20_000, 40_000, 60_000, 60_000, 5_000]);
  });

  test("is held when a write begins while the lock is being released", async () => {
    const { lock, leases, clock, spec } = setUp();
    await lock.take();
    const releasing = Promise.withResolvers<void>();
    leases.before = (verb, body) =>
      verb === "update" && body?.spec?.holderIdentity === "" ? releasing.promise : undefined;
    const both = Promise.all([lock.release(), lock.take()]);
    await clock.advance(0);
    releasing.resolve();
    await both;
    expect(spec()?.holderIdentity).toBe(ours);
  });

  test("is left to another component that took it after it had expired, and costs no request from then on", async () => {
    const { lock, leases, clock, spec } = setUp();
    await lock.take();
    await clock.advance(901_000);
    leases.calls.splice(0);
    await lock.release();
    expect(leases.calls).toEqual([]);
    await lock.take();
    await clock.advance(901_000);
    leases.put({ holderIdentity: "aks-rp", leaseDurationSeconds: 900 }, { name });
    await lock.release();
    expect(spec()?.holderIdentity).toBe("aks-rp");
  });

  test("keeps the annotations that others have set", async () => {
    const { lock, leases } = setUp();
    leases.put({ holderIdentity: "", leaseDurationSeconds: 900 }, { name, annotations: { theirs: "kept" } });
    await lock.take();
    await lock.release();
    expect(leases.get(name)?.metadata?.annotations).toEqual({ theirs: "kept", [previous]: ours });
  });

  test("the lock of a process whose Lease was deleted meanwhile is released, and taken again", async () => {
    const { lock, spec, releaseAnswered } = setUp();
    await lock.take();
    expect(await releaseAnswered(404, "NotFound", "not found")).toBeUndefined();
    await lock.take();
    expect(spec()?.holderIdentity).toBe(ours);
  });
});
