import { mkdir, mkdtemp, open, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { CodedError, messageOf } from "cloud-controller-host/sdk";

/** Marks a folder as created by the sandbox; it stays there for the next run. */
const markerFile = ".cloud-controller-host-sandbox";
/** Holds the id of the process that uses the folder. */
const lockFile = "sandbox.pid";

/**
 * A folder for the sandbox's files, for this process alone until it is disposed of. Throws `FolderNotUsable` when
 * the folder has content and was not created by a sandbox, and `FolderNotUsable` also when another sandbox runs in it.
 * No file that the sandbox did not write is ever removed.
 */
export const claimDirectory = (path: string): Promise<AsyncDisposable> => naming(path, () => claim(path));

/** Rejects with an error that names the folder: that of a full disk names no path. */
export async function naming<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (messageOf(cause).includes(path)) throw cause;
    throw new CodedError("FolderNotUsable", `cannot write into ${path}: ${messageOf(cause)}`, { cause });
  }
}

async function claim(path: string): Promise<AsyncDisposable> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  const names = await readdir(path);
  if (names.length > 0 && !names.includes(markerFile))
    throw new CodedError(
      "FolderNotUsable",
      `--directory=${path}: the folder is not empty and was not created by the sandbox; name an empty or a new folder`,
    );
  await writeFile(join(path, markerFile), "Written by cloud-controller-host sandbox.\n");
  const lock = join(path, lockFile);
  if (!(await tryLock(lock))) {
    const owner = await ownerOf(lock);
    if (owner !== undefined)
      throw new CodedError(
        "FolderNotUsable",
        `--directory=${path}: a sandbox runs here (process ${owner}); stop it, or name another folder`,
      );
    await rm(lock, { force: true });
    if (!(await tryLock(lock)))
      throw new CodedError("FolderNotUsable", `--directory=${path}: another sandbox has just started here`);
  }
  return { [Symbol.asyncDispose]: () => rm(lock, { force: true }) };
}

/** A new folder that only this sandbox uses. Its disposal removes it. */
export async function temporaryDirectory(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), "cloud-controller-host-sandbox-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

async function tryLock(lock: string): Promise<boolean> {
  try {
    await using file = await open(lock, "wx", 0o600);
    await file.writeFile(`${process.pid}\n`);
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return false;
    throw error;
  }
}

/** The process that holds the lock; undefined when it has ended. A lock being written is held by its writer. */
async function ownerOf(lock: string): Promise<number | undefined> {
  const text = await readFile(lock, "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  const pid = Number.parseInt(text, 10);
  if (Number.isNaN(pid)) return Date.now() - (await stat(lock)).mtimeMs < 5000 ? 0 : undefined;
  try {
    process.kill(pid, 0);
    return pid;
  } catch (error) {
    // EPERM: the process exists and belongs to another user.
    return error instanceof Error && "code" in error && error.code === "EPERM" ? pid : undefined;
  }
}
