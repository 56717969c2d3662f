import { afterEach, beforeEach, expect, mock, test } from "bun:test";
import { readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { mkdir, mkdtemp, realpath, rename, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { eventually } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../../host/async/clock.ts";
import { OutstandingWork } from "../../../../host/async/outstanding-work.ts";
import { pluginLoader } from "../../../../host/generation/plugins/load.ts";
import * as outsideImports from "../../../../host/generation/plugins/outside-imports.ts";
import { lockEntry } from "../../../../host/generation/plugins/plugin-lock.ts";
import { PrivateCopies } from "../../../../host/generation/plugins/private-copies.ts";
import * as sealedContent from "../../../../host/generation/plugins/sealed-content.ts";

let root = "";
let copies: PrivateCopies;
const previous = process.env["TMPDIR"];

beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), "kept-copies-")));
  process.env["TMPDIR"] = root;
  copies = new PrivateCopies(systemClock);
  await mkdir(join(root, "bundled"));
});
afterEach(async () => {
  if (previous === undefined) delete process.env["TMPDIR"];
  else process.env["TMPDIR"] = previous;
  await copies[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true });
});

const source = (body: string): string => `
  import { defineController } from "cloud-controller-host/sdk";
  ${body}
  let loads = 0;
  loads += 1;
  export default defineController({ name: "a-controller", aliases: [String(loads)], construct: () => () => { throw new Error(); } });`;

async function write(name: string, text: string): Promise<void> {
  await mkdir(join(root, "plugins", name), { recursive: true });
  await writeFile(join(root, "plugins", name, "plugin.ts"), text);
}

const load = (signal?: AbortSignal) =>
  pluginLoader({
    directories: [join(root, "bundled"), join(root, "plugins")],
    copies,
    clock: systemClock,
    outstanding: new OutstandingWork(systemClock),
    importTimeout: 30_000,
  }).load({ mayLeaveOut: () => false, ...(signal && { signal }) });

/** The copies of a plugin that are on the disk. */
function copiesOf(name: string): readonly string[] {
  const [folder = ""] = readdirSync(root).filter((each) => each.startsWith("cloud-controller-host-"));
  return folder === "" ? [] : readdirSync(join(root, folder)).filter((each) => each.startsWith(`${name}-`));
}

/** The loaded modules that are known to Bun; those of a copy are forgotten once it is released. */
const modulesOfCopies = (): number => Object.keys(require.cache).filter((path) => path.startsWith(root)).length;

test("refused loads keep no more copies than the two spare ones, however many there are", async () => {
  await write("good", source(""));
  for (let round = 0; round < 6; round++) {
    await write("bad", source(`throw new Error("round ${round}");`));
    expect((await load()).ok).toBe(false);
  }
  expect(copiesOf("good").length).toBeLessThanOrEqual(2);
  expect(copiesOf("bad")).toEqual([]);
});

test("loads that are abandoned release what they have copied", async () => {
  await write("good", source(""));
  for (let round = 0; round < 5; round++) {
    await write("hanging", source(`globalThis.hanging = ${round}; await new Promise(() => undefined);`));
    const stop = new AbortController();
    const loading = load(stop.signal).catch((error: unknown) => error);
    while (Reflect.get(globalThis, "hanging") !== round) await Bun.sleep(5);
    stop.abort(new Error("superseded"));
    expect(await loading).toMatchObject({ message: "superseded" });
  }
  expect(copiesOf("good").length).toBeLessThanOrEqual(2);
  expect(copiesOf("hanging")).toEqual([]);
});

test("a spare copy is used again for the same content, with modules that are evaluated again", async () => {
  await write("a", source("globalThis.evaluations = (globalThis.evaluations ?? 0) + 1;"));
  const controllers = [];
  for (let round = 0; round < 3; round++) {
    const loaded = await load();
    if (!loaded.ok) throw new Error(loaded.problems.join());
    controllers.push(loaded.plugins.controllers[0]);
    loaded.plugins.retain()();
    while (modulesOfCopies() > 0) await Bun.sleep(1);
  }
  expect(new Set(controllers).size).toBe(3);
  expect([Reflect.get(globalThis, "evaluations"), copiesOf("a").length]).toEqual([3, 1]);
});

test("a spare copy is not used for other content", async () => {
  await write("a", source(""));
  const take = () => copies.take(join(root, "plugins/a"));
  await (await take()).release();
  await write("a", source("globalThis.changed = true;"));
  expect(readFileSync(join((await take()).folder, "plugin.ts"), "utf8")).toContain("changed");
});

test("a holder of plugins that releases them twice releases them for no other holder", async () => {
  await write("a", source(""));
  const loaded = await load();
  if (!loaded.ok) throw new Error(loaded.problems.join());
  const [one, other] = [loaded.plugins.retain(), loaded.plugins.retain()];
  one();
  one();
  await Bun.sleep(20);
  await copies.take(join(root, "plugins/a"));
  expect(copiesOf("a")).toHaveLength(2);
  other();
});

test("a plugin that overwrites its own files is copied again, and never runs what it wrote", async () => {
  await write("a", source(""));
  const folder = join(root, "plugins/a");
  const { sha256 } = await lockEntry(folder);
  const text = readFileSync(join(folder, "plugin.ts"), "utf8");
  for (const take of [() => copies.take(folder), () => copies.takeSealed(folder, sha256)]) {
    const first = await take();
    const file = join(first?.folder ?? "", "plugin.ts");
    writeFileSync(file, text.replace("a-controller", "b-controller"));
    utimesSync(file, 1, 1);
    await first?.release();
    const next = await take();
    expect(readFileSync(join(next?.folder ?? "", "plugin.ts"), "utf8")).toBe(text);
    expect(next?.folder).not.toBe(first?.folder);
    expect(copiesOf("a")).toHaveLength(1);
    await next?.release(true);
  }
});

test("holders that take copies at the same time share none", async () => {
  await write("a", source(""));
  const take = () => copies.take(join(root, "plugins/a"));
  for (const each of [await take(), await take()]) await each.release();
  const taken = await Promise.all([take(), take(), take()]);
  expect(new Set(taken.map(({ folder }) => folder)).size).toBe(3);
});

test("a copy that was released twice is not taken from the holder that has it by then", async () => {
  await write("a", source(""));
  const take = () => copies.take(join(root, "plugins/a"));
  const former = await take();
  await former.release();
  const holder = await take();
  await former.release();
  expect(holder.folder).toBe(former.folder);
  expect((await take()).folder).not.toBe(holder.folder);
});

test("modules of released plugins are forgotten after the turn, in which the lease may have to be released", async () => {
  await write("a", source(""));
  const loaded = await load();
  if (!loaded.ok) throw new Error(loaded.problems.join());
  expect(modulesOfCopies()).toBe(1);
  loaded.plugins.retain()();
  await Promise.resolve();
  expect(modulesOfCopies()).toBe(1);
  await eventually("they are forgotten", () => modulesOfCopies() === 0);
});

test("a folder that changed while it was copied is copied again", async () => {
  await write("torn", source('globalThis.torn = "old";'));
  for (let index = 0; index < 300; index++)
    await writeFile(join(root, "plugins/torn", `part-${index}.ts`), `export default ${index};`);
  let changed = false;
  const change = setInterval(() => {
    if (changed || copiesOf("torn").length === 0) return;
    changed = true;
    writeFileSync(join(root, "plugins/torn/plugin.ts"), source('globalThis.torn = "new and longer";'));
  }, 0);
  const pauses: number[] = [];
  const sleep: typeof systemClock.sleep = (ms, signal) => {
    pauses.push(ms);
    return systemClock.sleep(ms, signal);
  };
  await using patient = new PrivateCopies({ ...systemClock, sleep });
  const copy = await patient.take(join(root, "plugins/torn")).finally(() => clearInterval(change));
  expect([changed, pauses]).toEqual([true, [250]]);
  await import(join(copy.folder, "plugin.ts"));
  expect(Reflect.get(globalThis, "torn")).toBe("new and longer");
  expect(copiesOf("torn")).toHaveLength(1);
});

test("a release removes no copy that is in use, and none of another plugin", async () => {
  const names = ["a", "b", "c"];
  for (const name of names) await write(name, source(""));
  const take = (name: string) => copies.take(join(root, "plugins", name));
  const inUse = [await take("a"), await take("a"), await take("a")];
  await inUse[2]?.release();
  expect(copiesOf("a")).toHaveLength(3);
  for (const name of ["b", "c"]) await (await take(name)).release();
  expect(names.map((name) => copiesOf(name).length)).toEqual([3, 1, 1]);
});

test("a copy that failed is removed, and the next load has another one", async () => {
  await write("a", source(""));
  const first = await copies.take(join(root, "plugins/a"));
  await first.release(true);
  expect(copiesOf("a")).toEqual([]);
  const next = await copies.take(join(root, "plugins/a"));
  expect(copiesOf("a")).toHaveLength(1);
  expect(statSync(join(next.folder, "plugin.ts")).isFile()).toBe(true);
});

test("a folder that keeps changing is not loaded, and leaves no copy", async () => {
  await write("torn", source(""));
  for (let index = 0; index < 30; index++)
    await writeFile(join(root, "plugins/torn", `part-${index}.ts`), `export default ${index};`);
  let text = source("");
  const change = setInterval(() => writeFileSync(join(root, "plugins/torn/plugin.ts"), (text += "/**/\n")), 0);
  let pauses = 0;
  await using patient = new PrivateCopies({ ...systemClock, sleep: async () => void (pauses += 1) });
  await expect(patient.take(join(root, "plugins/torn")).finally(() => clearInterval(change))).rejects.toThrow(
    "plugins/torn keeps changing while it is read; load it when it is complete",
  );
  expect([pauses, copiesOf("torn")]).toEqual([19, []]);
}, 120_000);

test("a locked plugin that is completed while it is read is taken at the next look, and never without a change", async () => {
  const folder = join(root, "plugins/locked");
  await write("locked", source(""));
  const { sha256 } = await lockEntry(folder);
  await write("locked", source("/* half of it */"));
  const real = { ...sealedContent };
  let changes: readonly string[] = [];
  const readSealed: typeof real.readSealed = async (tree) => {
    const content = await real.readSealed(tree);
    const [next, ...later] = changes;
    changes = later;
    if (next !== undefined) await write("locked", next);
    return content;
  };
  let pauses = 0;
  await using patient = new PrivateCopies({ ...systemClock, sleep: async () => void (pauses += 1) });
  const takeDuring = async (...given: readonly string[]) => {
    [changes, pauses] = [given, 0];
    return (await patient.takeSealed(folder, sha256))?.hash !== undefined;
  };
  const halves = Array.from({ length: 30 }, (_, index) => source(`/* half ${"x".repeat(index)} */`));
  await mock.module("../../../../host/generation/plugins/sealed-content.ts", () => ({ ...real, readSealed }));
  try {
    expect([await takeDuring(), pauses]).toEqual([false, 0]);
    expect([await takeDuring(...halves), pauses]).toEqual([false, 19]);
    expect([await takeDuring(halves[0] ?? "", source("")), pauses]).toEqual([true, 2]);
  } finally {
    await mock.module("../../../../host/generation/plugins/sealed-content.ts", () => real);
  }
});

test("a stack trace is of the first plugin that it passes through, whose folder names it", async () => {
  for (const name of ["inner", "outer"]) await write(name, source(""));
  const [inner, outer] = [
    await copies.take(join(root, "plugins/inner")),
    await copies.take(join(root, "plugins/outer")),
  ];
  const at = (folder: string): string => `    at work (${folder}/plugin.ts:1:2)\n`;
  const trace = (...folders: readonly string[]): string => `Error: x\n${folders.map(at).join("")}`;
  expect(copies.pluginIn(trace("/elsewhere", inner.folder, outer.folder))).toBe("inner");
  expect(copies.pluginIn(trace(outer.folder, inner.folder))).toBe("outer");
  // Another copy's number has the same beginning.
  const [base = ""] = outer.folder.split(join(root, "plugins/outer"), 1);
  expect(copies.pluginIn(trace("/elsewhere", inner.original, `${base}0/plugins`))).toBeUndefined();
});

test("a folder whose names, sizes and times are the same is not read again", async () => {
  await write("a", source("/* one */"));
  const file = join(root, "plugins/a/plugin.ts");
  await utimes(file, 1_700_000_000, 1_700_000_000);
  const before = await copies.hashOf(join(root, "plugins/a"));
  await writeFile(file, source("/* two */"));
  await utimes(file, 1_700_000_000, 1_700_000_000);
  expect(await copies.hashOf(join(root, "plugins/a"))).toBe(before);
});

test("a process hooks the resolution of imports once, however many plugins are loaded", async () => {
  const real = { ...outsideImports };
  const [refuse, resolve] = [mock(() => undefined), mock(() => undefined)];
  await mock.module("../../../../host/generation/plugins/outside-imports.ts", () => ({
    refuseOutside: refuse,
    resolveOutside: resolve,
  }));
  try {
    for (const name of ["a", "b"]) {
      await write(name, source('import "../shared.ts";'));
      await copies.take(join(root, "plugins", name));
      await write(name, source(""));
      const { sha256 } = await lockEntry(join(root, "plugins", name));
      expect(await copies.takeSealed(join(root, "plugins", name), sha256)).toBeDefined();
    }
  } finally {
    await mock.module("../../../../host/generation/plugins/outside-imports.ts", () => real);
  }
  expect([refuse.mock.calls.length, resolve.mock.calls.length]).toEqual([1, 1]);
});

test("a file that is replaced by one of the same size and time is a change", async () => {
  await write("a", source("/* one */"));
  const file = join(root, "plugins/a/plugin.ts");
  const other = join(root, "other.ts");
  await writeFile(other, source("/* two */"));
  for (const each of [file, other]) await utimes(each, 1_700_000_000, 1_700_000_000);
  const before = await copies.hashOf(join(root, "plugins/a"));
  expect(statSync(other)).toMatchObject({ size: statSync(file).size, mtimeMs: statSync(file).mtimeMs });
  await rename(other, file);
  expect(await copies.hashOf(join(root, "plugins/a"))).not.toBe(before);
});
