import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { kinds } from "cloud-controller-host/sdk";

import { joinNodes } from "../kit/azure.ts";
import type { HostProcess } from "../kit/host-process.ts";
import { HostLab } from "../kit/host-under-test.ts";
import { describeOnBoth, describeOnSandbox, type Platform } from "../kit/platform.ts";

setDefaultTimeout(120_000);

const entry = (word: string): string => `
  import { greeting } from "./greeting.ts";
  import { defineController, kinds } from "cloud-controller-host/sdk";
  export default defineController({
    name: "greeter-controller",
    construct: () => (context) => {
      const queue = context.workqueue("greetings");
      context.informers.of(kinds.Node).handle({ added: (node) => queue.add(node.metadata?.name ?? "") });
      const sync = async (name) => context.log.info(greeting + " ${word} " + name);
      return { run: (signal) => queue.process({ workers: 1, signal, sync }) };
    },
  });`;

interface Greeting {
  readonly host: HostProcess;
  /** Of the greeter. */
  readonly folder: string;
  readonly node: string;
}

/** Starts hosts with a plugin that greets a node. */
function greeterLab(platform: () => Platform): (...more: readonly string[]) => Promise<Greeting> {
  const lab = new HostLab(platform);
  return async (...more) => {
    const azure = await lab.azure();
    const folder = join(azure.folder, "plugins", "greeter");
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, "plugin.ts"), entry("world"));
    await writeFile(join(folder, "greeting.ts"), 'export const greeting = "hello";');
    const [node = ""] = await joinNodes(platform().admin, azure, 1);
    const chosen = more.some((flag) => flag.startsWith("--controllers"));
    const flags = chosen ? more : ["--controllers=greeter-controller", ...more];
    const host = await lab.start({ flags: [`--plugin-dir=${dirname(folder)}`, ...flags] });
    await host.eventually("the first version greets", () => host.lines(`hello world ${node}`).length > 0);
    return { host, folder, node };
  };
}

describeOnBoth("a plugin's changed source", (platform) => {
  const startWithGreeter = greeterLab(platform);

  test("takes effect after SIGHUP, helper modules included", async () => {
    const { host, folder, node } = await startWithGreeter();
    await writeFile(join(folder, "plugin.ts"), entry("again"));
    await writeFile(join(folder, "greeting.ts"), 'export const greeting = "welcome";');
    host.signal("SIGHUP");
    await host.eventually("the second version greets", () => host.lines(`welcome again ${node}`).length > 0);
    expect(await host.status()).toMatchObject({ generation: 2, leading: true, reloads: 1 });
  });

  test("takes effect automatically with --watch-plugins, once for a burst of writes", async () => {
    const { host, folder, node } = await startWithGreeter("--watch-plugins");
    for (const word of ["a", "b", "c"]) {
      await writeFile(join(folder, "plugin.ts"), entry(word));
      await Bun.sleep(20);
    }
    await host.eventually("the last version greets", () => host.lines(`hello c ${node}`).length > 0);
    expect(await host.status()).toMatchObject({ generation: 2, leading: true });
  });

  test("a plugin's changed source with a syntax error keeps the running version and logs the reason", async () => {
    const { host, folder, node } = await startWithGreeter();
    await writeFile(join(folder, "plugin.ts"), "export default {{");
    host.signal("SIGHUP");
    const { lastRefusal } = await host.until("it is refused", (status) => status.lastRefusal !== undefined);
    expect(lastRefusal?.reason).toContain("greeter/plugin.ts cannot be imported");
    expect(await host.status()).toMatchObject({ generation: 1, running: true });
    await writeFile(join(folder, "plugin.ts"), entry("fixed"));
    host.signal("SIGHUP");
    await host.eventually("the fixed version greets", () => host.lines(`hello fixed ${node}`).length > 0);
  });

  test("a plugin's changed source with controller names that belong to two locks is rejected", async () => {
    await using migrations = await migrationFiles({ ushers: "usher", welcomers: "welcomer" });
    const { host, folder } = await startWithGreeter("--enable-leader-migration", ...migrations.flags);
    const renamed = entry("again").replace("construct:", 'aliases: ["usher", "welcomer"], construct:');
    await writeFile(join(folder, "plugin.ts"), renamed);
    host.signal("SIGHUP");
    const { lastRefusal } = await host.until("it is refused", (status) => status.lastRefusal !== undefined);
    expect(lastRefusal?.reason).toContain(
      "both ushers and welcomers name the controller greeter-controller; remove it from one of them",
    );
    expect(await host.status()).toMatchObject({ generation: 1, running: true });
  });

  test("a plugin's changed source that fails while running is rolled back to the previous version, under the same lease", async () => {
    const { host, folder, node } = await startWithGreeter();
    const before = await host.status();
    await writeFile(
      join(folder, "plugin.ts"),
      `import { defineController } from "cloud-controller-host/sdk";
       export default defineController({
         name: "greeter-controller",
         construct: () => () => ({ run: async () => { throw new Error("fails as it runs"); } }),
       });`,
    );
    host.signal("SIGHUP");
    await host.eventually("the failure is logged", () => host.lines("the previous generation runs again").length > 0);
    await host.eventually("the version before greets again", () => host.lines(`hello world ${node}`).length > 1);
    const after = await host.status();
    expect(after).toMatchObject({ running: true, leading: true, identity: before.identity });
    expect((await host.get("/healthz")).status).toBe(200);
  });
});

describeOnSandbox("a plugin folder that is removed while the host runs", (platform) => {
  const startWithGreeter = greeterLab(platform);
  const eventsOf = async (wanted: string): Promise<readonly string[]> =>
    (await platform().admin.list(kinds.Event)).flatMap(({ reason, message }) =>
      reason === wanted ? [message ?? ""] : [],
    );

  test.each([
    [
      "that flags name",
      (folder: string) => folder,
      (folder: string) =>
        `--controllers: the controller "greeter-controller" was in ${folder}, and no plugin has this name now; restore it, or restart without it`,
    ],
    [
      "of --plugin-dir",
      (folder: string) => dirname(folder),
      (folder: string) => `--plugin-dir=${dirname(folder)}: the folder cannot be read (ENOENT`,
    ],
  ])(
    "one %s: reloads are refused and name it, the generation continues, and the next reload succeeds once it is back",
    async (_, removed, reason) => {
      const { host, folder, node } = await startWithGreeter();
      const aside = join(dirname(folder), "../aside");
      await rename(removed(folder), aside);
      host.signal("SIGHUP");
      const refused = await host.until("it is refused", ({ lastRefusal }) => lastRefusal !== undefined);
      expect(refused.lastRefusal?.reason).toContain(reason(folder));
      expect(refused).toMatchObject({ generation: 1, running: true, leading: true, phase: "running", reloads: 0 });
      expect(refused.controllers).toContain("greeter-controller");
      expect(host.lines("Reload refused")).toEqual([
        expect.stringContaining(JSON.stringify(reason(folder)).slice(1, -1)),
      ]);
      await host.eventually("an event reports it", async () =>
        (await eventsOf("ReloadRefused")).some((message) => message.includes(reason(folder))),
      );
      expect(await (await host.get("/metrics")).text()).toMatch(/^host_last_reload_successful 0$/mu);
      await rename(aside, removed(folder));
      host.signal("SIGHUP");
      const restored = await host.until("nothing is refused", ({ lastRefusal }) => lastRefusal === undefined);
      expect([restored.generation, restored.reloads]).toEqual([1, 0]);
      await writeFile(join(folder, "plugin.ts"), entry("again"));
      host.signal("SIGHUP");
      await host.eventually("the changed one greets", () => host.lines(`hello again ${node}`).length > 0);
      expect(await host.status()).toMatchObject({ generation: 2, reloads: 1 });
    },
  );

  test("one that no flag names: the next generation lacks it, log and event name it, and it runs again once it is back", async () => {
    const { host, folder } = await startWithGreeter("--controllers=*", "--configure-cloud-routes=false");
    const aside = join(dirname(folder), "../aside");
    await rename(folder, aside);
    host.signal("SIGHUP");
    const without = await host.until("the next runs", ({ generation, running }) => generation === 2 && running);
    expect(without.controllers).toContain("cloud-node-controller");
    expect(without.controllers).not.toContain("greeter-controller");
    expect(without.lastRefusal).toBeUndefined();
    const named = `controller "greeter-controller", which was in ${folder}`;
    await host.eventually("an event names it", async () =>
      (await eventsOf("PluginRemoved")).includes(`continuing without the ${named}`),
    );
    expect(host.lines("Plugin removed; continuing without it")).toEqual([
      expect.stringContaining(`folder="${folder}"`),
    ]);
    await rename(aside, folder);
    host.signal("SIGHUP");
    await host.until("it runs again", ({ controllers }) => controllers.includes("greeter-controller"));
  });
});

/** A migration config for each lock, which is for the controller of that name; they go with the test. */
async function migrationFiles(
  locks: Readonly<Record<string, string>>,
): Promise<AsyncDisposable & { readonly flags: readonly string[] }> {
  const folder = await mkdtemp(join(tmpdir(), "migrations-"));
  const flags: string[] = [];
  for (const [leaderName, name] of Object.entries(locks)) {
    const path = join(folder, `${leaderName}.yaml`);
    const controllerLeaders = [{ name, component: "cloud-controller-manager" }];
    const apiVersion = "controllermanager.config.k8s.io/v1";
    await writeFile(
      path,
      JSON.stringify({ apiVersion, kind: "LeaderMigrationConfiguration", leaderName, controllerLeaders }),
    );
    flags.push(`--leader-migration-config=${path}`);
  }
  return { flags, [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) };
}
