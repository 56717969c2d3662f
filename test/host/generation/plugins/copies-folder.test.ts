import { afterEach, beforeEach, expect, mock, test } from "bun:test";
import { existsSync } from "node:fs";
import * as promises from "node:fs/promises";
import {
  chmod,
  chown,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  utimes,
  writeFile,
} from "node:fs/promises";
import * as net from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { messageOf } from "cloud-controller-host/sdk";

import { systemClock } from "../../../../host/async/clock.ts";
import { openCopiesFolder } from "../../../../host/generation/plugins/copies-folder.ts";
import { PrivateCopies } from "../../../../host/generation/plugins/private-copies.ts";

let stack = new AsyncDisposableStack();
let place = "";

beforeEach(async () => {
  place = await realpath(await mkdtemp(join(tmpdir(), "copies-folder-")));
  stack.defer(() => rm(place, { recursive: true, force: true }));
  setEnvironment("TMPDIR", place);
});
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

function setEnvironment(name: string, value: string): void {
  const previous = process.env[name];
  process.env[name] = value;
  stack.defer(() => {
    if (previous === undefined) delete process.env[name];
    else process.env[name] = previous;
  });
}

/** A process of its own with a folder of copies. */
async function holder(): Promise<{ readonly path: string; readonly kill: (signal: NodeJS.Signals) => Promise<void> }> {
  const module = join(import.meta.dir, "../../../../host/generation/plugins/copies-folder.ts");
  const code = `const { openCopiesFolder } = await import(${JSON.stringify(module)});
    console.log((await openCopiesFolder()).path);
    setInterval(() => undefined, 60_000);`;
  const child = Bun.spawn([process.execPath, "--no-install", "-e", code], { stdout: "pipe", env: process.env });
  stack.defer(async () => {
    child.kill("SIGKILL");
    await child.exited;
  });
  const { value } = await child.stdout.getReader().read();
  return {
    path: new TextDecoder().decode(value).trim(),
    async kill(signal) {
      child.kill(signal);
      if (signal === "SIGKILL") await child.exited;
    },
  };
}

test("the folder of a killed process is removed at the next start; those of running and stopped processes stay", async () => {
  const [killed, running, stopped] = [await holder(), await holder(), await holder()];
  await writeFile(join(killed.path, "copy.ts"), "");
  await stopped.kill("SIGSTOP");
  await using own = await openCopiesFolder();
  expect([killed, running, stopped].map(({ path }) => existsSync(path))).toEqual([true, true, true]);
  await killed.kill("SIGKILL");
  await using next = await openCopiesFolder();
  expect([killed, running, stopped, own].map(({ path }) => existsSync(path))).toEqual([false, true, true, true]);
  expect(dirname(next.path)).toBe(place);
});

test.each([0, 1, 2, 3, 4])(
  "a removal that is cut short after %d entries is completed by the next start",
  async (count) => {
    const [killed, closed] = [await holder(), await openCopiesFolder()];
    await mkdir(join(killed.path, "copy-1"));
    await killed.kill("SIGKILL");
    const real = { ...promises };
    let left: number = count;
    const cutShort = (): Promise<void> => Promise.reject(new Error("killed"));
    const removal: typeof rm = (path, options) => (left-- > 0 ? real.rm(path, options) : cutShort());
    await mock.module("node:fs/promises", () => ({ ...real, rm: removal }));
    try {
      stack.use(await openCopiesFolder());
      left = Math.min(count, 2);
      await expect(closed[Symbol.asyncDispose]()).rejects.toThrow("killed");
    } finally {
      await mock.module("node:fs/promises", () => real);
    }
    expect(existsSync(killed.path)).toBe(true);
    expect((await readdir(closed.path)).filter((name) => name.startsWith("alive-"))).toHaveLength(1);
    await using _ = await openCopiesFolder();
    expect(existsSync(killed.path)).toBe(false);
  },
);

test.each([
  ["without an entry", () => undefined],
  ["with a socket that is not named yet", (folder: string) => writeFile(join(folder, "early"), "")],
])("a folder %s is removed when no start takes as long, and not before", async (_, fill) => {
  const folder = join(place, "cloud-controller-host-started");
  await mkdir(folder);
  await fill(folder);
  const aged = (seconds: number): Promise<void> => utimes(folder, 0, Date.now() / 1000 - seconds);
  await aged(590);
  stack.use(await openCopiesFolder());
  expect(existsSync(folder)).toBe(true);
  await aged(610);
  stack.use(await openCopiesFolder());
  expect(existsSync(folder)).toBe(false);
});

test("the folder of a process that could not have a socket is left alone, of whatever age", async () => {
  const folder = join(place, "cloud-controller-host-mute");
  await mkdir(folder);
  await writeFile(join(folder, "tsconfig.json"), "{}");
  await utimes(folder, 0, 0);
  await using _ = await openCopiesFolder();
  expect(existsSync(folder)).toBe(true);
});

test("a process that ends by itself removes its folder, whatever is left in it", async () => {
  const module = join(import.meta.dir, "../../../../host/generation/plugins/copies-folder.ts");
  const code = `const { openCopiesFolder } = await import(${JSON.stringify(module)});
    const { path } = await openCopiesFolder();
    await Bun.write(path + "/copy-1/plugin.ts", "");
    if (process.argv.at(-1) === "gone") require("node:fs").rmSync(path, { recursive: true });
    process.exit(3);`;
  for (const state of ["there", "gone"]) {
    const child = Bun.spawn([process.execPath, "--no-install", "-e", code, state], { env: process.env });
    expect([await child.exited, await readdir(place)]).toEqual([3, []]);
  }
});

test("a folder without a socket, or with one of another boot, is left alone", async () => {
  const killed = await holder();
  const [socket = ""] = (await readdir(killed.path)).filter((name) => name.startsWith("alive-"));
  const boot = await readFile("/proc/sys/kernel/random/boot_id", "utf8");
  expect(socket).toBe(`alive-${boot.slice(0, 8)}`);
  await rename(join(killed.path, socket), join(killed.path, "alive-another"));
  await killed.kill("SIGKILL");
  const unknown = join(place, "cloud-controller-host-unknown");
  await mkdir(unknown);
  await using _ = await openCopiesFolder();
  expect([existsSync(killed.path), existsSync(unknown)]).toEqual([true, true]);
});

test.skipIf(process.getuid?.() !== 0)("the folder of another user's killed process is left alone", async () => {
  const started = join(place, "cloud-controller-host-started");
  await mkdir(started);
  await chown(started, 65_534, 65_534);
  await utimes(started, 0, 0);
  const killed = await holder();
  const [socket = ""] = (await readdir(killed.path)).filter((name) => name.startsWith("alive-"));
  await chown(join(killed.path, socket), 65_534, 65_534);
  await killed.kill("SIGKILL");
  await using _ = await openCopiesFolder();
  expect([existsSync(killed.path), existsSync(started)]).toEqual([true, true]);
});

test("a cache folder below one that others can write to is not used", async () => {
  await mkdir(join(place, "node_modules"));
  await writeFile(join(place, "node_modules/a"), "");
  const shared = await realpath(await mkdtemp(join(process.env["HOME"] ?? tmpdir(), ".copies-folder-")));
  stack.defer(() => rm(shared, { recursive: true, force: true }));
  await chmod(shared, 0o1777);
  setEnvironment("XDG_CACHE_HOME", join(shared, "cache"));
  const opened = await openCopiesFolder().then(
    async (folder) => {
      await folder[Symbol.asyncDispose]();
      return folder.path;
    },
    (error: unknown) => messageOf(error),
  );
  expect(opened).not.toStartWith(shared);
});

test("the folder is private, ends the search for settings of Bun, and is removed when it is closed", async () => {
  const folder = await openCopiesFolder();
  expect((await stat(folder.path)).mode & 0o777).toBe(0o700);
  expect((await readdir(folder.path)).filter((name) => !name.startsWith("alive-")).toSorted()).toEqual([
    "node_modules",
    "package.json",
    "tsconfig.json",
  ]);
  await folder[Symbol.asyncDispose]();
  expect(existsSync(folder.path)).toBe(false);
});

test("an empty node_modules that others cannot change takes the name where they can write", async () => {
  await chmod(place, 0o1777);
  await using _ = await openCopiesFolder();
  await using second = await openCopiesFolder();
  const guard = await stat(join(place, "node_modules"));
  expect([guard.mode & 0o777, dirname(second.path)]).toEqual([0o755, place]);
});

test.each([
  ["is not empty", () => writeFile(join(place, "node_modules/a"), "")],
  ["others can write to", () => chmod(join(place, "node_modules"), 0o777)],
])("a folder below a node_modules that %s is not used", async (_, change) => {
  const cache = await realpath(await mkdtemp(join(process.env["HOME"] ?? tmpdir(), ".copies-folder-")));
  stack.defer(() => rm(cache, { recursive: true, force: true }));
  setEnvironment("XDG_CACHE_HOME", cache);
  await mkdir(join(place, "node_modules"));
  await change();
  await using folder = await openCopiesFolder();
  expect(dirname(folder.path)).toBe(join(cache, "cloud-controller-host/plugins"));
});

test("a copy that cannot be completed is removed at once, and a smaller one is taken", async () => {
  const plugin = join(place, "plugin");
  // A path that the file system still allows, but no longer below the folder of copies.
  const deep = join(plugin, ...Array.from({ length: 20 }, () => "d".repeat(200)));
  await mkdir(deep, { recursive: true });
  await writeFile(join(plugin, "plugin.ts"), "export default 1;\n");
  await writeFile(join(deep, "part.ts"), "");
  await using copies = new PrivateCopies(systemClock);
  await expect(copies.take(plugin)).rejects.toThrow("ENAMETOOLONG");
  await rm(deep, { recursive: true });
  await copies.take(plugin);
  const [root = ""] = (await readdir(place)).filter((name) => name.startsWith("cloud-controller-host-"));
  expect((await readdir(join(place, root))).filter((name) => name.startsWith("plugin-"))).toHaveLength(1);
});

test("the error names every place that was tried for the folder, and why it does not serve", async () => {
  const real = { ...promises };
  const refuse = (path: string): Promise<never> => Promise.reject(new Error(`read-only: ${dirname(path)}`));
  await mock.module("node:fs/promises", () => ({ ...real, mkdtemp: refuse }));
  try {
    const problem = await openCopiesFolder().then(({ path }) => path, messageOf);
    expect(problem).toStartWith("no folder for private copies of plugins; make ");
    expect(problem).toContain(` or set TMPDIR: read-only: ${place}; `);
    expect(problem).toEndWith("; read-only: /dev/shm");
  } finally {
    await mock.module("node:fs/promises", () => real);
  }
});

test("the error of a place in which the empty node_modules cannot be made has the reason", async () => {
  await chmod(place, 0o1777);
  const real = { ...promises };
  const full = Object.assign(new Error("no space left"), { code: "ENOSPC" });
  await mock.module("node:fs/promises", () => ({ ...real, mkdir: () => Promise.reject(full) }));
  try {
    const problem = await openCopiesFolder().then(({ path }) => path, messageOf);
    expect(problem).toEndWith(" or set TMPDIR: no space left");
  } finally {
    await mock.module("node:fs/promises", () => real);
  }
});

test("the folder is opened once its socket has the name by which others know that its process lives", async () => {
  const real = { ...promises };
  const slowly = async (from: string, to: string): Promise<void> => {
    await Bun.sleep(200);
    await real.rename(from, to);
  };
  await mock.module("node:fs/promises", () => ({ ...real, rename: slowly }));
  try {
    await using folder = await openCopiesFolder();
    expect((await readdir(folder.path)).filter((name) => name.startsWith("alive-"))).toHaveLength(1);
  } finally {
    await mock.module("node:fs/promises", () => real);
  }
});

test("a folder in which no socket can be made serves without one", async () => {
  const real = { ...net };
  const createServer = (): net.Server => {
    const server = real.createServer();
    const fail = (): boolean => server.emit("error", new Error("no sockets"));
    return Object.assign(server, { listen: fail });
  };
  await mock.module("node:net", () => ({ ...real, createServer }));
  try {
    await using folder = await openCopiesFolder();
    expect((await readdir(folder.path)).filter((name) => name.startsWith("alive-"))).toEqual([]);
    expect(existsSync(join(folder.path, "package.json"))).toBe(true);
  } finally {
    await mock.module("node:net", () => real);
  }
});
