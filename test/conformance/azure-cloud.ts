import type { CloudHarness } from "cloud-controller-host/sdk/testing";

import { serviceOf } from "../plugins/azure-cloud/load-balancer/cluster.ts";
import { instanceID, nodeOf, openWorld } from "../plugins/azure-cloud/world.ts";

/** The plugin with Azure's own client libraries, against its simulator over TLS. */
export const azureCloudHarness: CloudHarness = {
  async open() {
    const world = await openWorld();
    world.simulator.addScaleSet({
      name: "pool",
      tags: { kubernetesNodeCIDRMaskIPV4: "24", kubernetesNodeCIDRMaskIPV6: "64" },
    });
    world.simulator.addScaleSetInstances("pool", 1);
    const cloud = await world.create();
    const web = serviceOf("web");
    return {
      cloud,
      clusterName: "kubernetes",
      node: nodeOf("pool000000", { providerID: instanceID(0, "pool") }),
      ghost: nodeOf("pool00000z"),
      // Its deletion was requested long ago: what another process may have written for it shows in every read.
      service: { ...web, metadata: { ...web.metadata, deletionTimestamp: "2026-01-02T00:00:00Z" } },
      writes: () =>
        world.simulator.log.filter(({ method, path }) => method !== "GET" && path.startsWith("/subscriptions")).length,
      delayAnswers: () => world.simulator.setLatency(60_000),
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
    };
  },
};
