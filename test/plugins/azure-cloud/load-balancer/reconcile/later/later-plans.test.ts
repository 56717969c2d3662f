import { expect, test } from "bun:test";

import { annotations } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { fast, openCluster, serviceOf } from "../../cluster.ts";

const scaleSet = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Compute/virtualMachineScaleSets/vmss0";

test("a model that another deployment overwrites with what it had read before is written again by itself", async () => {
  await using cluster = await openCluster(1);
  const { simulator } = cluster.world;
  const { metadata, ...rest } = serviceOf("others");
  const marks = { [annotations.servedBy]: "another" };
  cluster.services.set("default/others", { ...rest, metadata: { ...metadata, annotations: marks } });
  const before = simulator.get(scaleSet);
  await cluster.ensure(await cluster.start({}, fast(200)), serviceOf("web"));
  const pool = "loadBalancers/kubernetes/backendAddressPools/kubernetes";
  const model = (): string => JSON.stringify(simulator.get(scaleSet));
  expect(model()).toContain(pool);
  simulator.put(scaleSet, before ?? {});
  expect(model()).not.toContain(pool);
  await eventually("the pool is in the model again", () => model().includes(pool));
});
