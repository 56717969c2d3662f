import { expect } from "bun:test";
import { appendFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { kinds, type Lease } from "cloud-controller-host/sdk";

import { defaultOptions } from "../../host/config/flags/options.ts";
import { hostPermissions } from "../../host/run/permissions.ts";
import azure from "../../plugins/azure-cloud/plugin.ts";
import type { HostProcess } from "./host-process.ts";
import type { HostLab } from "./host-under-test.ts";
import { MarkerPlugins } from "./marker-plugins.ts";
import type { Platform } from "./platform.ts";

/** The main locks of the two components. A host plays either: to itself, its own is always the first. */
export const [ours, theirs] = ["cloud-controller-manager", "kube-controller-manager"] as const;
type Side = typeof ours | typeof theirs;
export const shared = "migration-lock";
/** Both components have the first; only ours has the second. */
export const [mover, stayer] = ["mover-controller", "stayer-controller"] as const;

/** The component to which a side's config assigns the mover, in that side's names for the two. */
const owners = { either: "*", itself: ours, "the other": theirs } as const;
type Owner = keyof typeof owners;

/** Two components that share one lock, and a controller that moves between them. One for each test. */
export class MigrationLab {
  readonly #lab: HostLab;
  readonly #platform: Platform;
  readonly #markers: MarkerPlugins;

  static async open(lab: HostLab, platform: Platform): Promise<MigrationLab> {
    return new MigrationLab(lab, platform, await MarkerPlugins.write((await lab.azure()).folder, [mover, stayer]));
  }

  private constructor(lab: HostLab, platform: Platform, markers: MarkerPlugins) {
    this.#lab = lab;
    this.#platform = platform;
    this.#markers = markers;
  }

  /** Starts a component with the config of its side. */
  async start(side: Side, owner: Owner, flags: readonly string[] = []): Promise<HostProcess> {
    const { config, folder } = await this.#lab.azure();
    const file = join(folder, `${side} and ${owner}.yaml`);
    const lines = [
      "apiVersion: controllermanager.config.k8s.io/v1",
      "kind: LeaderMigrationConfiguration",
      `leaderName: ${shared}`,
      `controllerLeaders: [{ name: ${mover}, component: "${owners[owner]}" }]`,
    ];
    await writeFile(file, `${lines.join("\n")}\n`);
    return this.#lab.run({
      environment: this.#markers.environment,
      flags: [
        `--kubeconfig=${await this.#kubeconfig()}`,
        `--cloud-config=${config}`,
        "--enable-dynamic-reloading",
        `--plugin-dir=${this.#markers.directory}`,
        `--controllers=${side === ours ? `${mover},${stayer}` : mover}`,
        `--leader-elect-resource-name=${side}`,
        "--enable-leader-migration",
        `--leader-migration-config=${file}`,
        ...flags,
      ],
    });
  }

  /** Changes the cloud config, and waits until each of these runs by it. */
  async reload(...hosts: readonly HostProcess[]): Promise<void> {
    const before = await Promise.all(hosts.map(async (host) => (await host.status()).generation));
    await appendFile((await this.#lab.azure()).config, "# a change\n");
    for (const [index, host] of hosts.entries())
      await host.until(
        "the next generation runs",
        ({ generation, running }) => running && generation > (before[index] ?? 0),
      );
  }

  /** Waits until the mover runs in this host, and looks at all places where that shows. */
  async moves(host: HostProcess): Promise<void> {
    const { locks, identity } = await host.until("the mover runs here", (status) =>
      status.locks.some(({ controllers }) => controllers.includes(mover)),
    );
    expect(locks[1]).toEqual({ lease: shared, leading: true, leader: identity, controllers: [mover] });
    expect(await this.holder(shared)).toBe(identity);
    expect(await this.runs(mover)).toEqual({ running: [host.pid], overlaps: [] });
  }

  /** Waits until the host runs without the mover, as one that knows who has the shared lock. */
  async waits(host: HostProcess, leader: HostProcess): Promise<void> {
    const { identity } = await leader.status();
    const { locks } = await host.until(
      "it knows who has the shared lock",
      (status) => status.running && status.locks.some((lock) => lock.lease === shared && lock.leader === identity),
    );
    expect(locks[1]).toEqual({ lease: shared, leading: false, leader: identity, controllers: [] });
  }

  /** Reports where a controller runs now, and whether it has ever run twice at the same time. */
  runs(name: string): ReturnType<MarkerPlugins["of"]> {
    return this.#markers.of(name);
  }

  async lease(name: string): Promise<Lease["spec"]> {
    const found: Lease = await this.#platform.admin.get(kinds.Lease, { namespace: "kube-system", name });
    return found.spec;
  }

  async holder(name: string): Promise<string> {
    return (await this.lease(name))?.holderIdentity ?? "";
  }

  /** Parts of each lease that a reload may not change: all but the time of its renewal. */
  tenures(...names: readonly string[]): Promise<readonly unknown[]> {
    return Promise.all(
      names.map(async (name) => {
        const { renewTime: _, ...rest } = (await this.lease(name)) ?? {};
        return rest;
      }),
    );
  }

  /** Another holder takes the lease and never releases it. */
  async seize(name: string): Promise<void> {
    const spec = { holderIdentity: "an-intruder", leaseDurationSeconds: 3600 };
    await this.#platform.admin.patch(kinds.Lease, { namespace: "kube-system", name }, "merge", { spec });
  }

  /** Kubeconfig of a user with the roles of both sides, and no other permission. */
  #kubeconfig(): Promise<string> {
    const migration = { leaderName: shared, controllerLeaders: [{ name: mover, component: "*" }] };
    const sides = [ours, theirs].map((leaderElectResourceName) => ({ ...defaultOptions, leaderElectResourceName }));
    return this.#platform.kubeconfig([
      ...azure.permissions,
      ...sides.flatMap((options) => hostPermissions({ ...options, cloudConfig: "a file" }, [migration])),
    ]);
  }
}
