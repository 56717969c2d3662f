import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { constants } from "node:os";
import { join } from "node:path";

import { kinds, type Lease } from "cloud-controller-host/sdk";

import type { HostProcess } from "../kit/host-process.ts";
import { HostLab, shortLease, steadyLease } from "../kit/host-under-test.ts";
import { describeOnBoth, describeOnSandbox, type Platform } from "../kit/platform.ts";

setDefaultTimeout(120_000);

const idle = 'return { run: (signal) => new Promise((done) => signal.addEventListener("abort", () => done())) };';
const plugin = (name: string, body: string, top = ""): string => `
  import { defineController, defineKind, kinds } from "cloud-controller-host/sdk";
  ${top}
  export default defineController({ name: "${name}", construct: () => async (context) => { ${body} } });`;
const unsynced = `
  const Foo = defineKind({ group: "example.com", version: "v1", kind: "Foo", plural: "foos", namespaced: true });
  context.informers.of(Foo);`;

/** How long the creation of a cloud hangs. */
const createMs = 60_000;
const floodLine = "flood ".repeat(20).trim();

/** Its config says how it is created and disposed of. */
const cloud = `
  import { defineCloud, Type } from "cloud-controller-host/sdk";
  export default defineCloud({
    name: "odd", configSchema: Type.Object({}),
    decode: (document) => ({ ok: true, value: document, warnings: [] }),
    create: async (config, context) => {
      context.log.info("cloud " + context.generation + " sees " + Object.keys(config).join(" "));
      if (config.createMs) await new Promise((done) => setTimeout(done, config.createMs));
      return {
        name: "odd", hasClusterID: true,
        [Symbol.asyncDispose]: () => (config.stuck ? new Promise(() => {}) : Promise.resolve()),
      };
    },
  });`;

/** The limit covers the creation of the cloud as well, and that of Azure takes seconds on a busy machine. */
const shortSeconds = 8;

/** Flags for a cloud whose creation takes no time. */
async function quickCloud(
  folder: string,
  write: (name: string, source: string) => Promise<void>,
): Promise<readonly string[]> {
  await write("cloud", cloud);
  const config = join(folder, "quick.yaml");
  await writeFile(config, "{}\n");
  return ["--cloud-provider=odd", `--cloud-config=${config}`];
}

/** A lab, and a host in it with plugins of these sources. */
function faultyLab(platform: () => Platform) {
  const lab = new HostLab(platform);

  async function start(plugins: Readonly<Record<string, string>>, ...flags: readonly string[]) {
    const { folder } = await lab.azure();
    const directory = join(folder, "plugins");
    const write = async (name: string, source: string): Promise<void> => {
      await mkdir(join(directory, name), { recursive: true });
      await writeFile(join(directory, name, "plugin.ts"), source);
    };
    for (const [name, source] of Object.entries(plugins)) await write(name, source);
    const quickly = flags.includes(short) ? await quickCloud(folder, write) : [];
    const controllers = flags.some((flag) => flag.startsWith("--controllers")) ? [] : ["--controllers=*"];
    const host = await lab.start({
      flags: [`--plugin-dir=${directory}`, ...controllers, ...noRoutes, ...quickly, ...flags],
    });
    return { host, write, directory };
  }
  const noRoutes = ["--configure-cloud-routes=false"];
  const only = "--controllers=odd-controller";
  const short = `--plugin-init-timeout=${shortSeconds}s`;
  const metrics = async (host: HostProcess): Promise<string> => (await host.get("/metrics")).text();
  const leaseOf = async (): Promise<Lease> =>
    platform().admin.get(kinds.Lease, { namespace: "kube-system", name: "cloud-controller-manager" });
  return { lab, start, only, short, metrics, leaseOf };
}

describeOnBoth("a faulty plugin", (platform) => {
  const { lab, start, only, short, metrics, leaseOf } = faultyLab(platform);

  test("a faulty plugin whose informers cannot sync is rejected on a reload, and log, event, metric and /statusz name the kinds", async () => {
    const { host, write } = await start({ odd: plugin("odd-controller", idle) }, only, short);
    await host.until("it runs", ({ running }) => running);
    await write("odd", plugin("odd-controller", unsynced + idle));
    host.signal("SIGHUP");
    const { lastRefusal, generation } = await host.until("it is refused", (status) => status.lastRefusal !== undefined);
    expect(lastRefusal?.reason).toContain(
      `controller "odd-controller": foos.example.com did not sync within ${shortSeconds} s`,
    );
    expect(generation).toBe(1);
    expect(await metrics(host)).toMatch(/^host_last_reload_successful 0$/m);
    await host.eventually("an event reports it", async () =>
      (await platform().admin.list(kinds.Event)).some(({ reason }) => reason === "ReloadRefused"),
    );
  });

  test("a faulty plugin whose controller ignores its abort keeps the lease through a later reload and a clean stop", async () => {
    const deaf = plugin("odd-controller", "return { run: () => new Promise(() => {}) };");
    const { host, write } = await start({ odd: deaf }, only, "--generation-drain-timeout=500ms");
    const { identity } = await host.until("it runs", ({ running }) => running);
    await write("odd", plugin("odd-controller", idle));
    host.signal("SIGHUP");
    const next = await host.until("the next runs", ({ generation, running }) => generation === 2 && running);
    expect(next.lastOverdueDrain?.reason).toContain("odd-controller of generation 1 did not return within 0.5 s");
    expect(await metrics(host)).toContain('host_drain_overdue_total{name="odd-controller"} 1');
    expect(await host.stop()).toBe(1);
    expect((await leaseOf()).spec?.holderIdentity).toBe(identity);
  });

  test("a faulty plugin whose cloud hangs in its disposal does not keep a process alive that has lost the lease", async () => {
    const { folder } = await lab.azure();
    const config = join(folder, "odd.yaml");
    await writeFile(config, "stuck: true\n");
    const flags = ["--cloud-provider=odd", `--cloud-config=${config}`, only];
    const { host } = await start({ odd: plugin("odd-controller", idle), cloud }, ...flags);
    await host.until("it runs", ({ running }) => running);
    await writeFile(config, "stuck: false\n");
    await host.until("the next runs", ({ generation, running }) => generation === 2 && running);
    const lease = await leaseOf();
    const spec = { ...lease.spec, holderIdentity: "another", renewTime: new Date().toISOString().replace("Z", "000Z") };
    // The leader may renew in between, which makes this attempt a conflict.
    await host.eventually("another holds the lease", async () => {
      const { metadata } = await leaseOf();
      return platform()
        .admin.replace(kinds.Lease, { ...lease, metadata: metadata ?? {}, spec })
        .catch(() => undefined);
    });
    expect(await host.ended()).toBe(1);
  });
});

describeOnSandbox("a faulty plugin", (platform) => {
  const { lab, start, only, short, metrics, leaseOf } = faultyLab(platform);

  test.each([
    ["cannot sync", plugin("odd-controller", unsynced + idle)],
    ["fails to initialize", plugin("odd-controller", 'throw new Error("boom in init");')],
    ["throws on import", 'throw new Error("boom at import");'],
    ["never settles its import", plugin("odd-controller", idle, "await new Promise(() => {});")],
  ])(
    "a faulty plugin that %s at a cold start is left out and reported; the others run, and it loads once it is fixed",
    async (_, source) => {
      const good = plugin("good-controller", idle);
      const flags = ["--controllers=good-controller,odd-controller", short];
      const { host, write } = await start({ good, odd: source }, ...flags);
      const first = await host.until("the others run", ({ running }) => running);
      expect(first.controllers).toContain("good-controller");
      expect(first.controllers).not.toContain("odd-controller");
      expect(first.refusedPlugins).toEqual([
        { plugin: expect.stringContaining("odd"), reason: expect.any(String), at: expect.any(String) },
      ]);
      expect(await metrics(host)).toMatch(/^host_refused_plugins 1$/m);
      await host.eventually("an event names it", async () =>
        (await platform().admin.list(kinds.Event)).some(
          ({ reason, message }) => reason === "PluginRefused" && message?.includes("odd") === true,
        ),
      );
      expect((await host.get("/readyz")).status).toBe(200);
      await write("odd", plugin("odd-controller", idle));
      host.signal("SIGHUP");
      const second = await host.until("it runs as well", ({ controllers }) => controllers.includes("odd-controller"));
      expect([second.generation, second.refusedPlugins, second.reloads]).toEqual([2, [], 1]);
    },
  );

  test("a faulty plugin with flags and an alias that fails to load at a cold start is left out all the same, and gets them once it is fixed", async () => {
    const flags = ["--controllers=good-controller,odd", "--odd-controller-word=hello", "--odd-controller-loud"];
    const good = plugin("good-controller", idle);
    const { host, write } = await start({ good, odd: 'throw new Error("boom at import");' }, ...flags);
    await host.until("the others run", ({ running }) => running);
    expect(host.lines("Unknown flag --odd-controller-word ignored")).toHaveLength(1);
    await write(
      "odd",
      `import { defineController, Type } from "cloud-controller-host/sdk";
       export default defineController({
         name: "odd-controller", aliases: ["odd"],
         configSchema: Type.Object({ word: Type.String(), loud: Type.Boolean({ default: false }) }),
         construct: (_, { own }) => (context) => { context.log.info("own " + own.word + " " + own.loud); ${idle} },
       });`,
    );
    host.signal("SIGHUP");
    await host.until("it runs as well", ({ controllers }) => controllers.includes("odd-controller"));
    expect(host.lines("own hello true")).toHaveLength(1);
  });

  test("a faulty plugin whose cloud is chosen and fails to load ends the start with the reason, beside the unknown name", async () => {
    const flags = ["--cloud-provider=odd", "--cloud-config=none"];
    const { host } = await start({ odd: 'throw new Error("boom at import");' }, ...flags);
    expect(await host.ended()).toBe(1);
    expect(host.stderr).toMatch(
      /odd\/plugin\.ts cannot be imported: boom at import\n.*--cloud-provider "odd" is not known/u,
    );
  });

  test("a faulty plugin at startup ends the process with --plugin-failure-policy=exit", async () => {
    const { host } = await start({ odd: 'throw new Error("boom at import");' }, "--plugin-failure-policy=exit");
    expect(await host.ended()).toBe(1);
    expect(host.stderr).toContain("boom at import");
  });

  test("a faulty plugin whose run fails in the first generation is stopped, reported and tried again, while ours run", async () => {
    const { host } = await start({
      odd: plugin("odd-controller", 'return { run: async () => { throw new TypeError("boom in run"); } };'),
    });
    const { controllers, generation, refusedPlugins } = await host.until(
      "it is reported",
      (status) => status.refusedPlugins.length > 0,
    );
    expect(controllers).toContain("cloud-node-controller");
    expect(controllers).not.toContain("odd-controller");
    expect(generation).toBe(1);
    expect(refusedPlugins).toMatchObject([{ plugin: "odd-controller", reason: "boom in run" }]);
    await host.eventually("it is tried again", () => host.lines("Starting a failed controller again").length > 0);
    await host.eventually("it is stopped again", () => host.lines("boom in run").length > 1);
    expect(host.lines("boom in run")[0]).toMatch(/TypeError.*plugins\/odd\/plugin\.ts:4:\d+/u);
    expect((await host.get("/healthz")).status).toBe(200);
    expect(await metrics(host)).toMatch(/^host_controller_failures_total\{name="odd-controller"\} 2$/m);
    expect(await host.stop()).toBe(0);
  });

  test("a faulty plugin whose run fails in the first generation ends the process with --plugin-failure-policy=exit", async () => {
    const { host } = await start(
      { odd: plugin("odd-controller", 'return { run: async () => { throw new Error("boom in run"); } };') },
      "--plugin-failure-policy=exit",
    );
    expect(await host.ended()).toBe(1);
    expect(host.lines("Controller failed; the process ends")).toHaveLength(1);
  });

  test("a faulty plugin whose import never settles is rejected after its timeout, and blocks neither its fixed version nor SIGTERM", async () => {
    const { host, write } = await start({ odd: plugin("odd-controller", idle) }, only, short);
    await host.until("it runs", ({ running }) => running);
    await write("odd", plugin("odd-controller", idle, "await new Promise(() => {});"));
    host.signal("SIGHUP");
    const refused = await host.until("it is refused", ({ lastRefusal }) => lastRefusal !== undefined);
    expect(refused.lastRefusal?.reason).toContain("(--plugin-init-timeout)");
    expect(refused.outstanding).toMatchObject([{ kind: "import", name: expect.stringContaining("odd/plugin.ts") }]);
    await write("odd", plugin("odd-controller", `${idle} /* fixed */`));
    host.signal("SIGHUP");
    await host.until("the fixed one runs", ({ generation, running }) => generation === 2 && running);
    const { identity } = await host.status();
    expect(await host.stop()).toBe(0);
    // The import may yet come back and write: the lease is left to expire.
    expect((await leaseOf()).spec?.holderIdentity).toBe(identity);
  });

  test("a faulty plugin that fails while running is rolled back to the old code, lazily imported files included", async () => {
    const lazy = plugin(
      "odd-controller",
      'return { run: async (signal) => (await import("./work.ts")).work(context, signal) };',
    );
    const good = `export const work = (context, signal) => {
      context.log.info("good work");
      return new Promise((done) => signal.addEventListener("abort", () => done()));
    };`;
    const { folder } = await lab.azure();
    await mkdir(join(folder, "plugins", "odd"), { recursive: true });
    const work = join(folder, "plugins", "odd", "work.ts");
    await writeFile(work, good);
    const { host } = await start({ odd: lazy }, only);
    await host.eventually("it works", () => host.lines("good work").length === 1);
    await writeFile(work, 'export const work = async () => { throw new Error("bad work"); };');
    host.signal("SIGHUP");
    await host.eventually("the old code works again", () => host.lines("good work").length === 2);
    const { generation, lastRollback, lastRefusal } = await host.status();
    expect([generation, lastRollback?.controller, lastRollback?.reason]).toEqual([3, "odd-controller", "bad work"]);
    expect(lastRefusal?.reason).toContain("the previous generation runs again");
    expect(await metrics(host)).toMatch(/^host_last_reload_successful 0$/m);
  });

  test("a faulty plugin whose cloud hangs in its creation or disposal does not block SIGTERM", async () => {
    const { folder } = await lab.azure();
    const config = join(folder, "odd.yaml");
    await writeFile(config, "stuck: true\n");
    const flags = ["--cloud-provider=odd", `--cloud-config=${config}`, only];
    const { host } = await start({ odd: plugin("odd-controller", idle), cloud }, ...flags);
    await host.until("it runs", ({ running }) => running);
    await writeFile(config, "stuck: false\n");
    await host.until("the next runs", ({ generation, running }) => generation === 2 && running);
    await writeFile(config, `createMs: ${createMs}\n`);
    await host.eventually("the third is created", () => host.lines("cloud 3 sees").length > 0);
    const began = performance.now();
    expect(await host.stop()).toBe(0);
    expect(performance.now() - began).toBeLessThan((createMs * 2) / 3);
  });

  test("a faulty plugin that throws from a timer, or leaves an unhandled rejection, is logged by name and counted; the process continues", async () => {
    const late = `
      setTimeout(() => { throw new Error("late throw"); }, 50);
      setTimeout(() => void Promise.reject(new Error("late rejection")), 100);
      ${idle}`;
    const { host } = await start({ odd: plugin("odd-controller", late) }, only);
    await host.until("it runs", ({ running }) => running);
    await host.eventually("both are logged", () => host.lines('"Unhandled error" plugin="odd"').length === 2);
    expect(host.lines("late throw").length).toBe(1);
    expect(await metrics(host)).toContain('host_unhandled_errors_total{plugin="odd"} 2');
    expect(await host.stop()).toBe(0);
  });

  test("a faulty plugin that floods the console leaves log lines whole, the lease renewed and a clean stop", async () => {
    const lines = 50_000;
    const flood = `return { async run(signal) {
      for (let batch = 0; batch < 50; batch++) {
        for (let line = 0; line < ${lines / 50}; line++) console.error("${floodLine}");
        context.log.info("in the middle of the flood");
        await new Promise((done) => setTimeout(done, 1));
      }
      context.log.info("end of the flood");
      await new Promise((done) => signal.addEventListener("abort", () => done()));
    } };`;
    const { host } = await start({ odd: plugin("odd-controller", flood) }, only, ...steadyLease);
    await host.eventually("the flood ends", () => host.lines("end of the flood").length === 1);
    const { leading, generation } = await host.status();
    expect([leading, generation]).toEqual([true, 1]);
    expect(await host.stop()).toBe(0);
    expect(host.lines(floodLine)).toHaveLength(lines);
    const torn = host.stderr
      .split("\n")
      .filter((line) => !/^[IWEF]\d{4} /.test(line) && line !== floodLine && line !== "");
    expect(torn).toEqual([]);
  });

  test("a faulty plugin that leaks an interval cannot write with it once its generation has ended, nor delay a stop", async () => {
    const leak = `
      setInterval(() => {
        const written = context.client.delete(kinds.Node, { name: "no-such-node" });
        written.catch(({ code }) => context.log.info("tick of " + context.generation, { code }));
      }, 20);
      ${idle}`;
    const { host, write } = await start({ odd: plugin("odd-controller", leak) }, only);
    const ticks = (): readonly string[] => host.lines("tick of 1");
    // Ticks before the generation starts are refused as well.
    await host.eventually("it writes", () => ticks().some((line) => line.includes('code="ApiError"')));
    await write("odd", plugin("odd-controller", idle));
    host.signal("SIGHUP");
    await host.until("the next runs", ({ generation, running }) => generation === 2 && running);
    const before = ticks().length;
    await host.eventually("it ticks on", () => ticks().length > before + 5);
    expect(
      ticks()
        .slice(before + 1)
        .filter((line) => !line.includes('code="Fenced"')),
    ).toEqual([]);
    expect(await host.stop()).toBe(0);
  });

  test("a faulty plugin that blocks the event loop for good is ended by the watchdog, by its name", async () => {
    const endless = "return { run: () => { for (;;); } };";
    const { host } = await start({ odd: plugin("odd-controller", endless) }, only, ...shortLease);
    expect(await host.ended()).toBe(128 + constants.signals.SIGKILL);
    const [line = "", ...more] = host.lines("Event loop blocked");
    expect([line, ...more]).toEqual([
      expect.stringMatching(/^E\d{4} .*controller="odd-controller" running=true blockedMs=\d+$/),
    ]);
    // Six times the limit applies to a process that does not lead.
    expect(Number(/blockedMs=(\d+)/u.exec(line)?.[1])).toBeLessThan(20_000);
  });
});

describeOnSandbox("a trigger", (platform) => {
  const lab = new HostLab(platform);

  test("causes no reload when the content is already running: SIGHUP with the file's change, a file deleted and restored", async () => {
    const host = await lab.start();
    await host.until("it runs", ({ running }) => running);
    const { config, configText } = await lab.azure();
    await writeFile(config, `${configText}# other\n`);
    host.signal("SIGHUP");
    // SIGHUP and the file may request it one after the other, which numbers a preparation more.
    const { generation } = await host.until("the change is taken", ({ reloads }) => reloads === 1);
    await rm(config);
    await host.until("the missing file is reported", ({ lastRefusal }) => lastRefusal !== undefined);
    await writeFile(config, `${configText}# other\n`);
    const back = await host.until("its return is not a reload", ({ lastRefusal }) => lastRefusal === undefined);
    expect([back.reloads, back.generation]).toEqual([1, generation]);
    await writeFile(config, "- bad\n");
    await host.until("a bad one is refused", ({ lastRefusal }) => lastRefusal !== undefined);
    await writeFile(config, `${configText}# other\n`);
    const good = await host.until("the way back is not a reload", ({ lastRefusal }) => lastRefusal === undefined);
    expect([good.reloads, good.generation]).toEqual([1, generation]);
  });
});
