import { describe, test } from "bun:test";

import type { Cloud, ControllerPlugin } from "cloud-controller-host/sdk";
import {
  type CloudHarness,
  type CloudMethod,
  type ConformanceTest,
  controllerConformance,
  type ControllerConformanceOptions,
  type MemoryCloud,
  memoryCloud,
} from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../host/async/clock.ts";
import type { Options } from "../../host/config/flags/options.ts";
import { controllerHarness } from "../../host/sandbox/testing/harness.ts";

const lastingChanges: ReadonlySet<CloudMethod> = new Set<CloudMethod>(["createRoute", "deleteRoute"]);

/** The cloud in memory for the SDK's suite of clouds, or one that is changed so that it breaks a promise. */
export function memoryCloudHarness(change: (memory: MemoryCloud) => Partial<Cloud> = () => ({})): CloudHarness {
  return {
    async open() {
      let latencyMs = 0;
      const memory = memoryCloud({
        latency: {
          clock: systemClock,
          get ms() {
            return latencyMs;
          },
        },
      });
      memory.machines.set("node0", { nodeAddresses: [{ type: "InternalIP", address: "10.0.0.1" }] });
      const cloud: Cloud = { ...memory.cloud, ...change(memory) };
      return {
        cloud,
        clusterName: "kubernetes",
        node: { metadata: { name: "node0" } },
        ghost: { metadata: { name: "ghost" } },
        service: { metadata: { namespace: "default", name: "web", uid: "1" } },
        writes: () => memory.calls.filter(({ method }) => lastingChanges.has(method)).length,
        delayAnswers: () => void (latencyMs = 60_000),
        [Symbol.asyncDispose]: () => memory.cloud[Symbol.asyncDispose](),
      };
    },
  };
}

/** Makes a suite of the SDK a block of tests. */
export function describeConformance(name: string, suite: readonly ConformanceTest[]): void {
  describe(`conformance of ${name}`, () => {
    for (const { name: title, run, skip } of suite)
      // The suite gives the reason.
      if (skip !== undefined) test.skip(`${title}: ${skip}`, run);
      else test(title, run);
  });
}

export type ControllerSuiteOptions = ControllerConformanceOptions & { readonly flags?: Partial<Options> };

/** The promises that every controller plugin keeps, as tests. */
export function describeController(plugin: ControllerPlugin, options: ControllerSuiteOptions = {}): void {
  describeConformance(
    plugin.name,
    controllerConformance(plugin, controllerHarness(options.flags), { limitMs: 10_000, ...options }),
  );
}
