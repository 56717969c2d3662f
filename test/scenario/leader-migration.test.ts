import { beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { writeFile } from "node:fs/promises";

import { kinds } from "cloud-controller-host/sdk";

import { sampleOf } from "../../host/sandbox/testing/exposition.ts";
import { HostLab, shortLease } from "../kit/host-under-test.ts";
import { MigrationLab, mover, ours, shared, stayer, theirs } from "../kit/migration-lab.ts";
import { describeOnBoth } from "../kit/platform.ts";

setDefaultTimeout(120_000);

describeOnBoth("leader migration", (platform) => {
  const lab = new HostLab(platform);
  let two: MigrationLab;
  beforeEach(async () => void (two = await MigrationLab.open(lab, platform())));

  test("runs a migrated controller in the one component that holds the shared lock, there and back, reloads in between", async () => {
    const first = await two.start(theirs, "either");
    await two.moves(first);
    const second = await two.start(ours, "either");
    await two.waits(second, first);
    expect((await second.status()).locks[0]?.controllers).toEqual([stayer]);
    const before = await two.tenures(ours, theirs, shared);
    await two.reload(first, second);
    expect(await two.tenures(ours, theirs, shared)).toEqual(before);
    await two.moves(first);
    await two.waits(second, first);

    expect(await first.stop()).toBe(0);
    await two.moves(second);
    expect((await second.status()).locks[0]?.controllers).toEqual([stayer]);
    const moved = await two.tenures(ours, shared);
    await two.reload(second);
    await two.reload(second);
    await two.moves(second);
    expect(await two.tenures(ours, shared)).toEqual(moved);

    const third = await two.start(theirs, "either");
    await two.waits(third, second);
    expect(await second.stop()).toBe(0);
    await two.moves(third);
    expect((await two.runs(stayer)).running).toEqual([]);
  });

  test("hands a controller over when the config of either side changes, and never runs it in both", async () => {
    const before = await two.start(theirs, "itself");
    await two.moves(before);
    const without = await two.start(ours, "the other");
    await without.until("it runs", ({ running }) => running);
    expect(await without.status()).toMatchObject({
      controllers: [stayer],
      locks: [{ lease: ours, controllers: [stayer] }],
    });
    expect(without.lines(`Controller is left to ${theirs}`)).not.toEqual([]);
    expect(await without.stop()).toBe(0);

    const after = await two.start(ours, "itself");
    await two.waits(after, before);
    const idle = await two.start(theirs, "the other");
    expect(await before.stop()).toBe(0);
    await two.moves(after);
    await idle.until("it runs", ({ running }) => running);
    await two.reload(after, idle);
    await two.moves(after);
    expect(await idle.status()).toMatchObject({ controllers: [], locks: [{ lease: theirs, leading: true }] });
  });

  test("hands over only the shared lock when its holder is killed, once it has expired", async () => {
    const first = await two.start(theirs, "either", shortLease);
    await two.moves(first);
    const second = await two.start(ours, "either", shortLease);
    await two.waits(second, first);
    const before = await two.tenures(ours);
    first.signal("SIGKILL");
    await first.ended();
    const { identity } = await second.until("the mover runs", ({ locks }) => locks[1]?.controllers.length === 1);
    expect(await two.lease(shared)).toMatchObject({ holderIdentity: identity, leaseTransitions: 1 });
    expect(await two.tenures(ours)).toEqual(before);
  });

  test.each([ours, shared])(
    "leader migration that loses %s alone stops everything, releases the other lock and exits 1",
    async (lost) => {
      const host = await two.start(ours, "either", shortLease);
      await two.moves(host);
      await two.seize(lost);
      expect(await host.ended()).toBe(1);
      const kept = lost === ours ? shared : ours;
      expect([await two.holder(lost), await two.holder(kept)]).toEqual(["an-intruder", ""]);
      for (const name of [mover, stayer]) expect((await two.runs(name)).running).toEqual([]);
    },
  );

  test("goes to a second replica of the same component with both locks, one after the other", async () => {
    const first = await two.start(ours, "either");
    await two.moves(first);
    const second = await two.start(ours, "either");
    await second.until("it stands by", ({ generation, leading }) => generation === 1 && !leading);
    expect(await first.stop()).toBe(0);
    await two.moves(second);
    expect(await two.runs(stayer)).toEqual({ running: [second.pid], overlaps: [] });
    expect(await two.lease(ours)).toMatchObject({ leaseTransitions: 1 });
  });

  test("stops and reloads at once while waiting for the shared lock", async () => {
    const first = await two.start(theirs, "either");
    await two.moves(first);
    const second = await two.start(ours, "either");
    await two.waits(second, first);
    await two.reload(second);
    await two.waits(second, first);
    expect(await second.stop()).toBe(0);
    expect(await two.holder(ours)).toBe("");
    await two.moves(first);
  });

  test("keeps both locks while the cloud provider is disabled, and runs all controllers again afterwards", async () => {
    const host = await two.start(ours, "either");
    await two.moves(host);
    const before = await two.tenures(ours, shared);
    const { config, configText } = await lab.azure();
    await writeFile(config, `${configText}disableCloudProvider: true\n`);
    const { locks } = await host.until("all is stopped", ({ disabled, running }) => disabled && !running);
    expect(locks).toMatchObject([
      { leading: true, controllers: [] },
      { leading: true, controllers: [] },
    ]);
    await writeFile(config, `${configText}# enabled again\n`);
    await two.moves(host);
    expect(await two.tenures(ours, shared)).toEqual(before);
  });

  test("shows each lock in health, metrics, configz and events", async () => {
    const host = await two.start(ours, "either");
    await two.moves(host);
    const health = await (await host.get("/healthz?verbose")).text();
    for (const name of ["leaderElection", `leaderElection-${shared}`, mover, stayer])
      expect(health).toContain(`[+]${name} ok`);
    const metrics = await (await host.get("/metrics")).text();
    for (const name of [ours, shared]) expect(sampleOf(metrics, "leader_election_master_status", { name })).toBe(1);
    expect(await (await host.get("/configz")).json()).toMatchObject({
      "cloudcontrollermanager.config.k8s.io": {
        Generic: {
          LeaderMigrationEnabled: true,
          LeaderMigration: {
            leaderName: shared,
            resourceLock: "leases",
            controllerLeaders: [{ name: mover, component: "*" }],
          },
        },
      },
    });
    await host.eventually("an event is on each Lease", async () => {
      const events = await platform().admin.list(kinds.Event);
      const of = (name: string): boolean =>
        events.some(({ reason, involvedObject }) => reason === "LeaderElection" && involvedObject.name === name);
      return of(ours) && of(shared);
    });
  });
});
