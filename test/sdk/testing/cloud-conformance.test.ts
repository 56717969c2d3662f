import { describe, expect, test } from "bun:test";

import type { Cloud } from "cloud-controller-host/sdk";
import { cloudConformance, ConformanceError, type MemoryCloud } from "cloud-controller-host/sdk/testing";

import { memoryCloudHarness } from "../../kit/conformance.ts";

describe("the suite finds a cloud that", () => {
  const broken: Readonly<Record<string, (memory: MemoryCloud) => Partial<Cloud> | undefined>> = {
    "reports missing instances as existing": (memory) => void memory.intercept("instanceExists", async () => true),
    "returns no address": (memory) => void memory.machines.set("node0", {}),
    "returns different metadata each time": (memory) => {
      let calls = 0;
      memory.intercept("instanceMetadata", async ({ proceed }) => {
        const metadata = await proceed();
        return metadata === undefined ? undefined : { ...metadata, zone: `z${calls++}` };
      });
      return undefined;
    },
    "forgets its routes": (memory) => void memory.intercept("listRoutes", async () => []),
    "keeps deleted routes": (memory) => void memory.intercept("deleteRoute", async () => undefined),
    "keeps deleted load balancers": (memory) =>
      void memory.intercept("ensureLoadBalancerDeleted", async () => undefined),
    "returns impossible node masks": (memory) =>
      void memory.intercept("nodeMasks", async () => ({ ipv4: 40, ipv6: 64 })),
    "ignores a signal that aborts during a call": (memory) =>
      void memory.intercept("instanceExists", async ({ args: [node] }) => {
        await Bun.sleep(150);
        return memory.machines.has(node.metadata?.name ?? "");
      }),
    "never returns from run": () => ({ run: () => new Promise<void>(() => {}) }),
  };
  for (const [name, change] of Object.entries(broken))
    test(name, async () => {
      const suite = cloudConformance(
        memoryCloudHarness((memory) => change(memory) ?? {}),
        { limitMs: 200 },
      );
      const outcomes = await Promise.allSettled(suite.map((one) => one.run()));
      const reasons = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason] : []));
      expect(reasons.length).toBeGreaterThan(0);
      for (const reason of reasons) expect(reason).toBeInstanceOf(ConformanceError);
    });
});

test("the suite accepts a cloud that lists routes of other clusters too", async () => {
  const other = { name: "other", targetNode: "node9", destinationCIDR: "10.244.77.0/24" };
  const suite = cloudConformance(memoryCloudHarness((memory) => (memory.routes.set(other.name, other), {})));
  for (const { run } of suite) await run();
});
