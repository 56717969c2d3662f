import { afterEach, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, realpath, rm, stat, unlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { CodedError } from "cloud-controller-host/sdk";

import { systemClock } from "../../../../host/async/clock.ts";
import { OutstandingWork } from "../../../../host/async/outstanding-work.ts";
import { type LoadedPlugins, type LoadRequest, pluginLoader } from "../../../../host/generation/plugins/load.ts";
import { pluginSource } from "../../../../host/generation/plugins/plugin-source.ts";
import { PrivateCopies } from "../../../../host/generation/plugins/private-copies.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

/** One loader for the life of a process, on a folder of plugins that a test writes to. */
class LoaderLab {
  readonly outstanding = new OutstandingWork(systemClock);
  readonly copies = stack.use(new PrivateCopies(systemClock));
  readonly bundled: string;
  readonly directory: string;

  static async open(place = tmpdir()): Promise<LoaderLab> {
    const root = await realpath(await mkdtemp(join(place, ".private-copies-")));
    stack.defer(() => rm(root, { recursive: true, force: true }));
    await mkdir(join(root, "bundled"));
    await mkdir(join(root, "plugins"));
    return new LoaderLab(root);
  }

  private constructor(root: string) {
    this.bundled = join(root, "bundled");
    this.directory = join(root, "plugins");
  }

  async write(files: Readonly<Record<string, string>>): Promise<void> {
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(this.directory, path)), { recursive: true });
      await writeFile(join(this.directory, path), text);
    }
  }

  loader(importTimeout = 5_000) {
    const { bundled, directory, copies, outstanding } = this;
    return pluginLoader({ directories: [bundled, directory], copies, clock: systemClock, outstanding, importTimeout });
  }

  async load(request: Partial<LoadRequest> = {}, importTimeout?: number): Promise<LoadedPlugins> {
    const loaded = await this.loader(importTimeout).load({ mayLeaveOut: () => false, ...request });
    if (!loaded.ok) throw new Error(loaded.problems.join("; "));
    stack.defer(loaded.plugins.retain());
    return loaded.plugins;
  }

  async problems(importTimeout?: number): Promise<string> {
    const loaded = await this.loader(importTimeout).load({ mayLeaveOut: () => false });
    return loaded.ok ? "" : loaded.problems.join("; ");
  }
}

/** A plugin whose aliases say what was loaded, at once and lazily: a controller's `construct` is what imports lazily. */
const plugin = (before: string, aliases = '["plain"]', construct = "() => { throw new Error(); }"): string => `
  import { defineController } from "cloud-controller-host/sdk";
  ${before}
  export default defineController({ name: "a-controller", aliases: ${aliases}, construct: ${construct} });`;

const aliasesOf = (plugins: LoadedPlugins): readonly string[] => plugins.controllers.flatMap(({ aliases }) => aliases);

/** Imports lazily, by a name that no tool can see. */
const lazy = plugin("", "[]", '() => async () => ({ skipped: (await import("./" + "part.ts")).word })');
const lazyWord = async ({ controllers: [controller] }: LoadedPlugins): Promise<unknown> => {
  const bound: unknown = Reflect.get(controller ?? {}, "bind");
  const decoded: unknown = typeof bound === "function" ? Reflect.apply(bound, controller, [undefined]) : undefined;
  const value: unknown = Reflect.get(Object(decoded), "value");
  const init: unknown = typeof value === "function" ? Reflect.apply(value, undefined, [{}, {}]) : undefined;
  const outcome: unknown = typeof init === "function" ? await Reflect.apply(init, undefined, [{}]) : undefined;
  return Reflect.get(Object(outcome), "skipped");
};

describe("a loaded generation", () => {
  test("runs its own code after the files changed, lazily imported files included", async () => {
    const lab = await LoaderLab.open();
    await lab.write({ "a/plugin.ts": lazy, "a/part.ts": 'export const word = "old";' });
    const old = await lab.load();
    await lab.write({ "a/part.ts": 'export const word = "new";' });
    const next = await lab.load();
    expect([await lazyWord(next), await lazyWord(old)]).toEqual(["new", "old"]);
    await lab.write({ "a/plugin.ts": "this is no TypeScript {{" });
    expect(await lab.problems()).toContain("cannot be imported");
    expect([await lazyWord(next), await lazyWord(old)]).toEqual(["new", "old"]);
  });

  test("gets its own module instances, even when nothing has changed", async () => {
    const lab = await LoaderLab.open();
    await lab.write({ "a/plugin.ts": plugin("let loads = 0; loads += 1;", "[String(loads)]") });
    const [one, other] = [await lab.load(), await lab.load()];
    expect([aliasesOf(one), aliasesOf(other)]).toEqual([["1"], ["1"]]);
    expect(one.hash).toBe(other.hash);
    expect(one.controllers[0]).not.toBe(other.controllers[0]);
  });

  test("keeps its files until the last holder has released them, and leaves no copy behind", async () => {
    const lab = await LoaderLab.open();
    await lab.write({ "a/plugin.ts": plugin("", "[import.meta.dir]") });
    const loaded = await lab.loader().load({ mayLeaveOut: () => false });
    if (!loaded.ok) throw new Error("it is refused");
    const [folder = ""] = aliasesOf(loaded.plugins);
    const [first, second] = [loaded.plugins.retain(), loaded.plugins.retain()];
    first();
    first();
    await lab.write({ "a/plugin.ts": plugin("", '["other"]') });
    await lab.load();
    expect(existsSync(folder)).toBe(true);
    second();
    await lab.copies[Symbol.asyncDispose]();
    expect(existsSync(folder)).toBe(false);
  });

  test.each([
    ["plugin.ts", "../../plugins/shared.ts"],
    ["deep/part.ts", "./../../shared.ts"],
    ["deep/part.ts", "../deep/../../shared.ts"],
    ["deep/er/part.ts", "../../../shared.ts"],
  ])("imports from outside its folder: %s imports %s", async (file, path) => {
    const lab = await LoaderLab.open();
    const shared = `import { shared } from "${path}";`;
    const imports = file === "plugin.ts" ? shared : `import { shared } from "./${file}";`;
    await lab.write({
      "a/plugin.ts": plugin(imports, "[shared]"),
      ...(file !== "plugin.ts" && { [`a/${file}`]: `${shared}\nexport { shared };` }),
      "shared.ts": `import { join } from "node:path";
        import { isAborted } from "cloud-controller-host/sdk";
        import { word } from "./word.js";
        const same = <T>(value: T): T => value;
        export const shared: string = isAborted(undefined) ? "" : same(join(word));`,
      "word.js": 'import "fs"; import "bun"; import "./shared.ts"; export const word = "outside";',
    });
    expect(aliasesOf(await lab.load())).toEqual(["outside"]);
  });

  test("finds data beside its code, imports from outside its folder, and a package of its own, loaded once per version", async () => {
    const lab = await LoaderLab.open();
    await lab.write({
      "a/plugin.ts": plugin(
        `import { readFileSync } from "node:fs";
         import { shared } from "../../plugins/shared.ts";
         import dependency from "private-copies-dependency";
         const data = readFileSync(import.meta.dir + "/data.txt", "utf8");`,
        "[data, shared, dependency]",
      ),
      "a/data.txt": "beside",
      "shared.ts": 'export const shared: string = "outside";',
      "a/node_modules/private-copies-dependency/package.json": '{"version":"1.0.0"}',
      "a/node_modules/private-copies-dependency/index.js": `globalThis.dependencyLoads = (globalThis.dependencyLoads ?? 0) + 1;
        module.exports = "version 1, load " + globalThis.dependencyLoads;`,
    });
    expect(aliasesOf(await lab.load())).toEqual(["beside", "outside", "version 1, load 1"]);
    await lab.write({ "a/data.txt": "changed" });
    expect(aliasesOf(await lab.load())).toEqual(["changed", "outside", "version 1, load 1"]);
    await lab.write({
      "a/node_modules/private-copies-dependency/package.json": '{"version":"2.0.0"}',
      "a/node_modules/private-copies-dependency/index.js": 'module.exports = "version 2";',
    });
    expect(aliasesOf(await lab.load())).toEqual(["changed", "outside", "version 2"]);
  });

  test("imports TypeScript from outside its folder where no node_modules is above, and nothing from a registry", async () => {
    const lab = await LoaderLab.open(process.env["HOME"]);
    const shared = "const same = <T>(value: T): T => value; export const shared: string = same('typed');";
    await lab.write({
      "a/plugin.ts": plugin('import { shared } from "../shared.ts";', "[shared]"),
      "shared.ts": shared,
    });
    expect(aliasesOf(await lab.load())).toEqual(["typed"]);
    await lab.write({ "a/plugin.ts": plugin('import "../other.ts";'), "other.ts": `import "absent"; ${shared}` });
    expect(await lab.problems()).toContain("Cannot find package 'absent'");
  });

  test("imports its own files from the copy, also upwards, where it imports from outside its folder, too", async () => {
    const lab = await LoaderLab.open();
    await lab.write({
      "a/plugin.ts": plugin(
        'import { shared } from "../shared.ts"; import { own } from "./lib/up.ts";',
        "[shared, own]",
      ),
      "a/lib/up.ts": 'export { own } from "../own.ts";',
      "a/own.ts": "export const own: string = import.meta.path;",
      "shared.ts": "export const shared: string = import.meta.path;",
    });
    const [shared, own] = aliasesOf(await lab.load());
    expect(shared).toBe(join(lab.directory, "shared.ts"));
    expect(own).toEndWith("/own.ts");
    expect(own).not.toBe(join(lab.directory, "a/own.ts"));
  });

  test("imports from outside its folder by a path that is known at run time only", async () => {
    const lab = await LoaderLab.open();
    await lab.write({
      "a/plugin.ts": plugin('import { shared } from "./lib/outside.ts";', "[shared]"),
      "a/lib/outside.ts": `const here = ".";
        export const { shared } = await import(\`./\${here}/../../shared.ts\`);`,
      "shared.ts": 'export const shared: string = "outside";',
    });
    expect(aliasesOf(await lab.load())).toEqual(["outside"]);
  });
});

describe("a plugin that failed to load", () => {
  const good = plugin("", '["fixed"]');
  test.each([
    ["throws", { "a/plugin.ts": 'throw new Error("boom");' }],
    ["has a syntax error", { "a/plugin.ts": "export default {{" }],
    ["has a helper that throws", { "a/plugin.ts": plugin('import "./b.ts";'), "a/b.ts": 'throw new Error("boom");' }],
    ["imports what is not there", { "a/plugin.ts": plugin('import "./b.ts";') }],
    [
      "imports a name that is not exported",
      { "a/plugin.ts": plugin('import { b } from "./b.ts"; b();'), "a/b.ts": "" },
    ],
    ["has no valid name", { "a/plugin.ts": good.replace("a-controller", "Bad Name") }],
    ["imports a package that is not installed", { "a/plugin.ts": plugin('import "private-copies-absent";') }],
  ] as const)("a plugin that failed to load because it %s loads as soon as it is fixed", async (_, files) => {
    const lab = await LoaderLab.open();
    await lab.write({ "a/plugin.ts": plugin("", '["good"]') });
    await lab.load();
    await lab.write(files);
    expect(await lab.problems()).toContain("a/plugin.ts cannot be imported");
    expect(await lab.problems()).toContain("a/plugin.ts cannot be imported");
    await lab.write({ "a/plugin.ts": good, "a/b.ts": "export const b = () => undefined;" });
    expect(aliasesOf(await lab.load())).toEqual(["fixed"]);
  });

  test("a plugin that failed to load because a helper was missing loads once the helper or its package is installed", async () => {
    const lab = await LoaderLab.open();
    const source = plugin(
      'import { word } from "./late.ts"; import other from "private-copies-late";',
      "[word, other]",
    );
    await lab.write({ "a/plugin.ts": source });
    expect(await lab.problems()).toContain("./late.ts");
    await lab.write({ "a/late.ts": 'export const word: string = "came";' });
    expect(await lab.problems()).toContain("private-copies-late");
    await lab.write({
      "a/node_modules/private-copies-late/package.json": '{"version":"1.0.0"}',
      "a/node_modules/private-copies-late/index.js": 'module.exports = "installed";',
    });
    expect(aliasesOf(await lab.load())).toEqual(["came", "installed"]);
  });

  test("reports its own path, not that of the copy", async () => {
    const lab = await LoaderLab.open();
    await lab.write({ "a/plugin.ts": plugin('import "./b.ts";') });
    expect(await lab.problems()).toContain(join(lab.directory, "a"));
    expect(await lab.problems()).not.toContain("cloud-controller-host-");
  });

  test("later, in a helper, is located by class and by its own first line, not by that of a package or a wrapper", async () => {
    const lab = await LoaderLab.open();
    await lab.write({
      "a/plugin.ts": plugin('import { fail } from "./deep/helper.ts"; globalThis.locatedFailure = fail;'),
      "a/deep/helper.ts":
        'import call from "private-copies-caller";\nexport const fail = () => call(() => (undefined).x);',
      "a/node_modules/private-copies-caller/index.js": "module.exports = (work) => { return work(); };",
    });
    await lab.load();
    const failure = await Promise.try(Reflect.get(globalThis, "locatedFailure")).catch((error: unknown) => error);
    const located = {
      class: "TypeError",
      at: expect.stringContaining(`${join(lab.directory, "a/deep/helper.ts")}:2:`),
    };
    expect(lab.copies.locate(failure)).toEqual(located);
    expect(lab.copies.locate(new CodedError("InitFailed", "wrapped", { cause: failure }))).toEqual(located);
    const { folder } = await lab.copies.take(join(lab.directory, "a"));
    const frames = `at x (${folder}/node_modules/dep/index.js:1:1)\n    at y (${folder}/own file.ts:3:4)`;
    const traced = Object.assign(new RangeError("deep"), { stack: frames });
    expect(lab.copies.locate(traced)).toEqual({
      class: "RangeError",
      at: `${join(lab.directory, "a")}/own file.ts:3:4`,
    });
    expect(lab.copies.locate(Object.assign(new CodedError("Refused", "on purpose"), { stack: frames }))).toEqual({});
    expect(lab.copies.locate(new Error("not a plugin's"))).toEqual({});
    const circular = new Error("outer", { cause: traced });
    traced.cause = circular;
    traced.stack = "";
    expect(lab.copies.locate(circular)).toEqual({});
  });

  test("is skipped alone where that is allowed; bundled plugins never are", async () => {
    const lab = await LoaderLab.open();
    await lab.write({ "a/plugin.ts": 'throw new Error("boom");', "b/plugin.ts": plugin("") });
    const { refused, controllers, thirdParty } = await lab.load({ mayLeaveOut: (folder) => folder.endsWith("/a") });
    expect(refused).toEqual([{ plugin: join(lab.directory, "a"), reason: expect.stringContaining("boom") }]);
    expect([controllers.map(({ name }) => name), [...thirdParty]]).toEqual([["a-controller"], ["a-controller"]]);
    await mkdir(join(lab.bundled, "c"));
    await writeFile(join(lab.bundled, "c", "plugin.ts"), 'throw new Error("bundled");');
    await expect(lab.load({ mayLeaveOut: () => true })).rejects.toThrow("bundled");
  });
});

describe("an import that never settles", () => {
  const hanging = plugin("await new Promise(() => {});");

  test("is rejected after its timeout and stays in the unfinished-work ledger; the fixed plugin loads", async () => {
    const lab = await LoaderLab.open();
    await lab.write({ "a/plugin.ts": hanging });
    expect(await lab.problems(100)).toContain("did not return within 0.1 s (--plugin-init-timeout)");
    expect(lab.outstanding.entries).toMatchObject([{ kind: "import", name: expect.stringContaining("a/plugin.ts") }]);
    await lab.write({ "a/plugin.ts": plugin("") });
    expect(aliasesOf(await lab.load())).toEqual(["plain"]);
  });

  test("ends with the signal, and does not start when the signal has aborted", async () => {
    const lab = await LoaderLab.open();
    await lab.write({ "a/plugin.ts": hanging });
    const stop = new AbortController();
    const loading = lab.load({ signal: stop.signal });
    await Bun.sleep(50);
    stop.abort(new Error("stopped"));
    await expect(loading).rejects.toThrow("stopped");
    const entries = lab.outstanding.entries.length;
    await expect(lab.load({ signal: stop.signal })).rejects.toThrow("stopped");
    expect(lab.outstanding.entries).toHaveLength(entries);
  });
});

describe("a check for changes", () => {
  test("reads no file, and does not enter node_modules", async () => {
    const lab = await LoaderLab.open();
    await lab.write({ "a/plugin.ts": plugin(""), "a/node_modules/many/package.json": "{}" });
    for (let index = 0; index < 50; index++) await lab.write({ [`a/node_modules/many/file-${index}.js`]: "" });
    const stamp = await pluginSource([lab.directory]).read();
    expect(stamp.split("\n").map((line) => line.split(" ")[0])).toEqual([
      join(lab.directory, "a/node_modules/many/package.json"),
      join(lab.directory, "a/plugin.ts"),
    ]);
    // A file that cannot be read is looked at as well.
    await lab.write({ "a/unreadable.ts": "" });
    await unlink(join(lab.directory, "a/unreadable.ts"));
    expect(await pluginSource([lab.directory]).read()).toBe(stamp);
  });
});

describe("a plugin that is installed as a package", () => {
  for (const place of ["with-plugin/plugins/own", "@scope/with-plugin/plugins/own", "plugin", "@scope/plugin"])
    test(`is copied without a write to its own files, and finds the packages beside it: ${place}`, async () => {
      const lab = await LoaderLab.open();
      const own = join(lab.directory, "node_modules", place);
      await lab.write({
        [`node_modules/${place}/plugin.ts`]: `export { word } from "beside";`,
        "node_modules/beside/package.json": `{ "name": "beside", "main": "index.js" }`,
        "node_modules/beside/index.js": `export const word = "beside";`,
      });
      const before = await stat(join(own, "plugin.ts"));
      const copy = await lab.copies.take(own);
      const after = await stat(join(own, "plugin.ts"));
      expect([after.mtimeMs, after.ino]).toEqual([before.mtimeMs, before.ino]);
      expect(await realpath(copy.folder)).not.toBe(await realpath(own));
      const loaded: unknown = await import(join(copy.folder, "plugin.ts"));
      expect(loaded).toMatchObject({ word: "beside" });
      await copy.release();
    });
});
