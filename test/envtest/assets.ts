import { readFile, symlink } from "node:fs/promises";
import { join } from "node:path";

import { messageOf } from "cloud-controller-host/sdk";

import { buildOnce, goBuild, goCache, isExecutable } from "./go-build.ts";

/** The folder that holds `etcd`, `kube-apiserver` and the others, or the one-line reason why there is none. */
export type Assets =
  { readonly found: true; readonly directory: string } | { readonly found: false; readonly reason: string };

const source = join(import.meta.dir, "control-plane");
/** The versions of Kubernetes that the control plane is built of. */
export const controlPlaneVersions = join(source, "go.mod");
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
  const build = (folder: string): Promise<void> => buildPrograms(go, folder);
  try {
    const cache = goCache(environment, "control-plane");
    return { found: true, directory: await buildOnce(cache, { go, source, program: "etcd", build }) };
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

async function buildPrograms(go: string, folder: string): Promise<void> {
  process.stderr.write("building etcd and kube-apiserver from Go modules, a few minutes the first time…\n");
  await goBuild(go, source, [...(await linkerFlags()), "-o", join(folder, "control-plane"), "."]);
  for (const program of programs) await symlink("control-plane", join(folder, program));
}

/** A program of Kubernetes tells the version that is linked in here; it is that of the module. */
export async function linkerFlags(): Promise<readonly string[]> {
  const version = /k8s\.io\/kubernetes (v(\d+)\.(\d+)\.\d+)/.exec(await readFile(controlPlaneVersions, "utf8"));
  if (version === null) throw new Error("go.mod names no version of k8s.io/kubernetes");
  const [, gitVersion, gitMajor, gitMinor] = version;
  const values = Object.entries({ gitVersion, gitMajor, gitMinor });
  const linked = values.map(([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`);
  return ["-ldflags", ["-s", "-w", ...linked].join(" ")];
}
