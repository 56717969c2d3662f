import type { Cloud, CloudContext } from "cloud-controller-host/sdk";

import { createClients } from "./arm/clients.ts";
import type { AzureConfig } from "./config/decode.ts";
import { AzureInstances } from "./instances/instances.ts";
import { Missing } from "./instances/missing.ts";
import { AzureNodeMasks } from "./instances/node-masks.ts";
import { NodePlaces } from "./instances/node-places.ts";
import { ScaleSetCatalog } from "./instances/scale-set-reads.ts";
import { UniformScaleSets } from "./instances/uniform-scale-sets.ts";
import type { VmSet } from "./instances/vm-set.ts";

/** Puts the cloud of one generation together. It reads (addresses, a token), and writes nothing. */
export async function createCloud(config: AzureConfig, context: CloudContext): Promise<Cloud> {
  const places = new NodePlaces(context, config.resourceGroup);
  const clients = await createClients(config, context);
  const { clock } = context;
  const catalog = new ScaleSetCatalog(clients, config, clock);
  const uniform = new UniformScaleSets(catalog, places, new Missing(clock), clients);
  const vmSetOf = (): VmSet => uniform;
  return {
    name: "azure",
    hasClusterID: true,
    instances: new AzureInstances({
      vmSetOf,
      clock,
      graceMs: config.nodeInstanceNotFoundGracePeriodInSeconds * 1000,
    }),
    nodeMasks: new AzureNodeMasks(vmSetOf),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}
