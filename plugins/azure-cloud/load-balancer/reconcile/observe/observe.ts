import type { LoadBalancer, PublicIPAddress, Subnet } from "@azure/arm-network";
import { type CloudContext, keyOf, kinds, type Node, type Service } from "cloud-controller-host/sdk";

import type { ArmClients } from "../../../arm/clients.ts";
import { SharedRead, SharedReads } from "../../../arm/reads/shared-read.ts";
import { readZones } from "../../../arm/reads/zones.ts";
import { sameName } from "../../../arm/resource-id.ts";
import { forgetAll, type NetworkResources, outdate } from "../../../arm/writes/network-resources.ts";
import { keepLatest } from "../../../keep-latest.ts";
import type { Observed, ServiceIntent } from "../../model/model.ts";
import { isServiceFrontend } from "../../model/names.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import type { PoolReads } from "../../pools/pool-reads.ts";
import { hasType, isDeletionOver, isSameService, wantsLoadBalancer } from "../../service/identity.ts";
import type { WriteOutcome } from "../apply/apply.ts";
import type { NewServices } from "../apply/preconditions.ts";
import type { Drains } from "../drains.ts";
import { Contradictions } from "./contradictions.ts";
import { keptList } from "./kept-list.ts";
import {
  endpointNodes,
  groupsInUse,
  type Known,
  neededReads,
  nothingKnown,
  readSubnet,
  zonesInUse,
} from "./needed-reads.ts";
import { OpenedAddresses } from "./opened-addresses.ts";
import type { Observation, Unreadable } from "./unreadable.ts";

export interface ObserverOptions {
  readonly clients: ArmClients;
  readonly config: PlannerConfig;
  readonly network: NetworkResources;
  readonly members: PoolReads;
  readonly newServices: NewServices;
  readonly context: Pick<CloudContext, "informers" | "clock" | "shards">;
  readonly seen?: (observed: Observed) => void;
  readonly drains?: Drains | undefined;
}

/** Deleted nodes that are remembered: after so many later deletions the instance of a node does not exist any more. */
const maxDeletedNodes = 5_000;

/** Zones of a region change with Azure's data centers. */
const zonesTtlMs = 30 * 60_000;
/** Upstream never caches subnets; this only lets ticks in a row share a read. */
const subnetTtlMs = 5_000;

/** Reads what planning needs: a few lists, however many Services there are, and most of them from caches. */
export class Observer {
  readonly #options: ObserverOptions;
  /** Nodes that were deleted since the start, by name: their instances leave the pools although they may still run. */
  readonly #deletedNodes = new Map<string, Node>();
  readonly #zones: SharedRead<readonly string[]>;
  readonly #subnets: SharedReads<Subnet | undefined>;
  readonly contradictions: Contradictions;
  readonly opened: OpenedAddresses;
  /** Planning knows Services that need no write by the lists that they were planned from. */
  readonly #loadBalancers = keptList<LoadBalancer>();
  readonly #publicIPs = keptList<PublicIPAddress>();
  readonly #services = keptList<Service>();

  constructor(options: ObserverOptions) {
    const { clients, config, context, network, newServices } = options;
    const { clock } = context;
    const current = (service: Service) => context.informers.of(kinds.Service).store.get(keyOf(service));
    this.contradictions = new Contradictions({ config, network, clock, current, newServices });
    this.opened = new OpenedAddresses(config);
    this.#options = options;
    this.#zones = new SharedRead({ clock, ttlMs: zonesTtlMs, read: () => readZones(clients, config.location) });
    this.#subnets = new SharedReads(
      (name) => new SharedRead({ clock, ttlMs: subnetTtlMs, read: () => readSubnet(clients, config, name) }),
    );
    context.informers.of(kinds.Node).handle({
      added: ({ metadata }) => void this.#deletedNodes.delete(metadata?.name ?? ""),
      deleted: (node) => this.#noteDeleted(node),
    });
    // Synced before the first tick. Services are those of the service controller, which syncs them itself.
    if (config.loadBalancers.length > 0) {
      this.#namespaceLabels();
      endpointNodes(context.informers, []);
    }
  }

  services(): readonly Service[] {
    const services = this.#options.context.informers.of(kinds.Service).store.list();
    return this.#services(services.filter(hasType));
  }

  /** The Service as it is now; undefined when it is gone or replaced, is being deleted, or wants no load balancer here. */
  service(known: Service): Service | undefined {
    const current = this.#options.context.informers.of(kinds.Service).store.get(keyOf(known));
    return current && wantsLoadBalancer(current) && isSameService(current, known) ? current : undefined;
  }

  isDeletionOver(known: Service): boolean {
    const { informers, shards } = this.#options.context;
    return isDeletionOver(known, informers.of(kinds.Service).store.get(keyOf(known)), shards);
  }

  /** As `service`; one that no informer knows, as a caller may have created it a moment ago, is as the caller has it. */
  newest(known: Service): Service | undefined {
    const current = this.#options.context.informers.of(kinds.Service).store.get(keyOf(known));
    return current === undefined ? known : this.service(known);
  }

  nodes(): readonly Node[] {
    return this.#options.context.informers.of(kinds.Node).store.list();
  }

  async observe(intents: readonly ServiceIntent[], known: Known = nothingKnown()): Promise<Observation> {
    const { config, network, members, context } = this.#options;
    const needed = neededReads(intents, config);
    const unreadable: Unreadable = { groups: new Map(), subnets: new Map(), vmSets: undefined, services: new Map() };
    const publicIPsIn = (groups: readonly string[]) =>
      this.#inGroups(groups, unreadable.groups, (group) => network.publicIPs.all(group));
    if (config.pools === "interfaces") members.begin(this.nodes());
    const listed = network.loadBalancers.all(config.loadBalancerResourceGroup);
    const [balancers, named, securityGroups, privateLinkServices, subnets, zones] = await Promise.all([
      listed,
      publicIPsIn(needed.publicIPResourceGroups),
      network.securityGroups.all(config.securityGroupResourceGroup),
      this.#inGroups(needed.privateLinkResourceGroups, unreadable.groups, (group) =>
        network.privateLinkServices.all(group),
      ),
      this.#readSubnets(needed.subnets, unreadable.subnets),
      this.#readZones(listed),
    ]);
    // Those of Services that are not planned now, and of Services that have named another group since.
    for (const group of needed.publicIPResourceGroups) if (!unreadable.groups.has(group)) known.groups.add(group);
    for (const group of groupsInUse(balancers, isServiceFrontend)) known.groups.add(group);
    const publicIPsOfOthers = await publicIPsIn(
      [...known.groups].filter((group) => !needed.publicIPResourceGroups.includes(group)),
    );
    const lists = { loadBalancers: balancers, publicIPs: [...named, ...publicIPsOfOthers] };
    const settled = await this.contradictions.settle(intents, lists, (group) => unreadable.groups.has(group));
    unreadable.services = settled.errors;
    const loadBalancers = this.#loadBalancers(settled.loadBalancers);
    const nodes = this.nodes();
    const poolMembers = await members.observe(loadBalancers, nodes, [...this.#deletedNodes.values()]);
    const observed = {
      loadBalancers,
      publicIPs: this.#publicIPs(settled.publicIPs),
      securityGroup: securityGroups.find(({ name }) => sameName(name ?? "", config.securityGroup)),
      privateLinkServices,
      subnets,
      ...zones,
      services: this.services(),
      nodes,
      drains: this.#options.drains?.read(nodes) ?? new Map(),
      deletedNodes: new Set(this.#deletedNodes.keys()),
      createdPools: known.createdPools,
      opened: this.opened.wishes,
      cleared: this.opened.cleared,
      poolMembers,
      vmSets: await this.#readVmSets(nodes, unreadable),
      endpointNodes: config.loadBalancers.length > 0 ? endpointNodes(context.informers, intents) : new Map(),
      namespaceLabels: needed.namespaces.length > 0 ? this.#namespaceLabels() : new Map(),
    };
    this.#options.seen?.(observed);
    return { observed, unreadable };
  }

  /** Called with each write that ARM may have carried out, and the Services for which it may have created something. */
  wrote(outcome: WriteOutcome, ensured: readonly Service[]): void {
    this.contradictions.wrote(outcome, ensured);
    this.opened.wrote(outcome, ensured);
  }

  /** Everything is read again, because another component may have written since. */
  forget(): void {
    const { network, members, config } = this.#options;
    forgetAll(network);
    members.forgetScaleSets(config.resourceGroup);
  }

  /** The resource is read again by itself: a write to another one, or the end of an operation, has changed it. */
  outdate(id: string): void {
    outdate(this.#options.network, id);
  }

  /** Makes the next reader get the subnet again. */
  forgetSubnet(name: string): void {
    this.#subnets.of(name.toLowerCase()).forget();
  }

  #noteDeleted(node: Node): void {
    this.#deletedNodes.set(node.metadata?.name ?? "", node);
    keepLatest(this.#deletedNodes, maxDeletedNodes);
  }

  /** The cluster's own groups must be readable; one that only an annotation names concerns its Service alone. */
  async #inGroups<T>(
    groups: readonly string[],
    unreadable: Map<string, unknown>,
    read: (group: string) => Promise<readonly T[]>,
  ): Promise<readonly T[]> {
    const { resourceGroup, privateLinkResourceGroup } = this.#options.config;
    const lists = groups.map((group) =>
      read(group).catch((error: unknown): readonly T[] => {
        if (group === resourceGroup || group === privateLinkResourceGroup) throw error;
        unreadable.set(group, error);
        return [];
      }),
    );
    return (await Promise.all(lists)).flat();
  }

  async #readSubnets(names: readonly string[], unreadable: Map<string, unknown>): Promise<ReadonlyMap<string, Subnet>> {
    const found = new Map<string, Subnet>();
    const reads = [...new Set(names.map((name) => name.toLowerCase()))].map(async (name) => {
      try {
        const subnet = await this.#subnets.of(name).get("cached");
        if (subnet !== undefined) found.set(name, subnet);
      } catch (error) {
        unreadable.set(name, error);
      }
    });
    await Promise.all(reads);
    return found;
  }

  /** Zones that were read before are those of the region still, and so are those of frontends that have them all. */
  async #readZones(loadBalancers: Promise<Observed["loadBalancers"]>): Promise<Pick<Observed, "zones" | "zonesError">> {
    try {
      return { zones: await this.#zones.get("cached") };
    } catch (error) {
      const zones = this.#zones.last ?? zonesInUse(await loadBalancers);
      return { zones, ...(zones.length === 0 && { zonesError: error }) };
    }
  }

  async #readVmSets(nodes: readonly Node[], unreadable: Unreadable): Promise<Observed["vmSets"]> {
    const { config, members } = this.#options;
    if (config.loadBalancers.length === 0 && config.sku !== "basic") return new Map();
    try {
      return await members.vmSets(nodes);
    } catch (error) {
      unreadable.vmSets = error;
      return new Map();
    }
  }

  #namespaceLabels(): ReadonlyMap<string, Readonly<Record<string, string>>> {
    const namespaces = this.#options.context.informers.of(kinds.Namespace).store.list();
    return new Map(namespaces.map(({ metadata }) => [metadata?.name ?? "", metadata?.labels ?? {}]));
  }
}
