import { expect, test } from "bun:test";

import { countOf, instanceID, nodeOf, openWorld } from "./world.ts";

test("initialises two thousand nodes with no more than forty requests to Azure", async () => {
  await using world = await openWorld();
  const machines = await world.simulator.addInstances(2_000);
  await using cloud = await world.create();
  const found = await Promise.all(machines.map(({ nodeName }) => cloud.instances.instanceMetadata(nodeOf(nodeName))));
  expect(new Set(found.map((metadata) => metadata?.providerID)).size).toBe(2_000);
  expect(world.simulator.requests().length).toBeLessThanOrEqual(40);
  expect(found[37]).toEqual({
    providerID: instanceID(37),
    instanceType: "Standard_D2s_v3",
    nodeAddresses: [
      { type: "InternalIP", address: "10.240.0.41" },
      { type: "Hostname", address: "vmss0000011" },
    ],
    zone: "eastus-2",
    region: "eastus",
  });
  expect(countOf(world.simulator, "/vmss0/virtualMachines")).toBe(17);
});
