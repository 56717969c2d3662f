import { describe, test } from "bun:test";

import type { ControllerPlugin } from "cloud-controller-host/sdk";
import {
  type ConformanceTest,
  controllerConformance,
  type ControllerConformanceOptions,
  type ControllerHarness,
} from "cloud-controller-host/sdk/testing";

import { complete } from "../../host/config/complete.ts";
import { defaultOptions, type Options } from "../../host/config/options.ts";
import { TestCluster } from "./harness.ts";

/** Everything switched on, and everything that is periodic quick. */
const lively: Partial<Options> = {
  nodeMonitorPeriod: 20,
  nodeStatusUpdateFrequency: 20,
  routeReconciliationPeriod: 20,
  concurrentNodeSyncs: 2,
  clusterCidr: "10.244.0.0/16",
  allocateNodeCidrs: true,
  configureCloudRoutes: true,
};

/** Runs controllers for the SDK's suite on the sandbox's API server. */
export function controllerHarness(flags: Partial<Options> = {}): ControllerHarness {
  return {
    async open() {
      const cluster = await TestCluster.start();
      return {
        config: complete({ ...defaultOptions, ...lively, ...flags }),
        admin: cluster.admin,
        generation: (plugin) => cluster.generation(plugin),
        [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
      };
    },
  };
}

/** Makes a suite of the SDK a block of tests. */
export function describeConformance(name: string, suite: readonly ConformanceTest[]): void {
  describe(`conformance of ${name}`, () => {
    for (const promise of suite) test(promise.name, promise.run);
  });
}

/** The promises that every controller plugin keeps, as tests. */
export function describeController(
  plugin: ControllerPlugin,
  options: ControllerConformanceOptions & { readonly flags?: Partial<Options> } = {},
): void {
  describeConformance(plugin.name, controllerConformance(plugin, controllerHarness(options.flags), options));
}
