import { beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { appendFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { kinds, type Lease } from "cloud-controller-host/sdk";

import { defaultOptions } from "../../host/config/options.ts";
import { hostPermissions } from "../../host/permissions.ts";
import azure from "../../plugins/azure-cloud/plugin.ts";
import { sampleOf } from "../kit/exposition.ts";
import type { HostProcess } from "../kit/host-process.ts";
import { HostLab, shortLease } from "../kit/host-under-test.ts";
import { MarkerPlugins } from "../kit/marker-plugins.ts";
import { describeOnBoth } from "../kit/platform.ts";

setDefaultTimeout(120_000);

/** The main locks of the two components. A host plays both: what it calls itself is always the first. */
const [ours, theirs] = ["cloud-controller-manager", "kube-controller-manager"] as const;
type Side = typeof ours | typeof theirs;
const shared = "migration-lock";
/** Both components have the one; only ours has the other. */
const [mover, stayer] = ["mover-controller", "stayer-controller"] as const;

/** Whom a side's config gives the mover to, in the names that this side has for the two. */
const owners = { either: "*", itself: ours, "the other": theirs } as const;
type Owner = keyof typeof owners;

const migrationFile = (leaderName: string, name: string, owner: Owner): string => `
apiVersion: controllermanager.config.k8s.io/v1
kind: LeaderMigrationConfiguration
leaderName: ${leaderName}
controllerLeaders:
  - name: ${name}
    component: "${owners[owner]}"
`;

describeOnBoth("leader migration", (platform) => {
  const lab = new HostLab(platform);
  let markers: MarkerPlugins;
  beforeEach(async () => void (markers = await MarkerPlugins.write((await lab.azure()).folder, [mover, stayer])));

  /** What the roles of both sides allow, and no more. */
  const kubeconfig = (): Promise<string> =>
    platform().kubeconfig([
      ...azure.permissions,
      ...[ours, theirs].flatMap((leaderElectResourceName) =>
        hostPermissions({ ...defaultOptions, cloudConfig: "a file", leaderElectResourceName }, [
          { leaderName: shared, controllerLeaders: [{ name: mover, component: "*" }] },
        ]),
      ),
    ]);

  async function start(side: Side, owner: Owner, flags: readonly string[] = []): Promise<HostProcess> {
    const { config, folder } = await lab.azure();
    const file = join(folder, `${side} and ${owner}.yaml`);
    await writeFile(file, migrationFile(shared, mover, owner));
    return lab.run({
      environment: markers.environment,
      flags: [
        `--kubeconfig=${await kubeconfig()}`,
        `--cloud-config=${config}`,
        "--enable-dynamic-reloading",
        `--plugin-dir=${markers.directory}`,
        `--controllers=${side === ours ? `${mover},${stayer}` : mover}`,
        `--leader-elect-resource-name=${side}`,
        "--enable-leader-migration",
        `--leader-migration-config=${file}`,
        ...flags,
      ],
    });
  }

  const lease = async (name: string): Promise<Lease["spec"]> => {
    const found: Lease = await platform().admin.get(kinds.Lease, { namespace: "kube-system", name });
    return found.spec;
  };
  const holder = async (name: string): Promise<string> => (await lease(name))?.holderIdentity ?? "";
  /** What a reload may not change: all of a lease but the time of its renewal. */
  const tenures = (names: readonly string[]): Promise<readonly unknown[]> =>
    Promise.all(
      names.map(async (name) => {
        const { renewTime: _, ...rest } = (await lease(name)) ?? {};
        return rest;
      }),
    );

  async function seize(name: string): Promise<void> {
    const spec = { holderIdentity: "an-intruder", leaseDurationSeconds: 3600 };
    await platform().admin.patch(kinds.Lease, { namespace: "kube-system", name }, "merge", { spec });
  }

  const leads = (host: HostProcess): Promise<unknown> =>
    host.until("it leads", ({ leading, running }) => leading && running);

  /** Waits until the mover runs in this host, and looks at all places where that shows. */
  async function moves(host: HostProcess): Promise<void> {
    const { locks, identity } = await host.until("the mover runs here", (status) =>
      status.locks.some(({ controllers }) => controllers.includes(mover)),
    );
    expect(locks[1]).toEqual({ lease: shared, leading: true, leader: identity, controllers: [mover] });
    expect(await holder(shared)).toBe(identity);
    expect(await markers.of(mover)).toEqual({ running: [host.pid], overlaps: [] });
  }

  /** Waits until the host leads without the mover, as one that waits for its turn. */
  async function waits(host: HostProcess, leader: HostProcess): Promise<void> {
    const { identity } = await leader.status();
    const { locks } = await host.until(
      "it knows who has the shared lock",
      (status) => status.running && status.locks.some((lock) => lock.lease === shared && lock.leader === identity),
    );
    expect(locks[1]).toEqual({ lease: shared, leading: false, leader: identity, controllers: [] });
  }

  async function reload(...hosts: readonly HostProcess[]): Promise<void> {
    const before = await Promise.all(hosts.map(async (host) => (await host.status()).generation));
    await appendFile((await lab.azure()).config, "# a change\n");
    for (const [index, host] of hosts.entries())
      await host.until(
        "the next generation runs",
        ({ generation, running }) => running && generation > (before[index] ?? 0),
      );
  }

  test("runs a migrated controller in the one component that holds the shared lock, there and back, reloads in between", async () => {
    const first = await start(theirs, "either");
    await moves(first);
    const second = await start(ours, "either");
    await waits(second, first);
    expect((await second.status()).locks[0]?.controllers).toEqual([stayer]);
    const before = await tenures([ours, theirs, shared]);
    await reload(first, second);
    expect(await tenures([ours, theirs, shared])).toEqual(before);
    await moves(first);
    await waits(second, first);

    expect(await first.stop()).toBe(0);
    await moves(second);
    expect((await second.status()).locks[0]?.controllers).toEqual([stayer]);
    const moved = await tenures([ours, shared]);
    await reload(second);
    await reload(second);
    await moves(second);
    expect(await tenures([ours, shared])).toEqual(moved);

    const third = await start(theirs, "either");
    await waits(third, second);
    expect(await second.stop()).toBe(0);
    await moves(third);
    expect((await markers.of(stayer)).running).toEqual([]);
  });

  test("hands a controller over when the config of either side does, and never runs it in both or on its own lock", async () => {
    const before = await start(theirs, "itself");
    await moves(before);
    const without = await start(ours, "the other");
    await leads(without);
    expect(await without.status()).toMatchObject({
      controllers: [stayer],
      locks: [{ lease: ours, controllers: [stayer] }],
    });
    expect(without.lines(`Controller is left to ${theirs}`)).not.toEqual([]);
    expect(await without.stop()).toBe(0);

    const after = await start(ours, "itself");
    await waits(after, before);
    const idle = await start(theirs, "the other");
    expect(await before.stop()).toBe(0);
    await moves(after);
    await leads(idle);
    await reload(after, idle);
    await moves(after);
    expect(await idle.status()).toMatchObject({ controllers: [], locks: [{ lease: theirs, leading: true }] });
  });

  test("hands over the shared lock alone when its holder is killed, once that has run out", async () => {
    const first = await start(theirs, "either", shortLease);
    await moves(first);
    const second = await start(ours, "either", shortLease);
    await waits(second, first);
    const before = await tenures([ours]);
    first.signal("SIGKILL");
    await first.ended();
    const { identity } = await second.until("the mover runs", ({ locks }) => locks[1]?.controllers.length === 1);
    expect(await lease(shared)).toMatchObject({ holderIdentity: identity, leaseTransitions: 1 });
    expect(await tenures([ours])).toEqual(before);
  });

  test.each([ours, shared])(
    "that loses %s alone stops everything, gives the other lock back and exits 1",
    async (lost) => {
      const host = await start(ours, "either", shortLease);
      await moves(host);
      await seize(lost);
      expect(await host.ended()).toBe(1);
      const kept = lost === ours ? shared : ours;
      expect([await holder(lost), await holder(kept)]).toEqual(["an-intruder", ""]);
      for (const name of [mover, stayer]) expect((await markers.of(name)).running).toEqual([]);
    },
  );

  test("goes to a second replica of the same component with both locks, one after the other", async () => {
    const first = await start(ours, "either");
    await moves(first);
    const second = await start(ours, "either");
    await second.until("it stands by", ({ generation, leading }) => generation === 1 && !leading);
    expect(await first.stop()).toBe(0);
    await moves(second);
    expect(await markers.of(stayer)).toEqual({ running: [second.pid], overlaps: [] });
    expect(await lease(ours)).toMatchObject({ leaseTransitions: 1 });
  });

  test("lets a host that waits for the shared lock stop at once, and reload without it", async () => {
    const first = await start(theirs, "either");
    await moves(first);
    const second = await start(ours, "either");
    await waits(second, first);
    await reload(second);
    await waits(second, first);
    expect(await second.stop()).toBe(0);
    expect(await holder(ours)).toBe("");
    await moves(first);
  });

  test("keeps both locks while the cloud provider is disabled, and runs all again afterwards", async () => {
    const host = await start(ours, "either");
    await moves(host);
    const before = await tenures([ours, shared]);
    const { config, configText } = await lab.azure();
    await writeFile(config, `${configText}disableCloudProvider: true\n`);
    const { locks } = await host.until("all is stopped", ({ disabled, running }) => disabled && !running);
    expect(locks).toMatchObject([
      { leading: true, controllers: [] },
      { leading: true, controllers: [] },
    ]);
    await writeFile(config, `${configText}# enabled again\n`);
    await moves(host);
    expect(await tenures([ours, shared])).toEqual(before);
  });

  test("shows each lock in health, metrics, configz and events", async () => {
    const host = await start(ours, "either");
    await moves(host);
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
