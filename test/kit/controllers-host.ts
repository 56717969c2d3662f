import { controllerNames } from "cloud-controller-host/sdk";

import type { ServedCloud } from "./cloud-server.ts";
import type { HostProcess } from "./host-process.ts";
import { rolesOf } from "./host-roles.ts";
import { type HostLab } from "./host-under-test.ts";
import type { Platform } from "./platform.ts";

export const allControllers: readonly string[] = Object.values(controllerNames);

/**
 * Short periods, nodes deleted as soon as their VM, and an unlimited budget of requests: tests need not wait, and a fault
 * has many chances to show.
 */
const briskFlags: readonly string[] = [
  "--cluster-cidr=10.244.0.0/16",
  "--allocate-node-cidrs",
  "--node-monitor-period=300ms",
  "--route-reconciliation-period=300ms",
  "--node-status-update-frequency=500ms",
  "--concurrent-node-syncs=8",
  "--concurrent-service-syncs=8",
  "--cloud-node-lifecycle-controller-grace-period-seconds=0",
  "--cloud-node-lifecycle-controller-uninitialized-grace-period-seconds=0",
  "--kube-api-qps=-1",
];

interface ControllersHost {
  /** Canonical names; default: all five. */
  readonly controllers?: readonly string[];
  /** Added to `briskFlags`; of two values of one flag the last applies. */
  readonly flags?: readonly string[];
}

/** Flags of a host with these controllers on that cloud, and the roles that its plugins ask for, granted. */
export async function controllersFlags(
  platform: Platform,
  cloud: ServedCloud,
  { controllers = allControllers, flags = [] }: ControllersHost = {},
): Promise<readonly string[]> {
  const kubeconfig = await platform.kubeconfig(await rolesOf(controllers));
  return [
    `--kubeconfig=${kubeconfig}`,
    ...cloud.flags,
    "--enable-dynamic-reloading",
    `--controllers=${controllers.join(",")}`,
    ...briskFlags,
    ...flags,
  ];
}

/** Starts such a host; it ends with the test. */
export async function startControllers(
  lab: HostLab,
  platform: Platform,
  cloud: ServedCloud,
  options?: ControllersHost,
): Promise<HostProcess> {
  return lab.run({ flags: await controllersFlags(platform, cloud, options) });
}
