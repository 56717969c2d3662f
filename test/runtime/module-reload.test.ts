import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Bun's own behavior, without any code of the host: what hot loading of plugins is built on. */
let folder = "";

beforeEach(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "module-reload-")));
});
afterEach(() => rm(folder, { recursive: true }));

const write = (name: string, content: string): Promise<void> => writeFile(join(folder, name), content);

function evict(prefix: string): void {
  for (const path of Object.keys(require.cache)) if (path.startsWith(`${prefix}/`)) delete require.cache[path];
}

describe("deleting a folder's modules from require.cache", () => {
  test("makes the next import read the entry and its siblings again", async () => {
    await mkdir(join(folder, "plugin"));
    await write("plugin/sibling.ts", "export const word = 'old';");
    await write("plugin/plugin.ts", "import { word } from './sibling.ts'; export default { entry: 'old', word };");
    const entry = join(folder, "plugin/plugin.ts");
    expect((await import(entry)).default).toEqual({ entry: "old", word: "old" });

    await write("plugin/sibling.ts", "export const word = await Promise.resolve('new');");
    await write("plugin/plugin.ts", "import { word } from './sibling.ts'; export default { entry: 'new', word };");
    expect((await import(entry)).default).toEqual({ entry: "old", word: "old" });
    evict(join(folder, "plugin"));
    expect((await import(entry)).default).toEqual({ entry: "new", word: "new" });
  });

  test("keeps the identity of a module outside the folder", async () => {
    await mkdir(join(folder, "plugin"));
    await write("shared.ts", "export class Shared {}");
    await write("plugin/plugin.ts", "export { Shared } from '../shared.ts';");
    const { Shared } = await import(join(folder, "shared.ts"));
    const before = await import(join(folder, "plugin/plugin.ts"));
    evict(join(folder, "plugin"));
    const after = await import(join(folder, "plugin/plugin.ts"));
    expect(after).not.toBe(before);
    expect(after.Shared).toBe(Shared);
  });

  test("finds modules of a symlinked folder by its real path", async () => {
    await mkdir(join(folder, "version-1"));
    await write("version-1/plugin.ts", "export default 1;");
    await symlink(join(folder, "version-1"), join(folder, "current"));
    const path = await realpath(join(folder, "current/plugin.ts"));
    expect((await import(path)).default).toBe(1);
    expect(Object.keys(require.cache)).toContain(join(folder, "version-1/plugin.ts"));
  });

  test("rejects a version with a syntax error, keeps the old values working, and imports the fixed one", async () => {
    await mkdir(join(folder, "plugin"));
    const entry = join(folder, "plugin/plugin.ts");
    await write("plugin/plugin.ts", "export default () => 'old';");
    const old = await import(entry);
    await write("plugin/plugin.ts", "export default () => {");
    evict(join(folder, "plugin"));
    await expect(import(entry)).rejects.toThrow();
    expect(old.default()).toBe("old");
    await write("plugin/plugin.ts", "export default () => 'fixed';");
    evict(join(folder, "plugin"));
    expect((await import(entry)).default()).toBe("fixed");
  });

  test("frees the memory of old copies", async () => {
    const copies = 60;
    const megabytesEach = 8;
    await write(
      "heavy.ts",
      `export const held = Array.from({ length: ${megabytesEach * 131_072} }, (_, i) => i + 0.5);`,
    );
    await write(
      "loads.ts",
      `const entry = ${JSON.stringify(join(folder, "heavy.ts"))};
       const load = async () => { delete require.cache[entry]; (await import(entry)).held.length; };
       await load();
       Bun.gc(true);
       const before = process.memoryUsage().rss;
       for (let copy = 0; copy < ${copies}; copy++) await load();
       Bun.gc(true);
       console.log(process.memoryUsage().rss - before);`,
    );
    const child = Bun.spawn([process.execPath, join(folder, "loads.ts")], { stderr: "inherit" });
    const grownMegabytes = Number(await child.stdout.text()) / 2 ** 20;
    expect(grownMegabytes).toBeLessThan((copies * megabytesEach) / 3);
  });
});
