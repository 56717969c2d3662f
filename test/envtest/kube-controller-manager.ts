import { join } from "node:path";

import type { Handover } from "./handover.ts";
import { createKeeper } from "./keeper.ts";

export interface KubeControllerManagerOptions {
  /** What `--controllers` says, e.g. `["namespace-controller"]`. */
  readonly controllers: readonly string[];
  readonly flags?: readonly string[];
}

export interface KubeControllerManager extends AsyncDisposable {
  /** Undefined while it runs. */
  exitCode(): number | undefined;
  lastWords(): Promise<string>;
}

/** Starts upstream's controller manager with `--cloud-provider=external`; it dies with this process. */
export async function startKubeControllerManager(
  { assets, tokenKey }: Pick<Handover, "assets" | "tokenKey">,
  kubeconfig: string,
  options: KubeControllerManagerOptions,
): Promise<KubeControllerManager> {
  const keeper = await createKeeper("envtest-kcm");
  const program = keeper.start("kube-controller-manager", [
    join(assets, "kube-controller-manager"),
    `--kubeconfig=${kubeconfig}`,
    `--controllers=${options.controllers.join(",")}`,
    `--service-account-private-key-file=${tokenKey}`,
    "--cloud-provider=external",
    "--leader-elect=false",
    "--secure-port=0",
    ...(options.flags ?? []),
  ]);
  return {
    exitCode: () => program.exitCode(),
    lastWords: () => program.lastWords(),
    [Symbol.asyncDispose]: () => keeper[Symbol.asyncDispose](),
  };
}
