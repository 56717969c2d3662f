import {
  type Cloud,
  type CloudContext,
  type Explain,
  kinds,
  type Node,
  type Routes,
  runTogether,
} from "cloud-controller-host/sdk";

import { type ArmClients, createClients } from "./arm/clients.ts";
import { networkResources } from "./arm/writes/network-resources.ts";
import { operationMetrics } from "./arm/writes/operation-metrics.ts";
import type { AzureConfig } from "./config/decode.ts";
import { retryLookups } from "./instances/backoff.ts";
import { AzureInstances } from "./instances/instances.ts";
import { MixedVms } from "./instances/mixed-vms.ts";
import { AzureNodeMasks } from "./instances/node-masks.ts";
import { NodeResourceGroups } from "./instances/node-resource-groups.ts";
import { maintainServiceTaints } from "./instances/out-of-service.ts";
import { namesInstance } from "./instances/provider-id.ts";
import { checkReferencedResources } from "./instances/referenced-resources.ts";
import { ScaleSetCatalog } from "./instances/scale-set-reads.ts";
import { UniformScaleSets } from "./instances/uniform-scale-sets.ts";
import { VirtualMachineCatalog } from "./instances/virtual-machine-reads.ts";
import { VirtualMachines } from "./instances/virtual-machines.ts";
import type { VmSet } from "./instances/vm-set.ts";
import { explainNode, explainService } from "./load-balancer/explain.ts";
import { azureLoadBalancers } from "./load-balancer/load-balancers.ts";
import { plannerConfig } from "./load-balancer/model/planner-config.ts";
import { ClusterRouteTable } from "./routes/route-table.ts";
import { AzureRoutes } from "./routes/routes.ts";

/** Builds the cloud of one generation. It reads (endpoints, a token) and writes nothing. */
export async function createCloud(config: AzureConfig, context: CloudContext): Promise<Cloud> {
  const resourceGroups = new NodeResourceGroups(context, config.resourceGroup);
  const clients = await createClients(config, context);
  const { clock, signal } = context;
  const scaleSets = new ScaleSetCatalog(clients, config, clock);
  await checkReferencedResources(config, { clients, scaleSets }, context);
  const catalog = new VirtualMachineCatalog(clients, config, clock);
  const vms = vmSetOf(config, { clients, resourceGroups, scaleSets, catalog });
  const graceMs = config.nodeInstanceNotFoundGracePeriodInSeconds * 1000;
  const retryLookup = retryLookups(config, clock, signal);
  const loadBalancers = azureLoadBalancers(config, clients, context);
  return {
    name: "azure",
    hasClusterID: true,
    instances: new AzureInstances({ vms, clock, graceMs, retryLookup, absenceTtlMs: absenceTtl(config) }),
    loadBalancers,
    nodeMasks: new AzureNodeMasks(vms),
    routes: routesOf(config, context, clients, vms),
    warnings: () => clients.troubles.warnings,
    explain: explainOf(config, context, clients),
    run: (running) =>
      runTogether(running, [(until) => maintainServiceTaints(context, until), (until) => loadBalancers.run(until)]),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

function routesOf(config: AzureConfig, context: CloudContext, clients: ArmClients, vms: VmSet): Routes {
  const { clock, log, metrics, signal } = context;
  const nodes = context.informers.of(kinds.Node).store;
  const isKnownNode = (name: string): boolean => nodes.get(name) !== undefined;
  const table = new ClusterRouteTable({ clients, config, clock, log, signal, isKnownNode });
  const { networkSubscription } = clients;
  return new AzureRoutes({ config, table, vms, nodes, log, observe: operationMetrics(metrics), networkSubscription });
}

/** Reads of its own: the command that uses it makes them once. */
function explainOf(config: AzureConfig, { clusterName, clock, signal }: CloudContext, clients: ArmClients): Explain {
  const parts = (): Parameters<typeof explainNode>[1] => ({
    config: plannerConfig(config, clusterName),
    network: networkResources(clients, config, { clock, signal }),
  });
  return {
    service: (service, nodes) => explainService(service, nodes, parts()),
    node: (node) => explainNode(node, parts()),
  };
}

interface VmReads {
  readonly clients: ArmClients;
  readonly resourceGroups: NodeResourceGroups;
  readonly scaleSets: ScaleSetCatalog;
  readonly catalog: VirtualMachineCatalog;
}

/** The kinds of VMs by `vmType`; scale set clusters may have other VMs as well, unless the config excludes them. */
function vmSetOf(config: AzureConfig, { clients, resourceGroups, scaleSets, catalog }: VmReads): VmSet {
  const virtualMachines = new VirtualMachines(catalog, scaleSets, resourceGroups, clients);
  if (config.vmType !== "vmss") return virtualMachines;
  const instances = new UniformScaleSets(scaleSets, resourceGroups, clients);
  const instancesOnly = config.disableAvailabilitySetNodes && !config.enableVmssFlexNodes;
  return new MixedVms({ instances, virtualMachines, instancesOnly });
}

/** How long a VM is remembered as missing: as long as upstream caches that kind of VM. */
const absenceTtl = (config: AzureConfig) => (node: Node) => {
  if (config.disableAPICallCache) return 0;
  const { vmssVirtualMachinesCacheTTLInSeconds: instanceTtl, vmCacheTTLInSeconds: vmTtl } = config;
  const providerID = node.spec?.providerID ?? "";
  const isInstance = providerID === "" ? config.vmType === "vmss" : namesInstance(providerID);
  return (isInstance ? instanceTtl : vmTtl) * 1000;
};
