import { readFile, rm, stat, writeFile } from "node:fs/promises";

/** No build takes so long: a lock of this age is stale, even if another process has its owner's pid by now. */
const staleMs = 30 * 60_000;

/** Runs `work` while no other process of this user runs work under the same path; waits for one that does. */
export async function withLock<T>(path: string, work: () => Promise<T>): Promise<T> {
  while (!(await take(path))) await Bun.sleep(500);
  try {
    return await work();
  } finally {
    await rm(path, { force: true });
  }
}

/** A lock whose owner is gone was left by a crash and is taken over. */
async function take(path: string): Promise<boolean> {
  try {
    await writeFile(path, String(process.pid), { flag: "wx" });
    return true;
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
  }
  const owner = await readFile(path, "utf8").catch(() => "");
  const takenAt = await stat(path).then(
    (found) => found.mtimeMs,
    () => Date.now(),
  );
  const abandoned = Date.now() - takenAt > staleMs || (owner !== "" && !isAlive(Number(owner)));
  if (abandoned) await rm(path, { force: true });
  return false;
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
