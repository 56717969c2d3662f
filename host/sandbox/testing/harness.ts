import type { KindRef } from "cloud-controller-host/sdk";
import type { ControllerHarness } from "cloud-controller-host/sdk/testing";

import { defaultOptions, type Options } from "../../config/flags/options.ts";
import { complete } from "../../config/validate/complete.ts";
import { TestCluster } from "./cluster.ts";
import { countTimers, outsideOfWork, WorkTimers } from "./timers.ts";

/** Every feature enabled, with short periods. */
const testFlags: Partial<Options> = {
  nodeMonitorPeriod: 20,
  nodeStatusUpdateFrequency: 20,
  routeReconciliationPeriod: 20,
  concurrentNodeSyncs: 2,
  clusterCidr: "10.244.0.0/16",
  allocateNodeCidrs: true,
  configureCloudRoutes: true,
};

/** Flags of the host by option name, and kinds to serve beside those that the plugin declares. */
export type HarnessOptions = Partial<Options> & { readonly kinds?: readonly KindRef[] };

/** Harness of `controllerConformance` on the sandbox's API server. */
export function controllerHarness({ kinds = [], ...flags }: HarnessOptions = {}): ControllerHarness {
  return {
    async open({ kinds: declared = [] }) {
      const cluster = await TestCluster.start({ kinds: [...declared, ...kinds] });
      const counting = countTimers();
      return {
        config: complete({ ...defaultOptions, ...testFlags, ...flags }),
        admin: cluster.admin,
        generation(plugin) {
          const generation = cluster.generation(plugin);
          return {
            context: outsideOfWork(generation.context),
            timers: new WorkTimers(),
            synced: () => generation.synced(),
            [Symbol.asyncDispose]: () => generation[Symbol.asyncDispose](),
          };
        },
        async [Symbol.asyncDispose]() {
          counting[Symbol.dispose]();
          await cluster[Symbol.asyncDispose]();
        },
      };
    },
  };
}
