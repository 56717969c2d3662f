import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { eventually } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../../host/async/clock.ts";
import { pluginSource } from "../../../../host/generation/plugins/plugin-source.ts";
import { PrivateCopies } from "../../../../host/generation/plugins/private-copies.ts";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "plugin-source-"));
});
afterEach(() => rm(folder, { recursive: true }));

/** A version of a mounted volume: its files in a folder of their own, and `..data` swapped to it in one step. */
async function mountVersion(version: string, source: string): Promise<void> {
  await mkdir(join(folder, version, "greeter"), { recursive: true });
  await writeFile(join(folder, version, "greeter", "plugin.ts"), source);
  await symlink(version, join(folder, "..data_tmp"));
  await rename(join(folder, "..data_tmp"), join(folder, "..data"));
}

describe("the sources of plugins", () => {
  test("the sources of plugins in a mounted volume change with the content of the files, not with the ..data folder", async () => {
    await mountVersion("..2026_1", "one");
    await symlink("..data/greeter", join(folder, "greeter"));
    const copies = new PrivateCopies(systemClock);
    const first = await copies.hashOf(join(folder, "greeter"));
    await mountVersion("..2026_2", "one");
    expect(await copies.hashOf(join(folder, "greeter"))).toBe(first);
    await mountVersion("..2026_3", "two");
    expect(await copies.hashOf(join(folder, "greeter"))).not.toBe(first);
  });

  test("take one stat per file, and of an installed dependency only its manifest", async () => {
    const [plugin, dependency] = [join(folder, "greeter"), join(folder, "greeter", "node_modules", "left")];
    await mkdir(join(dependency, "lib"), { recursive: true });
    await writeFile(join(plugin, "plugin.ts"), "one");
    await writeFile(join(dependency, "package.json"), "{}");
    for (let index = 0; index < 50; index++) await writeFile(join(dependency, "lib", `${index}.js`), "one");
    const source = pluginSource([plugin]);
    const before = await source.read();
    expect(before.split("\n").map((line) => line.split(" ")[0])).toEqual([
      join(dependency, "package.json"),
      join(plugin, "plugin.ts"),
    ]);
    await writeFile(join(dependency, "package.json"), '{ "version": "2" }');
    expect(await source.read()).not.toBe(before);
  });

  test("a plugin folder that another takes the place of is watched under its name", async () => {
    await mkdir(join(folder, "greeter"));
    await mkdir(join(folder, "next"));
    await writeFile(join(folder, "greeter", "plugin.ts"), "one");
    const source = pluginSource([join(folder, "greeter")]);
    let hints = 0;
    const watcher = source.watch(() => (hints += 1));
    await source.read();
    await rename(join(folder, "greeter"), join(folder, "old"));
    await rename(join(folder, "next"), join(folder, "greeter"));
    await eventually("the change is seen", () => hints > 0);
    await Bun.sleep(50);
    await source.read();
    hints = 0;
    await writeFile(join(folder, "greeter", "plugin.ts"), "two");
    await eventually("what the new one holds is seen", () => hints > 0);
    watcher.close();
  });

  test("the folder that a link leads to is watched once the link has changed, and the former one no longer", async () => {
    for (const version of ["one", "two"]) {
      await mkdir(join(folder, version));
      await writeFile(join(folder, version, "plugin.ts"), version);
    }
    const plugins = join(folder, "plugins");
    await mkdir(plugins);
    await symlink("../one", join(plugins, "greeter"));
    const source = pluginSource([plugins]);
    let hints = 0;
    const watcher = source.watch(() => (hints += 1));
    await source.read();
    await rm(join(plugins, "greeter"));
    await symlink("../two", join(plugins, "greeter"));
    await eventually("the new link is seen", () => hints > 0);
    await source.read();
    await Bun.sleep(50);
    hints = 0;
    await writeFile(join(folder, "one", "plugin.ts"), "changed");
    await Bun.sleep(100);
    expect(hints).toBe(0);
    await writeFile(join(folder, "two", "plugin.ts"), "changed");
    await eventually("the change is seen", () => hints > 0);
    watcher.close();
  });

  test("are read despite dangling and circular symlinks", async () => {
    await mkdir(join(folder, "greeter"));
    await writeFile(join(folder, "greeter", "plugin.ts"), "one");
    const source = pluginSource([folder]);
    const before = await source.read();
    await symlink("nowhere", join(folder, "greeter", "broken"));
    await symlink("..", join(folder, "greeter", "back"));
    expect(await source.read()).toBe(before);
  });
});
