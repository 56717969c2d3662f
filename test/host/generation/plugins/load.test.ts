import { afterEach, describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { systemClock } from "../../../../host/async/clock.ts";
import { OutstandingWork } from "../../../../host/async/outstanding-work.ts";
import { loadPlugins, pluginLoader } from "../../../../host/generation/plugins/load.ts";
import { PrivateCopies } from "../../../../host/generation/plugins/private-copies.ts";
import { provideSdk } from "../../../../host/generation/plugins/sdk-module.ts";

provideSdk();

const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});

type Sources = Readonly<Record<string, string>>;

/** A plugin folder outside the tree, without a `node_modules`. */
async function pluginDirectory(plugins: Readonly<Record<string, Sources>>): Promise<string> {
  const root = await realpath(await mkdtemp(join(tmpdir(), "plugins-")));
  folders.push(root);
  for (const [name, sources] of Object.entries(plugins)) await writeSources(join(root, name), sources);
  return root;
}

async function writeSources(folder: string, sources: Sources): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (const [file, text] of Object.entries(sources)) await writeFile(join(folder, file), text);
}

const controller = (name: string, more = ""): string => `
  import { defineController, skipped } from "cloud-controller-host/sdk";
  export default defineController({ name: "${name}", ${more} construct: () => () => skipped("a test") });
`;

let webhooks = 0;
/** A webhook with a name of its own. */
const webhook = (path: string): string => `
  import { defineWebhook } from "cloud-controller-host/sdk";
  export default defineWebhook({ name: "webhook-${++webhooks}", path: ${path}, admit: () => ({ allowed: true }) });
`;

async function problemsOf(directory: string): Promise<readonly string[]> {
  const loaded = await loadPlugins([directory]);
  return loaded.ok ? [] : loaded.problems;
}

test("the hash of plugins is that of their content, and of their problems where there are some", async () => {
  const directory = await pluginDirectory({ a: { "plugin.ts": controller("a"), "data.txt": "1" } });
  await using copies = new PrivateCopies(systemClock);
  const outstanding = new OutstandingWork(systemClock);
  const loader = pluginLoader({ directories: [directory], copies, clock: systemClock, outstanding, importTimeout: 1 });
  const before = await loader.hash();
  expect(await loader.hash()).toBe(before);
  await writeFile(join(directory, "a", "data.txt"), "2, and longer");
  const after = await loader.hash();
  expect(after).not.toBe(before);
  await rm(directory, { recursive: true });
  expect(await loader.hash()).not.toBe(after);
});

test("the hash of plugins changes when an empty folder of them disappears, which a load reports", async () => {
  const [directory, empty] = [
    await pluginDirectory({ a: { "plugin.ts": controller("a") } }),
    await pluginDirectory({}),
  ];
  await using copies = new PrivateCopies(systemClock);
  const options = { copies, clock: systemClock, outstanding: new OutstandingWork(systemClock), importTimeout: 1 };
  const loader = pluginLoader({ directories: [directory, empty], ...options });
  const before = await loader.hash();
  await rm(empty, { recursive: true });
  expect(await loader.hash()).not.toBe(before);
});

test("a third-party plugin whose name an earlier one has is left out alone where that is allowed", async () => {
  const bundled = await pluginDirectory({});
  const directory = await pluginDirectory({
    first: { "plugin.ts": controller("twin-controller") },
    second: { "plugin.ts": controller("twin-controller") },
  });
  await using copies = new PrivateCopies(systemClock);
  const options = { copies, clock: systemClock, outstanding: new OutstandingWork(systemClock), importTimeout: 30_000 };
  const loaded = await pluginLoader({ directories: [bundled, directory], ...options }).load({
    mayLeaveOut: () => true,
  });
  if (!loaded.ok) throw new Error(loaded.problems.join());
  const { controllers, refused, sources } = loaded.plugins;
  expect(controllers).toHaveLength(1);
  expect(sources.map(({ folder }) => folder)).toEqual([join(directory, "first")]);
  expect(refused.map(({ plugin }) => plugin)).toEqual([join(directory, "second")]);
});

test("a load is known to have timed out when nothing is wrong but an import that does not return", async () => {
  const directory = await pluginDirectory({ a: { "plugin.ts": "await new Promise(() => {});" } });
  await using copies = new PrivateCopies(systemClock);
  const outstanding = new OutstandingWork(systemClock);
  const options = { copies, clock: systemClock, outstanding, importTimeout: 100 };
  const load = (more: readonly string[] = []) =>
    pluginLoader({ directories: [directory, ...more], ...options }).load({ mayLeaveOut: () => false });
  expect(await load()).toMatchObject({
    ok: false,
    timedOut: true,
    problems: [expect.stringContaining("within 0.1 s")],
  });
  const wrong = await pluginDirectory({ b: { "plugin.ts": "export const x = 1;" } });
  expect(await load([wrong])).toMatchObject({ ok: false, timedOut: false });
});

describe("plugins", () => {
  test("outside the tree import the SDK by name, without a node_modules of their own", async () => {
    const directory = await pluginDirectory({ hello: { "plugin.ts": controller("hello-controller") } });
    const loaded = await loadPlugins([directory]);
    expect(loaded).toMatchObject({ ok: true, plugins: { controllers: [{ name: "hello-controller" }], clouds: [] } });
  });

  test("are controllers, clouds or webhooks by what they export", async () => {
    const cloud = `
      import { defineCloud, Type } from "cloud-controller-host/sdk";
      export default defineCloud({ name: "c", configSchema: Type.Object({}), create: () => Promise.reject(new Error()) });`;
    const directory = await pluginDirectory({
      a: { "plugin.ts": controller("a-controller") },
      b: { "plugin.ts": webhook('"/validate"') },
      c: { "plugin.ts": cloud },
    });
    const loaded = await loadPlugins([directory]);
    if (!loaded.ok) throw new Error(loaded.problems.join("; "));
    const { controllers, clouds, webhooks: found } = loaded.plugins;
    expect([controllers.length, clouds.length, found.length]).toEqual([1, 1, 1]);
    expect([controllers[0]?.name, clouds[0]?.name, found[0]?.path]).toEqual(["a-controller", "c", "/validate"]);
  });

  test("are imported again at each load, helper modules included", async () => {
    const entry = `
      import { aliases } from "./aliases.ts";
      import { defineController, skipped } from "cloud-controller-host/sdk";
      export default defineController({ name: "a-controller", aliases, construct: () => () => skipped("") });`;
    const directory = await pluginDirectory({
      a: { "plugin.ts": entry, "aliases.ts": 'export const aliases = ["one"];' },
    });
    const aliasesNow = async (): Promise<unknown> => {
      const loaded = await loadPlugins([directory]);
      return loaded.ok ? loaded.plugins.controllers[0]?.aliases : loaded.problems;
    };
    expect(await aliasesNow()).toEqual(["one"]);
    await writeSources(join(directory, "a"), { "aliases.ts": 'export const aliases = ["two"];' });
    expect(await aliasesNow()).toEqual(["two"]);
  });

  test("import what is above a helper module from the same copy, and again at each load", async () => {
    const entry = `
      import { aliases } from "./lib/names.ts";
      import { defineController, skipped } from "cloud-controller-host/sdk";
      export default defineController({ name: "a-controller", aliases, construct: () => () => skipped("") });`;
    const directory = await pluginDirectory({ a: { "plugin.ts": entry } });
    await writeSources(join(directory, "a", "lib"), { "names.ts": 'export { aliases } from "../aliases.ts";' });
    for (const alias of ["one", "two"]) {
      await writeSources(join(directory, "a"), { "aliases.ts": `export const aliases = ["${alias}"];` });
      expect(await loadPlugins([directory])).toMatchObject({
        ok: true,
        plugins: { controllers: [{ aliases: [alias] }] },
      });
    }
  });

  test("plugins that cannot be loaded are all reported at once, each with a remedy", async () => {
    const directory = await pluginDirectory({
      "1-throws": { "plugin.ts": 'throw new Error("boom at import");' },
      "2-syntax": { "plugin.ts": "let a, a;\nlet b, b;\n" },
      "3-no-default": { "plugin.ts": "export const x = 1;" },
      "4-no-plugin": { "plugin.ts": "export default 42;" },
      "5-bad-name": { "plugin.ts": controller("Bad Name") },
      "6-first": { "plugin.ts": controller("twin-controller") },
      "7-second": { "plugin.ts": controller("twin-controller") },
      "8-alias": { "plugin.ts": controller("other-controller", 'aliases: ["twin-controller"],') },
      "9-webhook": { "plugin.ts": webhook('"/validate"') },
      "a-webhook": { "plugin.ts": webhook('"/validate"') },
      "b-half": {
        "plugin.ts": 'export default { kind: "webhook", name: "half", path: "/half", admit: "no function" };',
      },
      "not-a-plugin": { "readme.txt": "folders without a plugin.ts are left alone" },
    });
    const problems = await problemsOf(directory);
    const named = (part: string): string => problems.find((problem) => problem.includes(part)) ?? "";
    expect(named("1-throws")).toContain("cannot be imported: boom at import");
    expect(named("2-syntax")).toMatch(/cannot be imported: .*plugin\.ts:1:\d+: /);
    expect(named("3-no-default")).toContain("has no default export; add: export default defineController");
    expect(named("4-no-plugin")).toContain("its default export is not a plugin");
    expect(named("5-bad-name")).toContain('plugin name "Bad Name" must be lower-case words');
    expect(named("7-second")).toContain('the controller name "twin-controller" is taken by plugin');
    expect(named("8-alias")).toContain('the controller name "twin-controller" is taken by plugin');
    expect(named("a-webhook")).toContain('the path "/validate" is taken by plugin');
    expect(named("b-half")).toContain("its default export is not a plugin");
    expect(problems).toHaveLength(9);
    expect(problems.join("")).not.toContain("\n");
  });

  test("a plugin that no function of the SDK has made gets the members that it lacks, and is refused for malformed ones", async () => {
    const bare = (kind: string, rest = ""): string =>
      `export default { kind: "${kind}", name: "bare-${kind}", path: "/", aliases: [], bind() {}, admit() {}, ${rest} };`;
    const bares = ["controller", "cloud", "webhook"].map((kind) => [kind, { "plugin.ts": bare(kind) }]);
    const loaded = await loadPlugins([await pluginDirectory(Object.fromEntries(bares))]);
    if (!loaded.ok) throw new Error(loaded.problems.join());
    expect(loaded.plugins.controllers).toMatchObject([
      { permissions: [], enabledByDefault: true, initContext: { clientName: "bare-controller" } },
    ]);
    expect(loaded.plugins.clouds).toMatchObject([{ permissions: [] }]);
    expect(loaded.plugins.webhooks).toMatchObject([{ rules: [], type: "validating" }]);

    const malformed = [
      ["controller", "permissions: 'nodes'"],
      ["controller", "permissions: [{ apiGroup: '', resources: ['nodes'] }]"],
      ["controller", "permissions: [{ resources: ['nodes'], verbs: ['get'] }]"],
      ["cloud", "permissions: [{ apiGroup: '', resources: 'nodes', verbs: ['get'] }]"],
      ["controller", "kinds: ['foos']"],
      ["controller", "kinds: [{ group: 'example.com', version: 'v1', kind: 'Foo', namespaced: true }]"],
      ["controller", "configSchema: { anyOf: [] }"],
      ["webhook", "rules: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['pods'] }]"],
    ].map(([kind = "", rest], index) => [`${index}`, { "plugin.ts": bare(kind, rest) }]);
    const problems = await problemsOf(await pluginDirectory(Object.fromEntries(malformed)));
    expect(problems.map((problem) => /plugin\.ts: its (\w+) must be/u.exec(problem)?.[1])).toEqual([
      "permissions",
      "permissions",
      "permissions",
      "permissions",
      "kinds",
      "kinds",
      "configSchema",
      "rules",
    ]);
  });

  test("are an error when their folder does not exist", async () => {
    expect(await problemsOf("/no/such/folder")).toEqual([
      expect.stringContaining("--plugin-dir=/no/such/folder: the folder cannot be read"),
    ]);
  });

  test("load after their syntax error is fixed", async () => {
    const directory = await pluginDirectory({ a: { "plugin.ts": "export default {{" } });
    const file = join(directory, "a/plugin.ts");
    expect(await problemsOf(directory)).toEqual([
      expect.stringMatching(new RegExp(`^plugin ${file} cannot be imported: ${file}:1:\\d+: `)),
    ]);
    await writeSources(join(directory, "a"), { "plugin.ts": controller("a-controller") });
    expect(await problemsOf(directory)).toEqual([]);
  });

  test("modules that throw a value which refuses to show what it is, or export one that throws when it is read, are refused plugins", async () => {
    const liar = (trap: string): string => `new Proxy({}, { ${trap}() { throw new Error("no ${trap}"); } })`;
    const directory = await pluginDirectory({
      "1-prototype": { "plugin.ts": `throw ${liar("getPrototypeOf")};` },
      "2-message": { "plugin.ts": `throw ${liar("get")};` },
      "3-errors": {
        "plugin.ts": 'throw Object.defineProperty(new AggregateError([]), "errors", { get() { throw 1; } });',
      },
      "4-keys": { "plugin.ts": `export default ${liar("ownKeys")};` },
      "5-getter": { "plugin.ts": 'export default { get name() { throw new Error("no name"); } };' },
      "6-long": { "plugin.ts": 'throw new Error("x".repeat(10_000_000));' },
      "7-terminal": { "plugin.ts": String.raw`throw new Error("\u001B[2J\u0007cleared\u202E");` },
    });
    const problems = await problemsOf(directory);
    expect(problems.map((problem) => / cannot be imported: (.{0,40})/u.exec(problem)?.[1])).toEqual([
      "an error without a readable message",
      "an error without a readable message",
      "",
      "no ownKeys",
      "no name",
      "x".repeat(40),
      String.raw`\u{001b}[2J\u{0007}cleared\u{202e}`,
    ]);
    expect(problems.join("").length).toBeLessThan(5_000);
  });

  test("a plugin with another name at each read keeps the first one, and a malformed name is refused in a short line", async () => {
    const fields = 'kind: "controller", bind() {}, ';
    const changing = `let reads = 0;
      export default { ${fields} aliases: [], get name() { return "name-" + ++reads; } };`;
    const one = await loadPlugins([await pluginDirectory({ a: { "plugin.ts": changing } })]);
    const [plugin] = one.ok ? one.plugins.controllers : [];
    expect([plugin?.name, plugin?.name]).toEqual(["name-1", "name-1"]);
    const directory = await pluginDirectory({
      "1-long": { "plugin.ts": `export default { ${fields} aliases: [], name: "x".repeat(10_000_000) };` },
      "2-blank": { "plugin.ts": `export default { ${fields} aliases: [], name: "a b" };` },
      "3-defined": {
        "plugin.ts": `import { defineCloud } from "cloud-controller-host/sdk";
          export default defineCloud({ name: "x".repeat(10_000_000) });`,
      },
      "4-aliases": { "plugin.ts": `export default { ${fields} name: "a" };` },
      "5-alias": { "plugin.ts": `export default { ${fields} name: "b", aliases: [1] };` },
      "6-path": { "plugin.ts": 'export default { kind: "webhook", name: "c", admit() {} };' },
    });
    expect((await problemsOf(directory)).map((problem) => problem.replaceAll(`${directory}/`, ""))).toEqual([
      "plugin 1-long/plugin.ts: its name must be lower-case words joined by hyphens, at most 63 characters",
      "plugin 2-blank/plugin.ts: its name must be lower-case words joined by hyphens, at most 63 characters",
      expect.stringMatching(
        /^plugin 3-defined.plugin.ts cannot be imported: plugin name "x{64}" must be lower-case words/u,
      ),
      ...["4-aliases", "5-alias", "6-path"].map((name): unknown =>
        expect.stringContaining(`plugin ${name}/plugin.ts: its default export is not a plugin`),
      ),
    ]);
  });
});
