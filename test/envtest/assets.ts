import { createHash } from "node:crypto";
import { access, constants, mkdir, readdir, readFile, rename, rm, symlink } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";

import { messageOf } from "cloud-controller-host/sdk";

import { withLock } from "./lock.ts";

/** The folder that holds `etcd`, `kube-apiserver` and the others, or the one-line reason why there is none. */
export type Assets =
  { readonly found: true; readonly directory: string } | { readonly found: false; readonly reason: string };

const source = join(import.meta.dir, "control-plane");
const programs = ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"] as const;
/** What a folder given from outside must hold; envtest's own releases have no controller manager. */
const required = ["etcd", "kube-apiserver", "kubectl"] as const;

const absent = (reason: string): Assets => ({ found: false, reason });

/**
 * Finds the control plane's programs: those that `KUBEBUILDER_ASSETS` names (the convention of envtest), else those
 * built from `test/envtest/control-plane` with Go, once for each version, and kept in the user's cache.
 */
export async function findAssets(environment: Readonly<Record<string, string | undefined>>): Promise<Assets> {
  const given = environment["KUBEBUILDER_ASSETS"];
  if (given !== undefined && given !== "") return givenAssets(given);
  const go = Bun.which("go", { PATH: environment["PATH"] ?? "" });
  if (go === null)
    return absent("Go is not installed and KUBEBUILDER_ASSETS is not set (a folder with etcd and kube-apiserver)");
  const cache = environment["XDG_CACHE_HOME"] || join(homedir(), ".cache");
  try {
    return { found: true, directory: await builtAssets(go, join(cache, "cloud-controller-host", "control-plane")) };
  } catch (error) {
    return absent(`the control plane could not be built: ${messageOf(error)}`);
  }
}

async function givenAssets(directory: string): Promise<Assets> {
  const missing: string[] = [];
  for (const program of required)
    if (!(await isExecutable(join(directory, program)))) missing.push(join(directory, program));
  if (missing.length === 0) return { found: true, directory };
  throw new Error(`KUBEBUILDER_ASSETS=${directory}: no executable ${missing.join(", no executable ")}`);
}

const isExecutable = (path: string): Promise<boolean> =>
  access(path, constants.X_OK).then(
    () => true,
    () => false,
  );

/** Builds where nobody has yet. A build appears under its final name only when it is complete. */
async function builtAssets(go: string, cache: string): Promise<string> {
  const directory = join(cache, await fingerprint(go));
  if (await isExecutable(join(directory, "etcd"))) return directory;
  await mkdir(cache, { recursive: true });
  await withLock(`${directory}.lock`, async () => {
    if (await isExecutable(join(directory, "etcd"))) return;
    const unfinished = `${directory}.${process.pid}`;
    await rm(unfinished, { recursive: true, force: true });
    await mkdir(unfinished);
    try {
      await build(go, join(unfinished, "control-plane"));
      for (const program of programs) await symlink("control-plane", join(unfinished, program));
      await rename(unfinished, directory);
    } finally {
      await rm(unfinished, { recursive: true, force: true });
    }
  });
  return directory;
}

/** Changes whenever another binary would come of a build. */
async function fingerprint(go: string): Promise<string> {
  const hash = createHash("sha256");
  const version = Bun.spawn([go, "env", "GOVERSION", "GOOS", "GOARCH"], { cwd: source, stderr: "ignore" });
  hash.update(await version.stdout.text());
  if ((await version.exited) !== 0) throw new Error("go env failed");
  for (const name of (await readdir(source)).toSorted()) hash.update(await readFile(join(source, name)));
  return hash.digest("hex").slice(0, 16);
}

async function build(go: string, output: string): Promise<void> {
  process.stderr.write("building etcd and kube-apiserver from Go modules, a few minutes the first time…\n");
  const flags = ["-trimpath", "-ldflags", await linkerFlags(), "-o", output];
  const child = Bun.spawn([go, "build", ...flags, "."], {
    cwd: source,
    env: { ...process.env, CGO_ENABLED: "0" },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  });
  const complaint = await child.stderr.text();
  if ((await child.exited) !== 0) throw new Error(complaint.trim().split("\n").at(-1) || "go build failed");
}

/** The API server tells its clients the version that is linked in here; it is that of the module. */
async function linkerFlags(): Promise<string> {
  const version = /k8s\.io\/kubernetes (v(\d+)\.(\d+)\.\d+)/.exec(await readFile(join(source, "go.mod"), "utf8"));
  if (version === null) throw new Error("go.mod names no version of k8s.io/kubernetes");
  const [, gitVersion, gitMajor, gitMinor] = version;
  const values = Object.entries({ gitVersion, gitMajor, gitMinor });
  return ["-s", "-w", ...values.map(([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`)].join(" ");
}
