import { test } from "bun:test";

import { cloudConformance } from "cloud-controller-host/sdk/testing";

import { nodeOf, openWorld } from "./world.ts";

/** The promises of every cloud, kept by this one against the simulator. */
const suite = cloudConformance({
  async open() {
    const world = await openWorld();
    world.simulator.addScaleSet({
      name: "pool",
      tags: { kubernetesNodeCIDRMaskIPV4: "24", kubernetesNodeCIDRMaskIPV6: "64" },
    });
    world.simulator.addMachines("pool", 1);
    const cloud = await world.create();
    return {
      cloud,
      clusterName: "kubernetes",
      node: nodeOf("pool000000", {
        providerID:
          "azure:///subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Compute/virtualMachineScaleSets/pool/virtualMachines/0",
      }),
      ghost: nodeOf("pool00000z"),
      writes: () =>
        world.simulator.log.filter(({ method, path }) => method !== "GET" && path.startsWith("/subscriptions")).length,
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    };
  },
});

for (const { name, run } of suite) test(name, run);
