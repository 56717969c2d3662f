import { afterEach, beforeEach, describe, expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../host/async/clock.ts";
import type { LoadedPlugins } from "../../../host/generation/plugins/load.ts";
import { Supervisor } from "../../../host/generation/supervisor.ts";
import type { ConfigSource } from "../../../host/generation/triggers/config-source.ts";
import { leading } from "./leading.ts";
import { main, SlotRig, untilAborted } from "./slot-rig.ts";

let rig: SlotRig;
let supervisor: Supervisor;
let text: string;
let plugins: LoadedPlugins;
let leader: AsyncDisposable;

beforeEach(async () => {
  // Longer than any wait of these tests: a step that ends sooner was abandoned.
  rig = await SlotRig.start({ initTimeout: 3_600_000 });
  text = "version: 1\n";
  plugins = rig.plugins([rig.controller("alpha", main)], "one");
  const source: Pick<ConfigSource, "description" | "read"> = { description: "a test", read: async () => text };
  const loader = { hash: async () => plugins.hash, load: async () => ({ ok: true as const, plugins }) };
  supervisor = new Supervisor(rig.scope, source, loader);
  leader = await leading(supervisor, plugins);
});
afterEach(async () => {
  await leader[Symbol.asyncDispose]();
  await rig[Symbol.asyncDispose]();
});

/** Requests a reload with this config, as a trigger does once it has settled. */
const change = (config: string): void => {
  text = config;
  supervisor.reload("a change", { text: config });
};

test("a lease that is about to be won has the caches of the generation read again", async () => {
  rig.watchedKinds = [kinds.Node];
  change("version: 2\n");
  await eventually("the second runs", () => supervisor.status.generation === 2);
  const requests = (): number => rig.api.requests.count({ resource: "nodes" });
  await eventually("it watches", () => requests() === 2);
  rig.heldSince = () => systemClock.monotonic();
  supervisor.leaseReleased();
  await eventually("it has listed and watches again", () => requests() === 4);
});

test("the first generation lists nothing before the Lease has been looked at", async () => {
  await using standby = await SlotRig.start();
  standby.watchedKinds = [kinds.Node];
  const first = standby.plugins([standby.controller("alpha", main)], "one");
  const loader = { hash: async () => first.hash, load: async () => ({ ok: true as const, plugins: first }) };
  await using stack = new AsyncDisposableStack();
  const other = new Supervisor(standby.scope, undefined, loader);
  stack.defer(() => other.close());
  const looked = Promise.withResolvers<void>();
  const begun = other.begin(first, new AbortController().signal, { looked: looked.promise });
  await Bun.sleep(100);
  expect(standby.api.requests.count({ resource: "nodes" })).toBe(0);
  looked.resolve();
  await begun;
  expect(standby.api.requests.count({ resource: "nodes" })).toBeGreaterThan(0);
});

describe("a reload", () => {
  test("superseded by a newer one while its cloud is created is abandoned at once and never runs", async () => {
    rig.createCloud = () => new Promise(() => undefined);
    change("version: 2\n");
    await eventually("the second is being created", () =>
      rig.outstanding.entries.some(({ kind }) => kind === "create"),
    );
    rig.createCloud = () => Promise.resolve();
    change("version: 3\n");
    await eventually("the third runs", () => supervisor.status.generation === 3);
    expect(supervisor.status).toMatchObject({ reloads: 1, lastRefusal: undefined });
    expect(rig.lines.filter((line) => line.includes("Reload restarted"))).toHaveLength(1);
    const started = rig.lines.filter((line) => line.includes("Reload started"));
    expect(started.map((line) => line.includes("a change"))).toEqual([true, true]);
  });

  test("a reload that waits for the old controllers runs as it is when a newer one is requested meanwhile", async () => {
    const release = Promise.withResolvers<void>();
    const slow = async (): Promise<void> => release.promise;
    plugins = rig.plugins([rig.controller("slow", main, slow)], "two");
    change("version: 1\n");
    await eventually("the slow one runs", () => rig.running.has("2 slow"));
    const aborted: boolean[] = [];
    const noted = async (signal: AbortSignal): Promise<void> => {
      aborted.push(signal.aborted);
      await untilAborted(signal);
    };
    plugins = rig.plugins([rig.controller("noted", main, noted)], "three");
    change("version: 1\n");
    await eventually("the slow one is asked to return", () => supervisor.status.phase === "draining");
    change("version: 2\n");
    release.resolve();
    await eventually("the newest runs", () => rig.running.has("4 noted"));
    expect(aborted).toEqual([false, false]);
  });

  test("is abandoned at once by a stop", async () => {
    rig.createCloud = () => new Promise(() => undefined);
    change("version: 2\n");
    await eventually("the second is being created", () =>
      rig.outstanding.entries.some(({ kind }) => kind === "create"),
    );
    await leader[Symbol.asyncDispose]();
    expect(supervisor.status.lastRefusal).toBeUndefined();
  });

  test("loads the text that was stable, whatever the file contains by then", async () => {
    supervisor.reload("a change", { text: "version: settled\n" });
    text = "version: half-writ";
    await eventually("it runs", () => supervisor.status.reloads === 1);
    const first = supervisor.status.configHash;
    supervisor.reload("again", { text: "version: settled\n" });
    await eventually("it is looked at", () => rig.lines.some((line) => line.includes("Reload skipped")));
    expect(supervisor.status).toMatchObject({ configHash: first, reloads: 1 });
  });

  test("happens only when config or plugins differ from what is running", async () => {
    change("version: 1\n");
    await eventually("it is skipped", () => rig.lines.some((line) => line.includes("Reload skipped")));
    expect(supervisor.status).toMatchObject({ generation: 1, reloads: 0 });
    plugins = rig.plugins([rig.controller("beta", main)], "two");
    change("version: 1\n");
    await eventually("the new plugins run", () => supervisor.status.controllers.includes("beta"));
    change("version: 2\n");
    await eventually("the new config runs", () => supervisor.status.reloads === 2);
  });

  test("leaves a record with the keys that it changed, never their values, and the time of each phase", async () => {
    change("version: 1\npassword: secret-a\nnested: { deep: 1 }\n");
    await eventually("it runs", () => supervisor.status.reloads === 1);
    plugins = rig.plugins([rig.controller("beta", main)], "two");
    change("version: 1\npassword: secret-b\nnested: { deep: 1 }\n");
    await eventually("it runs", () => supervisor.status.reloads === 2);
    expect(supervisor.status.disabled).toBe(false);
    change("version: 1\npassword: secret-b\nnested: { deep: 1 }\n");
    await eventually("it is skipped", () => rig.lines.some((line) => line.includes("Reload skipped")));
    change("disableCloudProvider: maybe");
    await eventually("it is refused", () => supervisor.status.lastRefusal !== undefined);
    const { recentReloads } = supervisor.status;
    expect(recentReloads.map(({ result, changed }) => [result, changed])).toEqual([
      ["reloaded", ["nested.deep", "password"]],
      ["reloaded", ["password", "plugins"]],
      ["refused", ["disableCloudProvider", "nested.deep", "password", "version"]],
    ]);
    for (const { preparing = -1 } of recentReloads) expect(preparing).toBeGreaterThanOrEqual(0);
    expect(recentReloads.map(({ swapping = -1 }) => swapping >= 0)).toEqual([true, true, false]);
    expect(JSON.stringify(supervisor.status)).not.toContain("secret-");
  });

  test("has a record of the latest 20 alone", async () => {
    for (let version = 2; version <= 24; version++) {
      supervisor.reload("a change", { text: `disableCloudProvider: bad-${version}` });
      await eventually("it is refused", () => supervisor.status.recentReloads.length >= Math.min(20, version - 1));
      await eventually(
        "it is over",
        () => rig.lines.filter((line) => line.includes("Reload refused")).length >= version - 1,
      );
    }
    expect(supervisor.status.recentReloads).toHaveLength(20);
  });

  test("a reload that is rejected keeps the running generation, even when the config was unreadable in between", async () => {
    supervisor.reload("a change", { unreadable: "a test: no such file" });
    await eventually("it is refused", () => supervisor.status.lastRefusal !== undefined);
    expect(supervisor.status).toMatchObject({ generation: 1, running: true });
    expect(rig.announced.at(-1)).toBe("ReloadRefused: the running generation continues: a test: no such file");
    change("version: 1\n");
    await eventually("the refusal is over", () => supervisor.status.lastRefusal === undefined);
    expect(supervisor.status).toMatchObject({ generation: 1, reloads: 0 });
  });

  test("a reload that is abandoned or rejected leaves the refused plugins of the running generation listed", async () => {
    const refused = [{ plugin: "/plugins/odd", reason: "boom at import" }];
    plugins = { ...rig.plugins([rig.controller("alpha", main)], "two"), refused };
    change("version: 2\n");
    await eventually("the second runs", () => supervisor.status.generation === 2);
    const listed = supervisor.status.refusedPlugins;
    expect(listed).toMatchObject(refused);
    plugins = rig.plugins([rig.controller("alpha", main)], "three");
    rig.createCloud = () => new Promise(() => undefined);
    change("version: 3\n");
    await eventually("the third is being created", () => rig.outstanding.entries.some(({ kind }) => kind === "create"));
    expect(supervisor.status.refusedPlugins).toEqual(listed);
    rig.createCloud = () => Promise.reject(new Error("no such cloud"));
    change("version: 4\n");
    await eventually("it is refused", () => supervisor.status.lastRefusal !== undefined);
    expect(supervisor.status.refusedPlugins).toEqual(listed);
    expect((await rig.metrics.render()).body).toMatch(/^host_refused_plugins 1$/m);
    rig.createCloud = () => Promise.resolve();
    change("version: 5\n");
    await eventually("the fixed one runs", () => supervisor.status.reloads === 2);
    expect(supervisor.status.refusedPlugins).toEqual([]);
    expect((await rig.metrics.render()).body).toMatch(/^host_refused_plugins 0$/m);
  });
});
