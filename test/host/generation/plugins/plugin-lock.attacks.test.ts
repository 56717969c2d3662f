import { afterEach, beforeEach, expect, test } from "bun:test";
import { chmod, mkdir, mkdtemp, readFile, realpath, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { systemClock } from "../../../../host/async/clock.ts";
import { OutstandingWork } from "../../../../host/async/outstanding-work.ts";
import { runPlugins } from "../../../../host/cli/plugins.ts";
import { pluginLoader } from "../../../../host/generation/plugins/load.ts";
import { PrivateCopies } from "../../../../host/generation/plugins/private-copies.ts";

const repository = join(import.meta.dir, "../../../..");
let root = "";
const previous = process.env["TMPDIR"];

beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), "plugin-lock-attacks-")));
});
afterEach(async () => {
  if (previous === undefined) delete process.env["TMPDIR"];
  else process.env["TMPDIR"] = previous;
  await rm(root, { recursive: true, force: true });
});

const evil = 'globalThis.evilRuns = (globalThis.evilRuns ?? 0) + 1; export const word = "evil";';
const evilRuns = (): unknown => Reflect.get(globalThis, "evilRuns");
const good = 'export const word = "good";';

/** A plugin whose alias is a word that `imports` brings in. */
const plugin = (imports = 'const word = "plain";'): string => `
  import { defineController } from "cloud-controller-host/sdk";
  ${imports}
  export default defineController({ name: "p-controller", aliases: [word], construct: () => () => ({ run: async () => undefined }) });`;

type Files = Readonly<Record<string, string>>;

async function write(files: Files): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  }
}

const lockFile = (): string => join(root, "plugins.lock");
const lock = (): Promise<string> =>
  runPlugins(["lock", `--plugin-lock=${lockFile()}`, `--plugin-dir=${join(root, "plugins")}`]);

/** The aliases that were loaded, or the problems. */
async function load(): Promise<string> {
  await using copies = new PrivateCopies(systemClock);
  await mkdir(join(root, "bundled"), { recursive: true });
  const loaded = await pluginLoader({
    directories: [join(root, "bundled"), join(root, "plugins")],
    copies,
    clock: systemClock,
    outstanding: new OutstandingWork(systemClock),
    importTimeout: 30_000,
    lockFile: lockFile(),
  }).load({ mayLeaveOut: () => false });
  return loaded.ok ? loaded.plugins.controllers.flatMap(({ aliases }) => aliases).join() : loaded.problems.join("; ");
}

/** A package at a path, with a main file. */
const dependency = (path: string, text: string, main = "index.js"): Files => ({
  [join(path, "package.json")]: JSON.stringify({ name: path.split("node_modules/").at(-1), main: `./${main}` }),
  [join(path, main)]: text,
});

const importDep = plugin('import { word } from "dep";');
const differs = /differs from --plugin-lock/u;

interface Attack {
  readonly title: string;
  readonly locked: Files;
  /** Written once the plugin is locked. */
  readonly changed: Files;
  readonly outcome: RegExp;
}

const attacks: readonly Attack[] = [
  {
    title: "a dependency in the node_modules of the folder above",
    locked: { "plugins/p/plugin.ts": importDep, ...dependency("plugins/node_modules/dep", good) },
    changed: { "plugins/node_modules/dep/index.js": evil },
    outcome: differs,
  },
  {
    title: "a dependency two folders above, named only in package.json and imported by a name made at run time",
    locked: {
      "plugins/p/plugin.ts": plugin('const { word } = await import("de" + "p");'),
      "plugins/p/package.json": '{"dependencies": {"dep": "1"}}',
      ...dependency("node_modules/dep", good),
    },
    changed: { "node_modules/dep/index.js": evil },
    outcome: differs,
  },
  {
    title: "a dependency of a dependency",
    locked: {
      "plugins/p/plugin.ts": importDep,
      "plugins/p/node_modules/dep/package.json":
        '{"name": "dep", "main": "index.js", "dependencies": {"@a/inner": "1"}}',
      "plugins/p/node_modules/dep/index.js": 'export { word } from "@a/inner";',
      ...dependency("plugins/p/node_modules/@a/inner", good),
    },
    changed: { "plugins/p/node_modules/@a/inner/index.js": evil },
    outcome: differs,
  },
  {
    title: "a file of its own node_modules",
    locked: { "plugins/p/plugin.ts": importDep, ...dependency("plugins/p/node_modules/dep", good) },
    changed: { "plugins/p/node_modules/dep/index.js": evil },
    outcome: differs,
  },
  ...["..x/i.js", ".git/i.js", "a b\n/i.js", "node_modules.js", "lib/node_modules/i.js"].map((main) => ({
    title: `the file ${JSON.stringify(main)} of a dependency`,
    locked: { "plugins/p/plugin.ts": importDep, ...dependency("plugins/p/node_modules/dep", good, main) },
    changed: { [join("plugins/p/node_modules/dep", main)]: evil },
    outcome: differs,
  })),
  {
    title: "a file beside its folder, which it may not import at all",
    locked: { "plugins/p/plugin.ts": plugin('import { word } from "../shared.ts";'), "plugins/shared.ts": good },
    changed: { "plugins/shared.ts": evil },
    outcome: /cannot be imported: .*\.\.\/shared\.ts/u,
  },
  {
    title: "a tsconfig.json above its folder that redirects an import",
    locked: { "plugins/p/plugin.ts": importDep, ...dependency("plugins/p/node_modules/dep", good) },
    changed: {
      "plugins/tsconfig.json": '{"compilerOptions": {"baseUrl": ".", "paths": {"dep": ["./evil.ts"]}}}',
      "plugins/evil.ts": evil,
    },
    outcome: /^good$/u,
  },
  {
    title: "a package that was not there when it was locked",
    locked: {
      "plugins/p/plugin.ts": plugin('let word = "absent"; try { ({ word } = await import("optional")); } catch {}'),
    },
    changed: { ...dependency("node_modules/optional", evil) },
    outcome: differs,
  },
  {
    title: "a second folder whose name differs in case",
    locked: { "plugins/p/plugin.ts": plugin() },
    changed: { "plugins/P/plugin.ts": `${evil}${plugin()}` },
    outcome: /P is not in --plugin-lock/u,
  },
];

test.each(attacks.map((attack) => [attack.title, attack] as const))(
  "a locked plugin runs no code that was changed after the lock: %s",
  async (_, { locked, changed, outcome }) => {
    await write(locked);
    await lock();
    const before = evilRuns();
    await write(changed);
    expect(await load()).toMatch(outcome);
    expect(evilRuns()).toBe(before);
  },
);

test("a locked plugin imports nothing by an absolute path outside its folder, and its own files by any path", async () => {
  await write({
    "plugins/p/plugin.ts": plugin(`import { word } from "${join(root, "outside.ts")}";`),
    "outside.ts": evil,
  });
  await lock();
  const before = evilRuns();
  expect(await load()).toContain("--plugin-lock does not cover it");
  expect(evilRuns()).toBe(before);
  await write({
    "plugins/p/plugin.ts": plugin('const { word } = await import(import.meta.dir + "/own.ts");'),
    "plugins/p/own.ts": good,
  });
  await lock();
  expect(await load()).toBe("good");
});

const climbing = (path: string): string => "../".repeat(40) + path.slice(1);
const manifest = (fields: object): string => JSON.stringify({ name: "dep", ...fields });

test.each<[title: string, files: (outside: string) => Files]>([
  ["a path without an extension", (file) => ({ "plugin.ts": plugin(`import { word } from "${file.slice(0, -3)}";`) })],
  ["a path that climbs to the root", (file) => ({ "plugin.ts": plugin(`import { word } from "${climbing(file)}";`) })],
  [
    "a path that climbs to the root and is made at run time",
    (file) => ({ "plugin.ts": plugin(`const { word } = await import("../".repeat(40) + "${file.slice(1)}");`) }),
  ],
  [
    "a path in a dependency",
    (file) => ({
      "plugin.ts": importDep,
      ...dependency("node_modules/dep", `export * from "${climbing(file).slice(0, -3)}";`),
    }),
  ],
  [
    "the main file of a dependency",
    (file) => ({ "plugin.ts": importDep, "node_modules/dep/package.json": manifest({ main: file }) }),
  ],
  [
    "the main file of a dependency's dependency in the folder above",
    (file) => ({
      "plugin.ts": importDep,
      "../node_modules/dep/package.json": manifest({ main: "i.js", dependencies: { inner: "1" } }),
      "../node_modules/dep/i.js": 'export * from "inner";',
      "../node_modules/inner/package.json": manifest({ module: climbing(file) }),
    }),
  ],
  [
    "the main file of a folder",
    (file) => ({ "plugin.ts": plugin('import { word } from "./sub";'), "sub/package.json": manifest({ main: file }) }),
  ],
  [
    "a path in its tsconfig.json",
    (file) => ({ "plugin.ts": importDep, "tsconfig.json": `{"compilerOptions": {"paths": {"dep": ["${file}"]}}}` }),
  ],
  [
    "the base URL in its tsconfig.json",
    (file) => ({
      "plugin.ts": plugin('import { word } from "outside";'),
      "tsconfig.json": `{"compilerOptions": {"baseUrl": "${dirname(file)}"}}`,
    }),
  ],
])("a locked plugin imports nothing outside its copy by %s", async (_, files) => {
  const inPlugin = Object.entries(files(join(root, "outside.ts"))).map(([path, text]) => [
    join("plugins/p", path),
    text,
  ]);
  await write({ "outside.ts": evil, ...Object.fromEntries(inPlugin) });
  await lock();
  const before = evilRuns();
  expect(await load()).toMatch(
    /^plugin .*plugin\.ts cannot be imported: Cannot import .* from \/.*\/plugins\/.*: --plugin-lock does not cover it/u,
  );
  expect(evilRuns()).toBe(before);
});

test("a dependency that is swapped between the check and a lazy import runs as it was locked", async () => {
  const file = join(root, "plugins/p/node_modules/dep/index.js");
  await write({
    "plugins/p/plugin.ts": plugin(`import { writeFileSync } from "node:fs";
      writeFileSync("${file}", ${JSON.stringify(evil)});
      const { word } = await import("dep");`),
    ...dependency("plugins/p/node_modules/dep", good),
  });
  await lock();
  const before = evilRuns();
  expect(await load()).toBe("good");
  expect(evilRuns()).toBe(before);
  expect(await readFile(file, "utf8")).toBe(evil);
});

test("packages that are linked into node_modules, as workspaces and stores do, are locked where they are", async () => {
  await write({
    "plugins/p/plugin.ts": importDep,
    "store/dep@1/node_modules/dep/package.json": '{"name": "dep", "main": "i.js", "dependencies": {"inner": "1"}}',
    "store/dep@1/node_modules/dep/i.js": 'export { word } from "inner";',
    ...dependency("store/dep@1/node_modules/inner", good),
    "plugins/node_modules/.keep": "",
  });
  await symlink(join(root, "store/dep@1/node_modules/dep"), join(root, "plugins/node_modules/dep"));
  await lock();
  expect(await load()).toBe("good");
  const before = evilRuns();
  await write({ "store/dep@1/node_modules/inner/index.js": evil });
  expect(await load()).toMatch(differs);
  await write({ ...dependency("store/dep@1/node_modules/inner", good), ...dependency("other/dep", good) });
  expect(await load()).toBe("good");
  await rm(join(root, "plugins/node_modules/dep"));
  await symlink(join(root, "other/dep"), join(root, "plugins/node_modules/dep"));
  expect(await load()).toMatch(differs);
  expect(evilRuns()).toBe(before);
});

test("two linked packages that are exchanged are a change", async () => {
  await write({
    "plugins/p/plugin.ts": plugin('import { word } from "one"; import "two";'),
    ...dependency("store/a", good),
    ...dependency("store/b", 'export const word = "exchanged";'),
    "plugins/node_modules/.keep": "",
  });
  const link = async (name: string, target: string): Promise<void> => {
    await rm(join(root, "plugins/node_modules", name), { force: true });
    await symlink(join(root, "store", target), join(root, "plugins/node_modules", name));
  };
  await link("one", "a");
  await link("two", "b");
  await lock();
  expect(await load()).toBe("good");
  await link("one", "b");
  await link("two", "a");
  expect(await load()).toMatch(differs);
});

test("a lock holds wherever the plugins and what they need are moved to together", async () => {
  await write({ "plugins/p/plugin.ts": importDep, ...dependency("plugins/node_modules/dep", good) });
  await lock();
  const elsewhere = join(root, "elsewhere");
  await mkdir(elsewhere);
  await rename(join(root, "plugins"), join(elsewhere, "plugins"));
  await rename(lockFile(), join(elsewhere, "plugins.lock"));
  const locked = await runPlugins([
    "verify",
    `--plugin-lock=${join(elsewhere, "plugins.lock")}`,
    `--plugin-dir=${join(elsewhere, "plugins")}`,
  ]);
  expect(locked).toBe("1 plugin is as locked\n");
});

test("a spare copy of a plugin that was not locked is not used for a locked one, nor the other way round", async () => {
  await write({ "plugins/p/plugin.ts": importDep, ...dependency("plugins/node_modules/dep", good) });
  await lock();
  const sha256 = /"sha256": "(\w+)"/u.exec(await readFile(lockFile(), "utf8"))?.[1] ?? "";
  await using copies = new PrivateCopies(systemClock);
  const folder = join(root, "plugins/p");
  const open = await copies.take(folder);
  await open.release();
  const sealed = await copies.takeSealed(folder, sha256);
  await sealed?.release();
  const openAgain = await copies.take(folder);
  const sealedAgain = await copies.takeSealed(folder, sha256);
  expect([openAgain.folder, sealedAgain?.folder]).toEqual([open.folder, sealed?.folder]);
  expect(open.folder).not.toBe(sealed?.folder);
});

test("no two listings of files have one hash: neither names nor contents can stand for each other", async () => {
  await write({ "plugins/p/plugin.ts": plugin(), "plugins/p/a": "y", "plugins/p/b": "x" });
  const hash = async (): Promise<string> => {
    await lock();
    return /"sha256": "(\w+)"/u.exec(await readFile(lockFile(), "utf8"))?.[1] ?? "";
  };
  const hashes = [await hash()];
  const listings: readonly Files[] = [
    { ab: "yx" },
    { a: "yb", x: "" },
    { "a\ny  b": "x" },
    { a: "y", b: "x1" },
    { a: "yfilebx" },
  ];
  for (const files of listings) {
    await rm(join(root, "plugins/p"), { recursive: true });
    await write({ "plugins/p/plugin.ts": plugin() });
    for (const [name, text] of Object.entries(files)) await writeFile(join(root, "plugins/p", name), text);
    hashes.push(await hash());
  }
  expect(new Set(hashes).size).toBe(hashes.length);
});

test.each([
  "null",
  "2",
  "[]",
  "{}",
  '{"version": 2}',
  '{"version": 2, "plugins": null}',
  '{"version": 2, "plugins": {"p": 1}}',
])("a file that is not a lock is refused, and nothing is imported: %s", async (text) => {
  await write({ "plugins/p/plugin.ts": plugin(evil), "plugins.lock": text });
  const before = evilRuns();
  expect(await load()).toContain("not a lock file of this version");
  expect(evilRuns()).toBe(before);
});

test.each([
  ["is not JSON", (path: string) => writeFile(path, '{"version":')],
  ["is not an object", (path: string) => writeFile(path, "null")],
  ["is a pipe", (path: string) => Bun.$`mkfifo ${path}`.quiet()],
  ["is a device", (path: string) => symlink("/dev/zero", path)],
])("a plugin whose package.json %s is listed and locked without a version", async (_, make) => {
  await write({ "plugins/p/plugin.ts": plugin() });
  await make(join(root, "plugins/p/package.json"));
  await lock();
  expect(JSON.parse(await readFile(lockFile(), "utf8"))).toMatchObject({ plugins: { p: { version: "" } } });
  expect(await runPlugins(["list", `--plugin-dir=${join(root, "plugins")}`])).toContain("p-controller");
  expect(await load()).toBe("plain");
});

test("a lock of the first version, which covered less, is refused", async () => {
  await write({ "plugins/p/plugin.ts": plugin() });
  await lock();
  await writeFile(lockFile(), (await readFile(lockFile(), "utf8")).replace('"version": 2', '"version": 1'));
  expect(await load()).toContain("not a lock file of this version");
});

test.each([
  [
    "tsconfig.json with paths",
    {
      "tsconfig.json": '{"compilerOptions": {"baseUrl": ".", "paths": {"dep": ["./evil.ts"], "*": ["./evil.ts"]}}}',
      "evil.ts": evil,
    },
  ],
  ["package.json with an alias", { "package.json": '{"imports": {"#alias": "./evil.ts"}}', "evil.ts": evil }],
  ["node_modules with a package that is not installed", dependency("node_modules/optional", evil)],
])("what others write above the private copies decides no import: a %s", async (_, files: Files) => {
  const shared = join(root, "shared");
  await mkdir(shared);
  await chmod(shared, 0o1777);
  process.env["TMPDIR"] = shared;
  await write(Object.fromEntries(Object.entries(files).map(([path, text]) => [join("shared", path), text])));
  await write({
    "plugins/p/plugin.ts": plugin(`import { word } from "dep"; import "./local.ts";
      for (const name of ["optional", "#alias"]) try { await import(name); } catch {}`),
    "plugins/p/local.ts": good,
    ...dependency("plugins/p/node_modules/dep", good),
  });
  await lock();
  const before = evilRuns();
  expect(await load()).toBe("good");
  expect(evilRuns()).toBe(before);
});

test("a bunfig.toml and a .env of the working directory change nothing, by the command and by the image's entry point", async () => {
  await write({
    "bunfig.toml": 'preload = ["./evil.ts"]',
    "evil.ts": 'process.stdout.write("evil");',
    ".env": "HTTPS_PROXY=http://evil\nNODE_OPTIONS=--evil",
    "main.ts": 'process.stdout.write(`ran ${process.env["HTTPS_PROXY"] ?? ""}`);',
  });
  const run = async (command: readonly string[]): Promise<string> => {
    const path = `${dirname(process.execPath)}:${process.env["PATH"] ?? ""}`;
    const child = Bun.spawn([...command], { cwd: root, stdout: "pipe", env: { PATH: path } });
    return child.stdout.text();
  };
  const text = await readFile(join(repository, "deploy/Containerfile"), "utf8");
  const entryPoint: readonly string[] = JSON.parse(/^ENTRYPOINT (.*)$/mu.exec(text)?.[1] ?? "[]");
  const [firstLine = ""] = (await readFile(join(repository, "host/main.ts"), "utf8")).split("\n");
  const commands = [entryPoint.slice(1, -1), firstLine.split(" ").slice(3)].map((options) => [
    process.execPath,
    ...options,
    "main.ts",
  ]);
  expect(await run([process.execPath, "main.ts"])).toBe("evilran http://evil");
  for (const command of commands) expect(await run(command)).toBe("ran ");
  expect(await run([join(repository, "host/main.ts"), "--version"])).toMatch(/^cloud-controller-host v/u);
});
