import type { ControllerPlugin, Permission } from "cloud-controller-host/sdk";

import { loadApiServer } from "../../host/kube/connection/api-server.ts";
import { clientNames, ControllerRunner } from "../../host/sandbox/testing/runner.ts";
import type { Cluster } from "../envtest/cluster.ts";

/**
 * The kit on a real API server, for one plugin: its client and its informers may do what the plugin asks for in its
 * `permissions`, and nothing else. `cloud`: the permissions of its cloud, which shares them here.
 */
export async function realRunner(
  cluster: Cluster,
  plugin: ControllerPlugin,
  cloud: readonly Permission[] = [],
): Promise<ControllerRunner> {
  await cluster.grant(plugin.name, [...plugin.permissions, ...cloud]);
  const [own, events] = await Promise.all([
    cluster.kubeconfig(plugin.name),
    cluster.kubeconfig(clientNames.events, ["system:masters"]),
  ]);
  return new ControllerRunner((clientName) =>
    loadApiServer({ kubeconfig: clientName === clientNames.events ? events : own }),
  );
}
