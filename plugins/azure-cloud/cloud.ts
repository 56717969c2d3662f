import {
  type Cloud,
  type CloudContext,
  CodedError,
  type Explain,
  keyOf,
  kinds,
  type NodeMasks,
  runTogether,
} from "cloud-controller-host/sdk";

import { type ArmClients, createClients } from "./arm/clients.ts";
import { abandonable } from "./arm/transport/signals.ts";
import { networkResources } from "./arm/writes/network-resources.ts";
import { operationMetrics } from "./arm/writes/operation-metrics.ts";
import type { AzureConfig } from "./config/decode.ts";
import { retryLookups } from "./instances/backoff.ts";
import { AzureInstances } from "./instances/instances.ts";
import { NodeResourceGroups } from "./instances/node-resource-groups.ts";
import { maintainServiceTaints } from "./instances/out-of-service.ts";
import { checkReferencedResources } from "./instances/referenced-resources.ts";
import { ScaleSetCatalog } from "./instances/scale-set-reads.ts";
import { VirtualMachineCatalog } from "./instances/virtual-machine-reads.ts";
import { masksOf } from "./instances/vm-rules.ts";
import type { VmSet } from "./instances/vm-set.ts";
import { absenceTtlMs, unknownNodes, type VmReads, vmTypes } from "./instances/vm-types.ts";
import { keepLatest } from "./keep-latest.ts";
import { explainNode, explainService } from "./load-balancer/explain.ts";
import { azureLoadBalancers } from "./load-balancer/load-balancers.ts";
import { plannerConfig } from "./load-balancer/model/planner-config.ts";
import { Drifts } from "./load-balancer/removals/drifts.ts";
import type { Removals } from "./load-balancer/removals/guarded-round.ts";
import { removalGuard } from "./removal-guard/guard.ts";
import { ClusterRouteTable } from "./routes/route-table.ts";
import { AzureRoutes } from "./routes/routes.ts";

/** Builds the cloud of one generation. It reads (endpoints, a token) and writes nothing. */
export async function createCloud(config: AzureConfig, context: CloudContext): Promise<Cloud> {
  if (context.shard && config.loadBalancerSku === "basic")
    throw new CodedError("InvalidConfiguration", "--shard requires loadBalancerSku standard, got basic");
  const resourceGroups = new NodeResourceGroups(context, config.resourceGroup);
  const clients = await createClients(config, context);
  const { clock, signal } = context;
  const scaleSets = new ScaleSetCatalog(clients, config, clock);
  await checkReferencedResources(config, { clients, scaleSets }, context);
  const reads = { clients, scaleSets, virtualMachines: new VirtualMachineCatalog(clients, config, clock) };
  const vms = vmTypes[config.vmType].vmSet({ ...reads, resourceGroups }, config);
  forgetNames(context, reads);
  const graceMs = config.nodeInstanceNotFoundGracePeriodInSeconds * 1000;
  const retryLookup = retryLookups(config, clock, signal);
  const guard = removalGuard(context, config);
  const removals = { guard, drifts: new Drifts(context) };
  const loadBalancers = azureLoadBalancers(config, reads, context, removals);
  const routes = routesOf(config, { context, clients, vms, removals });
  const { informers } = context;
  return {
    name: "azure",
    hasClusterID: true,
    instances: new AzureInstances({ vms, clock, graceMs, retryLookup, absenceTtlMs: absenceTtlMs(config) }),
    loadBalancers,
    nodeMasks: nodeMasksOf(vms),
    routes,
    async unrequestedRemovals() {
      const nodes = informers.of(kinds.Node).store.list();
      return loadBalancers.unrequestedRemovals([await routes.lostRoutes(nodes), unknownNodes(config, nodes)]);
    },
    status: () => [...clients.budget.status, ...loadBalancers.status],
    warnings: () => [...clients.troubles.warnings, ...guard.warnings],
    explain: explainOf(config, context, clients),
    run: (running) =>
      runTogether(running, [
        (until) => maintainServiceTaints(context, until),
        (until) => loadBalancers.run(until),
        (until) => clients.writes.settled(until),
      ]),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/** Deleted nodes that are remembered: their names are rarely used again, and soon if at all. */
const maxDeletedNodes = 5_000;

/**
 * A provider ID is never changed: that of a new node must not be the one of a VM that had its name before. A VM that is
 * replaced under its name has other addresses. What is read between the deletion of a node and the creation of the next
 * one may still show the former VM.
 */
function forgetNames({ informers }: CloudContext, { scaleSets, virtualMachines }: Omit<VmReads, "clients">): void {
  const deleted = new Set<string>();
  const forget = (name: string): void => {
    scaleSets.forgetName(name);
    virtualMachines.forgetName(name);
  };
  const recreated = (name: string): void => {
    forget(name);
    virtualMachines.forgetNetworks();
  };
  informers.of(kinds.Node).handle({
    added(node) {
      if (deleted.delete(keyOf(node))) recreated(keyOf(node));
    },
    deleted(node) {
      deleted.add(keyOf(node));
      keepLatest(deleted, maxDeletedNodes);
      forget(keyOf(node));
    },
    // A list after a gap of the watch shows a node that was deleted and created again as an update.
    updated(before, after) {
      if (before.metadata?.uid !== after.metadata?.uid) recreated(keyOf(after));
    },
  });
}

/** Reads the sizes of pod CIDRs from the tags of a node's scale set or availability set. */
const nodeMasksOf = (vms: VmSet): NodeMasks => ({
  nodeMasks: (node, call) => abandonable(async () => masksOf(await vms.setTags(node)), call?.signal),
});

interface RoutesParts {
  readonly context: CloudContext;
  readonly clients: ArmClients;
  readonly vms: VmSet;
  readonly removals: Removals;
}

function routesOf(config: AzureConfig, { context, clients, vms, removals }: RoutesParts): AzureRoutes {
  const { client, clock, log, metrics, signal } = context;
  const nodes = context.informers.of(kinds.Node).store;
  const isKnownNode = (name: string): boolean => nodes.get(name) !== undefined;
  const table = new ClusterRouteTable({
    clients,
    config,
    clock,
    log,
    metrics,
    signal,
    isKnownNode,
    removals: { ...removals, client, nodes },
  });
  const { networkSubscription } = clients;
  const observe = operationMetrics(metrics);
  return new AzureRoutes({ config, table, vms, nodes, clock, log, observe, networkSubscription });
}

/** Uses separate reads: the command makes them only once. */
function explainOf(config: AzureConfig, context: CloudContext, clients: ArmClients): Explain {
  const { clock, informers, signal } = context;
  const parts = (): Parameters<typeof explainNode>[1] => ({
    nodes: informers.of(kinds.Node).store.list(),
    services: informers.of(kinds.Service).store.list(),
    nowMs: clock.now(),
    keys: config,
    config: plannerConfig(config, context),
    network: networkResources(clients, config, { clock, signal }),
  });
  return {
    service: (service, nodes, services) => explainService(service, { nodes, services }, parts()),
    node: (node) => explainNode(node, parts()),
  };
}
