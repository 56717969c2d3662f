import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Cluster } from "../envtest/cluster.ts";
import { buildOnce, goBuild, goCache } from "../envtest/go-build.ts";
import { type KubeControllerManager, startKubeControllerManager } from "../envtest/kube-controller-manager.ts";

const source = join(import.meta.dir, "kube-controller-manager");
const versions = join(import.meta.dir, "..", "envtest", "control-plane", "go.mod");

/** The user that kube-controller-manager is in a cluster. */
const managerUser = "system:kube-controller-manager";

/**
 * Starts kube-controller-manager of the API server's own version as the user that it is in a cluster, with a service
 * account for each controller and leader migration. Undefined where there is no Go to build it with.
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
  return startKubeControllerManager({ assets: await built(), tokenKey }, kubeconfig, {
    controllers,
    flags: [...electing, ...flags],
  });
}

async function built(): Promise<string> {
  const go = Bun.which("go");
  if (go === null) throw new Error("Go is not installed");
  const program = "kube-controller-manager";
  return buildOnce(goCache(process.env, program), {
    go,
    source,
    program,
    build: (folder) => goBuild(go, source, [`-modfile=${versions}`, ...linking, "-o", join(folder, program), "."]),
  });
}

const linking = ["-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3"];
