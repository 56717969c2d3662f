import { createHash } from "node:crypto";
import { access, constants, mkdir, readdir, readFile, rename, rm } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";

import { withLock } from "./lock.ts";

export interface GoBuild {
  /** The `go` program. */
  readonly go: string;
  /** A folder with a go.mod and nothing but files. */
  readonly source: string;
  /** A go.mod elsewhere that names the versions, in the place of the folder's own. */
  readonly versions?: string;
  /** A program that stands in the folder when the build is complete. */
  readonly program: string;
  /** Makes it in the folder that is given. */
  readonly build: (folder: string) => Promise<void>;
}

/** The user's cache for what is built of a Go module: a folder a name. */
export function goCache(environment: Readonly<Record<string, string | undefined>>, name: string): string {
  const cache = environment["XDG_CACHE_HOME"] || join(homedir(), ".cache");
  return join(cache, "cloud-controller-host", name);
}

/** Builds unless a build exists. A build appears under its final name only when it is complete. */
export async function buildOnce(cache: string, { go, source, versions, program, build }: GoBuild): Promise<string> {
  const directory = join(cache, await fingerprint(go, source, versions));
  if (await isExecutable(join(directory, program))) return directory;
  await mkdir(cache, { recursive: true });
  await withLock(`${directory}.lock`, async () => {
    if (await isExecutable(join(directory, program))) return;
    const unfinished = `${directory}.${process.pid}`;
    await rm(unfinished, { recursive: true, force: true });
    await mkdir(unfinished);
    try {
      await build(unfinished);
      await rename(unfinished, directory);
    } finally {
      await rm(unfinished, { recursive: true, force: true });
    }
  });
  return directory;
}

export const isExecutable = (path: string): Promise<boolean> =>
  access(path, constants.X_OK).then(
    () => true,
    () => false,
  );

/** Changes whenever another binary would come of a build. */
async function fingerprint(go: string, source: string, versions?: string): Promise<string> {
  const hash = createHash("sha256");
  const version = Bun.spawn([go, "env", "GOVERSION", "GOOS", "GOARCH"], { cwd: source, stderr: "ignore" });
  hash.update(await version.stdout.text());
  if ((await version.exited) !== 0) throw new Error("go env failed");
  for (const name of (await readdir(source)).toSorted()) hash.update(await readFile(join(source, name)));
  if (versions !== undefined) hash.update(await readFile(versions));
  return hash.digest("hex").slice(0, 16);
}

/** Runs `go build` in a module, without C; what it complains of last is the error's message. */
export async function goBuild(go: string, source: string, args: readonly string[]): Promise<void> {
  const child = Bun.spawn([go, "build", "-trimpath", ...args], {
    cwd: source,
    env: { ...process.env, CGO_ENABLED: "0" },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  });
  const problem = await child.stderr.text();
  if ((await child.exited) !== 0) throw new Error(problem.trim().split("\n").at(-1) || "go build failed");
}
