import { existsSync, readdirSync, rmSync } from "node:fs";
import { lstat, mkdir, mkdtemp, readdir, readFile, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { CodedError, forEachConcurrently, messageOf } from "cloud-controller-host/sdk";

const prefix = "cloud-controller-host-";
const socketPrefix = "alive-";
const dependencies = "node_modules";
const barriers = ["tsconfig.json", "package.json"];
/** A start that takes longer to create its folder finds another one. */
const maxStartMs = 600_000;
const maxChecks = 16;

/** The folder of this process's private copies. Only this user can read it, and nothing above it decides an import. */
export interface CopiesFolder extends AsyncDisposable {
  readonly path: string;
}

/**
 * Opens the folder in the first place that is safe. `TMPDIR` is the operator's choice; `/dev/shm` serves containers whose
 * root file system is read-only. Folders that killed processes have left there are removed.
 */
export async function openCopiesFolder(): Promise<CopiesFolder> {
  const problems = new Set<string>();
  for (const place of places()) {
    try {
      if (place.private) await mkdir(place.path, { recursive: true, mode: 0o700 });
      const path = await realpath(place.path);
      await guard(path, place.private);
      await removeAbandoned(path);
      return await create(path);
    } catch (error) {
      problems.add(messageOf(error));
    }
  }
  throw new CodedError(
    "FolderNotUsable",
    `no folder for private copies of plugins; make ${tmpdir()} writable, e.g. with an emptyDir, or set TMPDIR: ${[...problems].join("; ")}`,
  );
}

interface Place {
  readonly path: string;
  /** Must not be below a folder that others can write to. */
  readonly private: boolean;
}

function places(): readonly Place[] {
  const { TMPDIR = "", XDG_CACHE_HOME = "", HOME = "" } = process.env;
  const cache = XDG_CACHE_HOME !== "" ? XDG_CACHE_HOME : HOME !== "" ? join(HOME, ".cache") : "";
  return [
    ...(TMPDIR === "" ? [] : [{ path: TMPDIR, private: false }]),
    ...(cache === "" ? [] : [{ path: join(cache, "cloud-controller-host", "plugins"), private: true }]),
    { path: tmpdir(), private: false },
    { path: "/dev/shm", private: false },
  ];
}

/**
 * Bun looks for a package in the `node_modules` of every folder above, with no way to stop it. So none of them may have
 * one; where others can write, an empty one that they cannot change takes the name.
 */
async function guard(place: string, isPrivate: boolean): Promise<void> {
  for (let folder = place; folder !== dirname(folder); folder = dirname(folder)) {
    const safe = isSafe(await stat(folder));
    if (isPrivate && !safe) throw new CodedError("FolderNotUsable", `${folder} can be written by other users`);
    const path = join(folder, dependencies);
    if (!safe) await mkdir(path, { mode: 0o755 }).catch(ignoreExisting);
    const found = await lstat(path).catch(() => undefined);
    if (found === undefined && safe) continue;
    const holds = found?.isDirectory() === true && isSafe(found) ? await readdir(path) : [path];
    if (holds.length > 0)
      throw new CodedError("FolderNotUsable", `${path} exists, and plugins would import its packages`);
  }
}

function ignoreExisting(error: unknown): void {
  if (!hasCode(error, "EEXIST")) throw error;
}

const hasCode = (error: unknown, code: string): boolean =>
  error instanceof Error && "code" in error && error.code === code;

/** Owned by this user or root, and not writable by others. */
const isSafe = ({ uid, mode }: { readonly uid: number; readonly mode: number }): boolean =>
  (uid === 0 || uid === process.getuid?.()) && (mode & 0o022) === 0;

/**
 * Its `tsconfig.json` and `package.json` end Bun's search for those of the folders above. Its empty `node_modules` keeps
 * Bun from downloading an import that is not installed, which it does for a file below no such folder unless
 * `--no-install` is given or bunfig.toml is in the working directory.
 */
async function create(place: string): Promise<CopiesFolder> {
  const path = await mkdtemp(join(place, prefix));
  const onExit = (): void => {
    for (const each of inOrderOfRemoval(path)) rmSync(each, { recursive: true, force: true });
  };
  process.once("exit", onExit);
  let alive: Server | undefined;
  const close = async (): Promise<void> => {
    process.off("exit", onExit);
    await remove(path);
    alive?.close();
  };
  try {
    alive = await listen(path).catch(() => undefined);
    await mkdir(join(path, dependencies));
    for (const barrier of barriers) await writeFile(join(path, barrier), "{}\n");
  } catch (error) {
    await close();
    throw error;
  }
  return { path, [Symbol.asyncDispose]: close };
}

/**
 * A socket that the kernel closes with the process, however that ends. Unlike a process id it is never another
 * process's, and it means the same to containers that share the folder; it needs no native code, unlike a file lock. Its
 * name tells boots and machines apart, where a refused connection proves nothing.
 */
async function listen(folder: string): Promise<Server> {
  const server = createServer((socket) => socket.destroy());
  const early = join(folder, "early");
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", reject).listen(early, resolve);
  await promise;
  server.unref();
  // Between bind and listen a connection would be refused: the name appears when it no longer is.
  await rename(early, await socketIn(folder));
  return server;
}

async function socketIn(folder: string): Promise<string> {
  const boot = await readFile("/proc/sys/kernel/random/boot_id", "utf8").catch(() => "");
  return join(folder, `${socketPrefix}${boot.slice(0, 8)}`);
}

/** The socket goes with the folder itself: a removal that was cut short is completed by the next start. */
function inOrderOfRemoval(folder: string): readonly string[] {
  const found = existsSync(folder) ? readdirSync(folder) : [];
  const names = found.filter((name) => !name.startsWith(socketPrefix));
  return [...names.map((name) => join(folder, name)), folder];
}

async function remove(folder: string): Promise<void> {
  for (const path of inOrderOfRemoval(folder)) await rm(path, { recursive: true, force: true });
}

/** Removes the folders of processes that no longer exist. Others, of whatever age, are left alone. */
async function removeAbandoned(place: string): Promise<void> {
  const names = (await readdir(place)).filter((name) => name.startsWith(prefix));
  await forEachConcurrently({ workers: maxChecks }, names, async (name) => {
    const folder = join(place, name);
    if (await isAbandoned(folder).catch(() => false)) await remove(folder).catch(() => undefined);
  });
}

async function isAbandoned(folder: string): Promise<boolean> {
  const socket = await socketIn(folder);
  const status = await lstat(socket).catch(() => undefined);
  if (status?.isSocket() === true) return isOwn(status) && isRefused(socket);
  const [{ uid, mtimeMs }, names] = await Promise.all([lstat(folder), readdir(folder)]);
  // Killed as it was created. Later on it may be without a socket because none could be created there.
  const wasStarting = barriers.every((name) => !names.includes(name));
  return isOwn({ uid }) && wasStarting && Date.now() - mtimeMs > maxStartMs;
}

const isOwn = ({ uid }: { readonly uid: number }): boolean => uid === process.getuid?.();

/** True if no process listens. A suspended process still does. */
function isRefused(path: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect(path);
  socket.once("connect", () => resolve(false));
  socket.once("error", (error) => resolve(hasCode(error, "ECONNREFUSED")));
  return promise.finally(() => socket.destroy());
}
