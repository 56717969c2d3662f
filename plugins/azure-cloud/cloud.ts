import type { Clock, Cloud, CloudContext } from "cloud-controller-host/sdk";

import { type ArmClients, createClients } from "./arm/clients.ts";
import type { AzureConfig } from "./config/decode.ts";
import { repeating } from "./instances/backoff.ts";
import { AzureInstances } from "./instances/instances.ts";
import { MixedMachines } from "./instances/mixed-machines.ts";
import { AzureNodeMasks } from "./instances/node-masks.ts";
import { NodePlaces } from "./instances/node-places.ts";
import { maintainServiceTaints } from "./instances/out-of-service.ts";
import { ScaleSetCatalog } from "./instances/scale-set-reads.ts";
import { UniformScaleSets } from "./instances/uniform-scale-sets.ts";
import { VirtualMachineCatalog } from "./instances/virtual-machine-reads.ts";
import { VirtualMachines } from "./instances/virtual-machines.ts";
import type { VmSet } from "./instances/vm-set.ts";

/** Puts the cloud of one generation together. It reads (addresses, a token), and writes nothing. */
export async function createCloud(config: AzureConfig, context: CloudContext): Promise<Cloud> {
  const places = new NodePlaces(context, config.resourceGroup);
  const clients = await createClients(config, context);
  const { clock, signal } = context;
  const machines = machinesOf(config, clients, places, clock);
  const graceMs = config.nodeInstanceNotFoundGracePeriodInSeconds * 1000;
  return {
    name: "azure",
    hasClusterID: true,
    instances: new AzureInstances({ machines, clock, graceMs, repeat: repeating(config, clock, signal) }),
    nodeMasks: new AzureNodeMasks(machines),
    run: (running) => maintainServiceTaints(context, running),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/** What nodes are, by `vmType`: a cluster of scale sets may have other machines as well, unless that is ruled out. */
function machinesOf(config: AzureConfig, clients: ArmClients, places: NodePlaces, clock: Clock): VmSet {
  const scaleSets = new ScaleSetCatalog(clients, config, clock);
  const catalog = new VirtualMachineCatalog(clients, config, clock);
  const machines = new VirtualMachines(catalog, scaleSets, places, clients);
  if (config.vmType !== "vmss") return machines;
  const instances = new UniformScaleSets(scaleSets, places, clients);
  const instancesOnly = config.disableAvailabilitySetNodes && !config.enableVmssFlexNodes;
  return new MixedMachines({ instances, machines, instancesOnly });
}
