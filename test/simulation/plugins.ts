import {
  type Cloud,
  type Controller,
  type ControllerContext,
  type ControllerPlugin,
  defineCloud,
  defineController,
  kinds,
  type KubeObject,
  skipped,
  type Store,
  Type,
} from "cloud-controller-host/sdk";

import { bounded } from "../../host/async/bounded.ts";
import type { OutstandingWork } from "../../host/async/outstanding-work.ts";
import type { LoadedPlugins, PluginLoader } from "../../host/generation/plugins/load.ts";
import { pluginsOf } from "../kit/no-plugins.ts";
import type { Disk } from "./disk.ts";
import type { ProcessTime } from "./timeline.ts";

/** Why the third-party controller skips itself. */
export const skipReason = "simulated";
/** Kinds whose informers never sync. */
const unsyncedGroup = "never.example.com";

export interface PluginWorld {
  readonly disk: Disk;
  readonly time: ProcessTime;
  readonly outstanding: OutstandingWork;
  readonly importTimeout: number;
  /** Runs that have not returned, as generation and name, each with the time at which it was asked to. */
  readonly live: Map<string, number | undefined>;
  /** Configs, as parsed, that clouds were made from. */
  created(config: Readonly<Record<string, unknown>>): void;
  /** A controller is about to fail while its generation runs. */
  failing(generation: number): void;
  /** A controller starts on this cache. */
  started(what: string, cache: Store<KubeObject>): void;
  readonly violation: (text: string) => void;
}

const never = (): Promise<never> => new Promise(() => undefined);
const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });

/** Loads the plugin that the disk holds: a bundled controller and a third-party one, whose version may be faulty. */
export function simulatedLoader(world: PluginWorld): PluginLoader {
  return {
    hash: async () => world.disk.plugin,
    async load({ mayLeaveOut, signal }) {
      const hash = world.disk.plugin;
      const fault = hash.split(" ")[1] ?? "none";
      const files = new PluginFiles();
      const importIt = async (): Promise<void> => {
        if (fault === "importHang") await never();
        if (fault === "importThrow") throw new Error("simulated import failure");
      };
      try {
        await bounded(
          {
            kind: "import",
            name: "import of odd",
            clock: world.time.clock,
            outstanding: world.outstanding,
            limitMs: world.importTimeout,
            hint: "--plugin-init-timeout",
            ...(signal && { signal }),
          },
          importIt,
        );
        return { ok: true, plugins: pluginSet(world, files, hash, [good(world, files), odd(world, files, fault)], []) };
      } catch (error) {
        signal?.throwIfAborted();
        const reason = String(error);
        if (!mayLeaveOut("odd")) return { ok: false, problems: [reason], timedOut: fault === "importHang" };
        return { ok: true, plugins: pluginSet(world, files, hash, [good(world, files)], [{ plugin: "odd", reason }]) };
      }
    },
  };
}

const pluginSet = (
  world: PluginWorld,
  files: PluginFiles,
  hash: string,
  controllers: readonly ControllerPlugin[],
  refused: LoadedPlugins["refused"],
): LoadedPlugins => ({
  ...pluginsOf(
    { controllers, clouds: [simulatedCloud(world)] },
    { hash, refused, thirdParty: new Set(["odd-controller"]) },
  ),
  retain: () => files.retain(),
});

/** The private copy of the plugin files that a load has made. It is removed with the last release. */
class PluginFiles {
  readonly #holders = new Set<object>();
  #isRemoved = false;

  get exist(): boolean {
    return this.#holders.size > 0 && !this.#isRemoved;
  }

  retain(): () => void {
    const holder = {};
    this.#holders.add(holder);
    return () => {
      this.#holders.delete(holder);
      this.#isRemoved ||= this.#holders.size === 0;
    };
  }
}

/** Writes all the time, and marks each write with its generation. */
async function writeUntil(context: ControllerContext, ends: () => boolean, signal?: AbortSignal): Promise<void> {
  while (!ends()) {
    await context.clock.sleep(400, signal);
    if (ends()) return;
    const metadata = { namespace: "default", name: context.name, labels: { generation: String(context.generation) } };
    await context.client.replace(kinds.ConfigMap, { metadata }).catch(() => undefined);
  }
}

/** A run that is known to be alive, of a controller that imports a file of its plugin only now and watches ConfigMaps. */
function tracked(
  world: PluginWorld,
  files: PluginFiles,
  context: ControllerContext,
  run: Controller["run"],
): Controller {
  const name = `${context.generation} ${context.name}`;
  const configMaps = context.informers.of(kinds.ConfigMap);
  configMaps.handle({ deleted: () => world.violation(`the cache of ${name} has lost an object that exists`) });
  return {
    async run(signal) {
      if (!files.exist) world.violation(`${name} runs though the files of its plugin were removed`);
      world.started(name, configMaps.store);
      world.live.set(name, undefined);
      const { clock } = context;
      signal.addEventListener("abort", () => world.live.has(name) && world.live.set(name, clock.monotonic()));
      try {
        await run(signal);
      } finally {
        world.live.delete(name);
      }
    },
  };
}

const good = (world: PluginWorld, files: PluginFiles): ControllerPlugin =>
  defineController({
    name: "good-controller",
    construct: () => (context) =>
      tracked(world, files, context, (signal) => writeUntil(context, () => signal.aborted, signal)),
  });

const odd = (world: PluginWorld, files: PluginFiles, fault: string): ControllerPlugin =>
  defineController({
    name: "odd-controller",
    construct: () => async (context) => {
      if (fault === "initHang") await never();
      if (fault === "initThrow") throw new Error("simulated init failure");
      if (fault === "initSkip") return skipped(skipReason);
      if (fault === "syncHang")
        context.informers.of({ group: unsyncedGroup, version: "v1", kind: "Foo", plural: "foos", namespaced: true });
      return tracked(world, files, context, (signal) => runOdd(world, context, fault, signal));
    },
  });

async function runOdd(
  world: PluginWorld,
  context: ControllerContext,
  fault: string,
  signal: AbortSignal,
): Promise<void> {
  const failing = fault === "runThrow" || fault === "runReturn";
  if (failing) await context.clock.sleep(700, signal);
  if (failing && !signal.aborted) {
    world.failing(context.generation);
    if (fault === "runReturn") return;
    throw new Error("simulated run failure");
  }
  if (fault === "ignoreAbort") await writeUntil(context, () => false);
  await writeUntil(context, () => signal.aborted, signal);
  if (fault === "slowAbort") await context.clock.sleep(2_500);
}

const simulatedCloud = (world: PluginWorld) =>
  defineCloud({
    name: "simulated",
    configSchema: Type.Object({}),
    decode: (document) => ({ ok: true, value: document, warnings: [] }),
    async create(config, context): Promise<Cloud> {
      const fault = String(config["fault"]);
      if (fault === "createHang") await never();
      if (fault === "createLate") await context.clock.sleep(8_000);
      if (fault === "createThrow") throw new Error("simulated create failure");
      if (fault === "syncHang")
        context.informers.of({ group: unsyncedGroup, version: "v1", kind: "Foo", plural: "foos", namespaced: true });
      world.created(config);
      return {
        name: "simulated",
        hasClusterID: true,
        run: aborted,
        [Symbol.asyncDispose]: () => (fault === "disposeHang" ? never() : Promise.resolve()),
      };
    },
  });
