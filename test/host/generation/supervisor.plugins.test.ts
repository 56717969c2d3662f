import { afterEach, describe, expect, test } from "bun:test";

import { type ControllerContext, type ControllerPlugin, defineKind } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import type { LoadedPlugins, LoadRequest } from "../../../host/generation/plugins/load.ts";
import type { GenerationSettings } from "../../../host/generation/scope/scope.ts";
import { Supervisor } from "../../../host/generation/supervisor.ts";
import { leading } from "./leading.ts";
import { main, SlotRig } from "./slot-rig.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

interface World {
  readonly rig: SlotRig;
  readonly supervisor: Supervisor;
  /** What the next load results in. */
  plugins: LoadedPlugins;
  /** Of the loads so far. */
  readonly loads: LoadRequest[];
  readonly logged: (text: string) => readonly string[];
}

/** A supervisor that leads, with the plugins that `make` returns. */
async function world(
  make: (rig: SlotRig) => LoadedPlugins,
  settings: Partial<GenerationSettings> = {},
): Promise<World> {
  const rig = stack.use(await SlotRig.start(settings));
  const loads: LoadRequest[] = [];
  const source = { description: "a test", read: async () => "version: 1\n" };
  const loader = {
    hash: async () => made.plugins.hash,
    load: async (request: LoadRequest) => {
      loads.push(request);
      return { ok: true as const, plugins: made.plugins };
    },
  };
  const supervisor = new Supervisor(rig.scope, source, loader);
  const logged = (text: string): readonly string[] => rig.lines.filter((line) => line.includes(text));
  const made: World = { rig, supervisor, plugins: make(rig), loads, logged };
  stack.defer(() => supervisor.close());
  stack.use(await leading(supervisor, made.plugins));
  return made;
}

/** A controller whose init does this first. */
const initializing = (rig: SlotRig, name: string, before: (context: ControllerContext) => void): ControllerPlugin => {
  const controller = rig.controller(name, main);
  const decoded = controller.bind(undefined);
  if (!decoded.ok) throw new Error("it cannot be bound");
  const { value } = decoded;
  return {
    ...controller,
    bind: () => ({
      ...decoded,
      value: (config, cloud) => (context) => {
        before(context);
        return value(config, cloud)(context);
      },
    }),
  };
};

const failing = (rig: SlotRig, name: string, fails: () => boolean): ControllerPlugin =>
  initializing(rig, name, ({ signal }) => {
    if (!fails()) return;
    failed.push(signal);
    throw new Error("boom in init");
  });

/** Signals of the contexts of controllers that failed. */
const failed: AbortSignal[] = [];

const refused = [{ plugin: "/plugins/odd", reason: "boom at import" }];

describe("a third-party plugin that was left out at the start", () => {
  test("a third-party plugin that was left out at the start because its init failed is tried again by a reload of the same content, and may fail again", async () => {
    let fails = true;
    const made = await world((rig) => ({
      ...rig.plugins([rig.controller("alpha", main), failing(rig, "odd", () => fails)], "one"),
      thirdParty: new Set(["odd"]),
    }));
    const { supervisor } = made;
    expect(supervisor.status.controllers).toEqual(["alpha"]);
    expect(failed.at(-1)?.aborted).toBe(true);
    supervisor.reload("again");
    await eventually("it is left out again", () => supervisor.status.generation === 2);
    expect(supervisor.status).toMatchObject({ controllers: ["alpha"], lastRefusal: undefined });
    fails = false;
    supervisor.reload("once more");
    await eventually("it runs", () => supervisor.status.controllers.includes("odd"));
    supervisor.reload("nothing new");
    await eventually("it is skipped", () => made.logged("Reload skipped").length === 1);
  });

  test("a third-party plugin that was left out at the start because its informers do not sync never runs", async () => {
    const foos = defineKind({ group: "example.com", version: "v1", kind: "Foo", plural: "foos", namespaced: true });
    const made = await world(
      (rig) => {
        const odd = initializing(rig, "odd", ({ informers }) => void informers.of(foos));
        return { ...rig.plugins([odd, rig.controller("alpha", main)], "one"), thirdParty: new Set(["odd"]) };
      },
      { initTimeout: 300 },
    );
    expect([made.supervisor.status.controllers, [...made.rig.running]]).toEqual([["alpha"], ["1 alpha"]]);
    expect(made.rig.made.get("odd")?.context.signal.aborted).toBe(true);
    expect(made.logged("Starting controller")).toHaveLength(1);
  });

  test("a third-party plugin that was left out at the start because its import failed is reported, imported again by a reload of the same content, and may fail again", async () => {
    const made = await world((rig) => ({ ...rig.plugins([rig.controller("alpha", main)], "one"), refused }));
    expect(made.logged("Plugin refused; continuing without it")).toHaveLength(1);
    expect(made.supervisor.status.refusedPlugins).toMatchObject(refused);
    made.supervisor.reload("again");
    await eventually("it is left out again", () => made.supervisor.status.generation === 2);
    const [load] = made.loads;
    expect([load?.mayLeaveOut("/plugins/odd"), load?.mayLeaveOut("/plugins/other")]).toEqual([true, false]);
  });

  test("is not left out of a reload once it has run: the reload is refused", async () => {
    let fails = false;
    const make = (rig: SlotRig, hash: string): LoadedPlugins => ({
      ...rig.plugins([rig.controller("alpha", main), failing(rig, "odd", () => fails)], hash),
      thirdParty: new Set(["odd"]),
    });
    const made = await world((rig) => make(rig, "one"));
    made.plugins = make(made.rig, "two");
    fails = true;
    made.supervisor.reload("a change");
    await eventually("it is refused", () => made.supervisor.status.lastRefusal !== undefined);
    expect(made.supervisor.status).toMatchObject({ generation: 1, controllers: ["alpha", "odd"] });
  });
});

test("the files of plugins are kept while their generation runs or may run again, and no longer", async () => {
  const held = new Map<string, number>();
  const kept = (hash: string): number => held.get(hash) ?? 0;
  const make = (rig: SlotRig, hash: string): LoadedPlugins => ({
    ...rig.plugins([rig.controller("alpha", main)], hash),
    retain() {
      held.set(hash, kept(hash) + 1);
      return () => void held.set(hash, kept(hash) - 1);
    },
  });
  const made = await world((rig) => make(rig, "one"));
  for (const hash of ["two", "three"]) {
    made.plugins = make(made.rig, hash);
    made.supervisor.reload(hash);
    await eventually("it runs", () => made.supervisor.status.pluginHash === hash && made.supervisor.status.running);
  }
  await eventually("the first is given up", () => kept("one") === 0);
  expect([kept("two") > 0, kept("three") > 0]).toEqual([true, true]);
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
  expect([...held.values()]).toEqual([0, 0, 0]);
});

test("the cloud of the generation that runs explains objects, where it can", async () => {
  const made = await world((rig) => rig.plugins([rig.controller("alpha", main)], "one"));
  expect(made.supervisor.explain).toBeUndefined();
  const explain = { node: () => Promise.resolve([]) };
  made.rig.cloudExplain = explain;
  made.supervisor.reload("a change", { text: "version: 2\n" });
  await eventually("the second runs", () => made.supervisor.status.generation === 2);
  expect(made.supervisor.explain).toBe(explain);
});

test("a controller whose warnings() throws hides neither the status nor the warnings of others", async () => {
  const warning = (rig: SlotRig, name: string, warnings: () => readonly string[]): ControllerPlugin => {
    const controller = rig.controller(name, main);
    return {
      ...controller,
      bind(own) {
        const bound = controller.bind(own);
        if (!bound.ok) return bound;
        const { value } = bound;
        return {
          ...bound,
          value: (config, cloud) => async (context) => {
            const made = await value(config, cloud)(context);
            return "skipped" in made ? made : { ...made, warnings };
          },
        };
      },
    };
  };
  const throws = (): never => {
    throw new Error("no warnings today");
  };
  const { supervisor } = await world((rig) =>
    rig.plugins([warning(rig, "alpha", throws), warning(rig, "beta", () => ["careful"])], "one"),
  );
  expect(supervisor.status.warnings).toEqual(["alpha: its warnings() failed: no warnings today", "beta: careful"]);
});

test("a bundled controller that fails at the start is never left out", async () => {
  const starting = world((rig) => rig.plugins([rig.controller("alpha", main), failing(rig, "beta", () => true)]));
  await expect(starting).rejects.toThrow('controller "beta" cannot be initialized: boom in init');
});

describe("a reload without a plugin that ran", () => {
  const sourcesOf = (controllers: readonly ControllerPlugin[]): LoadedPlugins["sources"] =>
    controllers.map((plugin) => ({ plugin, folder: `/plugins/${plugin.name}`, thirdParty: true }));
  const set = (rig: SlotRig, hash: string, ...names: readonly string[]): LoadedPlugins => {
    const controllers = names.map((name) => rig.controller(name, main));
    return { ...rig.plugins(controllers, hash), sources: sourcesOf(controllers) };
  };

  test("is refused for as long as --controllers names it, and reported once where it does not", async () => {
    const made = await world((rig) => set(rig, "one", "alpha", "beta", "gamma"), {
      controllers: ["alpha", "*", "-gamma"],
    });
    const { supervisor, rig } = made;
    for (const hash of ["two", "three"]) {
      made.plugins = set(rig, hash, "beta", "gamma");
      supervisor.reload(hash);
      await eventually("it is refused", () => made.logged("Reload refused").length === (hash === "two" ? 1 : 2));
    }
    expect(supervisor.status.lastRefusal?.reason).toBe(
      'plugins are missing: --controllers: the controller "alpha" was in /plugins/alpha, and no plugin has this name now; restore it, or restart without it',
    );
    expect(supervisor.status.generation).toBe(1);
    for (const hash of ["four", "five"]) {
      made.plugins = set(rig, hash, "alpha");
      supervisor.reload(hash);
      await eventually("it is loaded", () => supervisor.status.pluginHash === hash);
    }
    expect(made.logged("Plugin removed; continuing without it")).toEqual([
      expect.stringContaining('"folder":"/plugins/beta"'),
      expect.stringContaining('"folder":"/plugins/gamma"'),
    ]);
  });
});

describe("a config that disables the cloud provider", () => {
  const disabled = { text: "disableCloudProvider: true\n" };

  test("disables it from the start, with the plugins that were left out listed", async () => {
    const rig = stack.use(await SlotRig.start());
    const plugins = { ...rig.plugins([rig.controller("alpha", main)], "one"), refused };
    const loader = { hash: async () => "one", load: async () => ({ ok: true as const, plugins }) };
    const supervisor = new Supervisor(rig.scope, { description: "a test", read: async () => disabled.text }, loader);
    await supervisor.begin(plugins, new AbortController().signal);
    expect(supervisor.status).toMatchObject({ disabled: true, controllers: [], refusedPlugins: refused });
    expect((await rig.metrics.render()).body).toMatch(/^host_refused_plugins 1$/mu);
  });

  test("takes effect each time that it is set, and once for the same content", async () => {
    const made = await world((rig) => rig.plugins([rig.controller("alpha", main)], "one"));
    const { supervisor } = made;
    for (const round of [1, 2]) {
      supervisor.reload("off", disabled);
      await eventually("it is disabled", () => supervisor.status.disabled && supervisor.status.phase === "disabled");
      supervisor.reload("off again", disabled);
      await eventually("that is skipped", () => made.logged("Reload skipped").length === round);
      supervisor.reload("on", { text: `version: ${round}\n` });
      await eventually("it runs", () => supervisor.status.running);
    }
    expect(made.logged("controllers are stopped until")).toHaveLength(2);
  });
});

test("the last config is loaded of reloads that are requested at once", async () => {
  const made = await world((rig) => rig.plugins([rig.controller("alpha", main)], "one"));
  made.supervisor.reload("first", { text: "version: 2\n" });
  made.supervisor.reload("second", { text: "version: 3\n" });
  await eventually("one of them is loaded", () => made.supervisor.status.reloads === 1);
  made.supervisor.reload("second again", { text: "version: 3\n" });
  await eventually("it is the last one", () => made.logged("Reload skipped").length === 1);
});
