import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { systemClock } from "../../../../host/async/clock.ts";
import { OutstandingWork } from "../../../../host/async/outstanding-work.ts";
import { runPlugins } from "../../../../host/cli/plugins.ts";
import { pluginLoader } from "../../../../host/generation/plugins/load.ts";
import { PrivateCopies } from "../../../../host/generation/plugins/private-copies.ts";
import { rejection } from "../../../kit/rejection.ts";

let root = "";
let plugins = "";
let file = "";

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "plugin-lock-"));
  plugins = join(root, "plugins");
  file = join(root, "plugins.lock");
  await write("alpha");
});
afterEach(() => rm(root, { recursive: true, force: true }));

async function write(name: string, more = ""): Promise<void> {
  const folder = join(plugins, name);
  await mkdir(join(folder, "node_modules/dependency"), { recursive: true });
  await writeFile(join(folder, "package.json"), '{ "version": "1.2.3" }');
  await writeFile(join(folder, "node_modules/dependency/index.js"), "export const a = 1;\n");
  await writeFile(
    join(folder, "plugin.ts"),
    `globalThis.loaded = (globalThis.loaded ?? 0) + 1;
import { defineController } from "cloud-controller-host/sdk";
import "dependency";
export default defineController({
  name: "${name}-controller",
  permissions: [{ apiGroup: "", resources: ["nodes"], verbs: ["list"] }],
  construct: () => () => ({ run: async () => undefined }),
});
${more}`,
  );
}

const run = (name: string): Promise<string> => runPlugins([name, `--plugin-lock=${file}`, `--plugin-dir=${plugins}`]);

const imports = (): unknown => Reflect.get(globalThis, "loaded");

async function load(mayLeaveOut = false) {
  await using copies = new PrivateCopies(systemClock);
  const empty = join(root, "bundled");
  await mkdir(empty, { recursive: true });
  const loader = pluginLoader({
    directories: [empty, plugins],
    copies,
    clock: systemClock,
    outstanding: new OutstandingWork(systemClock),
    importTimeout: 30_000,
    lockFile: file,
  });
  const loaded = await loader.load({ mayLeaveOut: () => mayLeaveOut });
  return loaded.ok ? loaded.plugins.controllers.map(({ name }) => name) : loaded.problems;
}

test("lock writes version and SHA-256, and a locked plugin is loaded", async () => {
  expect(await run("lock")).toBe(`Locked 1 plugin in ${file}\n`);
  expect(JSON.parse(await readFile(file, "utf8"))).toEqual({
    version: 2,
    plugins: {
      alpha: {
        version: "1.2.3",
        sha256: expect.stringMatching(/^[0-9a-f]{64}$/u),
      },
    },
  });
  expect(await load()).toEqual(["alpha-controller"]);
  expect(await run("verify")).toBe("1 plugin is as locked\n");
});

describe("rejects, without importing it, a plugin", () => {
  test.each([
    ["whose source has changed", () => write("alpha", "// changed\n"), "differs from --plugin-lock"],
    [
      "whose dependency has changed",
      () => writeFile(join(plugins, "alpha/node_modules/dependency/index.js"), "export const a = 2;\n"),
      "differs from --plugin-lock",
    ],
    [
      "with a further file",
      () => writeFile(join(plugins, "alpha/more.ts"), "export {};\n"),
      "differs from --plugin-lock",
    ],
  ])("%s", async (_, change, problem) => {
    await run("lock");
    await change();
    const before = imports();
    expect(await load()).toEqual([expect.stringContaining(problem)]);
    expect(imports()).toBe(before);
    await expect(run("verify")).rejects.toThrow(/changed\nreview them, then record them with: plugins lock$/u);
  });

  test("rejects, without importing it, a plugin that is not listed", async () => {
    await run("lock");
    await write("beta");
    expect(await load()).toEqual([expect.stringContaining("beta is not in --plugin-lock")]);
    await expect(run("verify")).rejects.toThrow("not listed");
  });
});

test("a load that the lock rejects reports what is wrong with the bundled plugins, too", async () => {
  await run("lock");
  await write("alpha", "// changed\n");
  await mkdir(join(root, "bundled/broken"), { recursive: true });
  await writeFile(join(root, "bundled/broken/plugin.ts"), 'throw new Error("boom");');
  expect(await load()).toEqual([
    expect.stringContaining("differs from --plugin-lock"),
    expect.stringContaining("bundled/broken"),
  ]);
});

test("rejects the load when a locked plugin is missing, and imports none of the others", async () => {
  await write("beta");
  await run("lock");
  await rm(join(plugins, "beta"), { recursive: true });
  const before = imports();
  expect(await load()).toEqual([expect.stringContaining("plugin beta is in --plugin-lock, but in no --plugin-dir")]);
  expect(imports()).toBe(before);
});

test("imports no third-party plugin of a refused load, not even one that is as locked", async () => {
  await write("beta");
  await run("lock");
  await write("beta", "// changed\n");
  const before = imports();
  expect(await load()).toEqual([expect.stringContaining("beta differs from --plugin-lock")]);
  expect(imports()).toBe(before);
  expect(await load(true)).toEqual(["alpha-controller"]);
});

test.each([
  ["missing", () => rm(file, { force: true }), "ENOENT"],
  ["cut off", () => writeFile(file, "{"), "JSON"],
  ["not a lock", () => writeFile(file, '{ "version": 2, "plugins": { "alpha": {} } }'), "not a lock file"],
])("refuses every third-party plugin, without importing it, when the lock file is %s", async (_, damage, problem) => {
  await damage();
  const before = imports();
  expect(await load()).toEqual([expect.stringContaining(problem)]);
  expect(await load(true)).toEqual([]);
  expect(imports()).toBe(before);
});

test.each(["list", "lock", "verify"])("plugins %s imports no plugin", async (name) => {
  await run("lock");
  const before = imports();
  await run(name);
  expect(imports()).toBe(before);
});

test("list prints bundled, unlocked, locked and changed plugins; the folder where the source has no plain name", async () => {
  const unlocked = await runPlugins(["list", `--plugin-dir=${plugins}`]);
  expect(unlocked).toMatch(/^alpha-controller +controller +1\.2\.3 +unlocked$/mu);
  expect(unlocked).toMatch(/^azure +cloud +- +bundled$/mu);
  expect(unlocked).toMatch(/^cloud-node +controller +- +bundled$/mu);
  await run("lock");
  expect(await run("list")).toMatch(/^alpha-controller .* locked$/mu);
  await write("alpha", "// changed\n");
  expect(await run("list")).toMatch(/^alpha-controller .* changed$/mu);
});

test("plugins list, lock and verify refuse misspelled flags and other arguments, all at once, and ignore flags of plugins", async () => {
  for (const name of ["list", "lock", "verify"])
    expect(await rejection(runPlugins([name, `--plugin-dri=${plugins}`, `--plugin-lock=${file}`, "alpha"]))).toBe(
      [
        "2 problems:",
        "unknown flag: --plugin-dri (did you mean --plugin-dir?)",
        '"cloud-controller-host" does not take any arguments, got ["alpha"]\nrun "cloud-controller-host --help" for a list of flags',
      ].join("\n  - "),
    );
  await run("lock");
  const flags = ["--alpha-controller-workers=2", "--cluster-name=x", "--cloud-config", "missing.yaml"];
  expect(await runPlugins(["verify", `--plugin-lock=${file}`, `--plugin-dir=${plugins}`, ...flags])).toBe(
    "1 plugin is as locked\n",
  );
});
