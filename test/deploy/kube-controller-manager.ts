import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { controlPlaneVersions, linkerFlags } from "../envtest/assets.ts";
import type { Cluster } from "../envtest/cluster.ts";
import { buildOnce, goBuild, goCache } from "../envtest/go-build.ts";
import { type KubeControllerManager, startKubeControllerManager } from "../envtest/kube-controller-manager.ts";

const source = join(import.meta.dir, "kube-controller-manager");

/** The user that kube-controller-manager is in a cluster. */
const managerUser = "system:kube-controller-manager";

/**
 * Starts kube-controller-manager of the API server's own version as the user that it is in a cluster, with a service
 * account for each controller and leader migration.
 */
export async function startMigratingManager(
  cluster: Cluster,
  controllers: readonly string[],
  flags: readonly string[],
): Promise<KubeControllerManager> {
  const kubeconfig = await cluster.kubeconfig(managerUser);
  const tokenKey = `${kubeconfig}.key`;
  await writeFile(tokenKey, (await cluster.certificate("tokens")).keyPem, { mode: 0o600 });
  const electing = ["--leader-elect=true", "--enable-leader-migration", "--use-service-account-credentials"];
  return startKubeControllerManager({ assets: await migratingManager(), tokenKey }, kubeconfig, {
    controllers,
    flags: [...electing, ...flags],
  });
}

/**
 * Builds it where it has not been built yet; resolves with its folder. Its packages and flags are those of the control
 * plane, so that Go has compiled them already and only links.
 */
export async function migratingManager(): Promise<string> {
  const go = Bun.which("go");
  if (go === null) throw new Error("Go is not installed");
  const program = "kube-controller-manager";
  const build = async (folder: string): Promise<void> => {
    const flags = [`-modfile=${controlPlaneVersions}`, ...(await linkerFlags())];
    await goBuild(go, source, [...flags, "-o", join(folder, program), "."]);
  };
  return buildOnce(goCache(process.env, program), { go, source, versions: controlPlaneVersions, program, build });
}
