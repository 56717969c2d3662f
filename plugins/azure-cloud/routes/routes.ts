import type { Route as TableRoute } from "@azure/arm-network";
import {
  type Clock,
  type CloudCall,
  CodedError,
  InstanceNotFoundError,
  type IPFamily,
  type Logger,
  type Node,
  parseCIDR,
  type Route,
  type Routes,
  type Store,
} from "cloud-controller-host/sdk";

import { isUnprovisioned } from "../arm/errors.ts";
import { sameName } from "../arm/resource-id.ts";
import { abandonable } from "../arm/transport/signals.ts";
import type { ObserveOperation } from "../arm/writes/operation-metrics.ts";
import type { AzureConfig } from "../config/decode.ts";
import { ExpiringSet } from "../instances/expiring-set.ts";
import { isUnmanaged } from "../instances/node-resource-groups.ts";
import type { Vm, VmSet } from "../instances/vm-set.ts";
import { sameAddress } from "../load-balancer/model/addresses.ts";
import { limits } from "../load-balancer/model/limits.ts";
import { parseTags, reconcileTags } from "../load-balancer/model/tags.ts";
import type { ResourceChange } from "../removal-guard/guard.ts";
import { nodeNameOf, routeNameOf } from "./route-names.ts";
import type { ClusterRouteTable } from "./route-table.ts";

export interface RoutesOptions {
  readonly config: AzureConfig;
  readonly table: ClusterRouteTable;
  readonly vms: VmSet;
  readonly nodes: Pick<Store<Node>, "get">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly observe: ObserveOperation;
  readonly networkSubscription: string;
}

/** The longest that a cached list of interfaces is used by default. */
const foreignMs = 600_000;

/**
 * Routes to pods in the cluster's route table. Routes of unmanaged nodes are only remembered: their network is not
 * Azure's. Source: cloud-provider-azure `azure_routes.go`.
 */
export class AzureRoutes implements Routes {
  readonly #options: RoutesOptions;
  /** Node name to the CIDRs of an unmanaged node. */
  readonly #unmanaged = new Map<string, Set<string>>();
  /** VMs whose primary interface has none of their node's addresses, such as those that a node has on another interface. */
  readonly #foreign: ExpiringSet;

  constructor(options: RoutesOptions) {
    this.#options = options;
    this.#foreign = new ExpiringSet(options.clock);
  }

  listRoutes(_clusterName: string, call?: CloudCall): Promise<readonly Route[]> {
    return abandonable(() => this.#list(call?.signal), call?.signal);
  }

  createRoute(_clusterName: string, _nameHint: string, route: Route, call?: CloudCall): Promise<void> {
    return this.#observe("routes_create_route", route, () => this.#create(route, call?.signal));
  }

  deleteRoute(_clusterName: string, route: Route, call?: CloudCall): Promise<void> {
    return this.#observe("routes_delete_route", route, () => this.#delete(route, call?.signal));
  }

  /** Routes that nodes have by their condition and that this table lacks: the config names another one. */
  async lostRoutes(nodes: readonly Node[]): Promise<ResourceChange> {
    const { config, table } = this.#options;
    const routed = config.routeTableName === "" ? [] : nodes.filter(isRouted);
    const names = new Set((routed.length === 0 ? undefined : await table.get())?.routes?.map(({ name = "" }) => name));
    const before = routed.flatMap((node) => {
      const name = node.metadata?.name ?? "";
      const lost = (node.spec?.podCIDRs ?? []).filter((cidr) => !names.has(routeNameOf(name, cidr)));
      return lost.map((cidr) => ({ kind: "routes" as const, node: name, cidr, owners: [], services: [] }));
    });
    const title = `route table ${config.routeTableName}`;
    return { id: `${table.resourceGroup}/${config.routeTableName}`, title, before, after: [], writers: [] };
  }

  async #list(signal: AbortSignal | undefined): Promise<readonly Route[]> {
    this.#requireTableName();
    const table = await this.#options.table.get();
    if (table !== undefined) await this.#reconcileTags(table.tags, signal);
    if (isUnprovisioned(table)) await this.#repeat(signal);
    await this.#correctNextHops(table?.routes ?? [], signal);
    const routes = (table?.routes ?? []).map(({ name = "", addressPrefix = "" }) => ({
      name,
      targetNode: nodeNameOf(name),
      destinationCIDR: addressPrefix,
    }));
    for (const node of this.#unmanaged.keys()) if (this.#isManaged(node)) this.#unmanaged.delete(node);
    const remembered = [...this.#unmanaged].flatMap(([node, cidrs]) =>
      [...cidrs].map((cidr) => ({ name: node, targetNode: node, destinationCIDR: cidr })),
    );
    return [...routes, ...remembered];
  }

  /** Nodes keep the routes that the table shows; until it is provisioned, each failure is logged and delays the next attempt. */
  async #repeat(signal?: AbortSignal): Promise<void> {
    const { config, table, log } = this.#options;
    try {
      await table.change({ kind: "repeat" }, signal);
    } catch (error) {
      signal?.throwIfAborted();
      log.warn("Failed to write the route table whose last operation failed", {
        routeTable: config.routeTableName,
        error,
      });
    }
  }

  /** Routes matter more than tags: a failed write of tags is logged and repeated with the next list. */
  async #reconcileTags(current: Readonly<Record<string, string>> | undefined, signal?: AbortSignal): Promise<void> {
    const { config, table, log } = this.#options;
    const desired = parseTags(config.tags, config.tagsMap);
    if (desired.size === 0 || !sameName(table.resourceGroup, config.resourceGroup)) return;
    const systemTags = config.systemTags.split(",").flatMap((tag) => (tag.trim() === "" ? [] : [tag.trim()]));
    if (reconcileTags(current, desired, systemTags) === current) return;
    try {
      await table.change({ kind: "tags", desired, systemTags }, signal);
    } catch (error) {
      signal?.throwIfAborted();
      log.warn("Failed to update the tags of the route table", { routeTable: config.routeTableName, error });
    }
  }

  /** Routes follow a node that has come back with another address: the controller only sees that there is a route. */
  async #correctNextHops(routes: readonly TableRoute[], signal?: AbortSignal): Promise<void> {
    const { nodes, log } = this.#options;
    const outdated = routes.flatMap(({ name = "", addressPrefix = "", nextHopIpAddress = "" }) => {
      const node = nodes.get(nodeNameOf(name));
      const isOurs = node !== undefined && sameName(name, routeNameOf(nodeNameOf(name), addressPrefix));
      return isOurs && hasMoved(node, addressPrefix, nextHopIpAddress) ? [{ name, addressPrefix }] : [];
    });
    const corrections = outdated.map(async ({ name, addressPrefix }) => {
      try {
        await this.#create({ name: "", targetNode: nodeNameOf(name), destinationCIDR: addressPrefix }, signal);
      } catch (error) {
        signal?.throwIfAborted();
        log.warn("Failed to correct the next hop of a route", { route: name, error });
      }
    });
    await Promise.all(corrections);
  }

  async #create({ targetNode, destinationCIDR: cidr }: Route, signal: AbortSignal | undefined): Promise<void> {
    const node = this.#options.nodes.get(targetNode);
    if (node !== undefined && isUnmanaged(node)) {
      this.#unmanaged.set(targetNode, (this.#unmanaged.get(targetNode) ?? new Set()).add(cidr));
      return;
    }
    this.#requireTableName();
    const { length } = routeNameOf(targetNode, cidr);
    if (length > limits.nameLength)
      throw new CodedError(
        "LimitReached",
        `the name of the route of node ${targetNode} to ${cidr} would have ${length} characters, ${limits.nameLength} at most; use shorter VM names`,
      );
    const vm = await abandonable(() => this.#vmOf(node ?? { metadata: { name: targetNode } }), signal);
    const { family } = parseCIDR(cidr);
    const addresses = await abandonable(() => this.#addressesOf(vm, internalIPs(node, family), family), signal);
    const nextHop = firstOfFamily(addresses, family);
    if (nextHop === undefined)
      throw new CodedError("PrivateIPNotFound", `node ${targetNode} has no private IP of the family of CIDR ${cidr}`);
    await this.#options.table.change({ kind: "create", node: targetNode, cidr, nextHop }, signal);
  }

  /** Interfaces are listed again for one that shows none of the node's own addresses of the family: once in a while. */
  async #addressesOf(vm: Vm, own: readonly string[], family: IPFamily): Promise<readonly string[]> {
    const key = `${vm.providerID} ${own.join()}`;
    const isForeign = this.#foreign.has(key);
    const addresses = await vm.privateIPs("cached", (shown) => haveNextHop(shown, isForeign ? [] : own, family));
    if (!isForeign && !haveNextHop(addresses, own, family)) this.#foreign.add(key, foreignMs);
    return addresses;
  }

  async #delete({ name, targetNode, destinationCIDR: cidr }: Route, signal: AbortSignal | undefined): Promise<void> {
    const node = this.#options.nodes.get(targetNode);
    const remembered = this.#unmanaged.get(targetNode);
    if (remembered !== undefined || (node !== undefined && isUnmanaged(node))) {
      remembered?.delete(cidr);
      if (remembered?.size === 0) this.#unmanaged.delete(targetNode);
      return;
    }
    this.#requireTableName();
    await this.#options.table.change({ kind: "delete", node: targetNode, cidr, name }, signal);
  }

  /** True for a node of Azure, also where one of its name was unmanaged before. */
  #isManaged(name: string): boolean {
    const node = this.#options.nodes.get(name);
    return node !== undefined && !isUnmanaged(node);
  }

  async #vmOf(node: Node): Promise<Vm> {
    const { vms } = this.#options;
    const vm = (await vms.find(node, "cached", "metadata")) ?? (await vms.find(node, "newer", "metadata"));
    if (vm === undefined) throw new InstanceNotFoundError(`instance not found: ${node.metadata?.name}`);
    return vm;
  }

  /** The controller runs whenever pod CIDRs are allocated, so a missing name is found here and not in the config. */
  #requireTableName(): void {
    if (this.#options.config.routeTableName === "")
      throw new CodedError(
        "RouteTableNameRequired",
        "routeTableName is required in the cloud config for cloud routes; without them, set --configure-cloud-routes=false",
      );
  }

  #observe(request: string, { targetNode }: Route, work: () => Promise<void>): Promise<void> {
    const { config, networkSubscription, observe } = this.#options;
    const scope = { resourceGroup: config.resourceGroup, subscription: networkSubscription };
    return observe({ request, ...scope, source: targetNode }, work);
  }
}

/** The route controller has created its routes. */
const isRouted = (node: Node): boolean =>
  !isUnmanaged(node) &&
  (node.status?.conditions ?? []).some(
    ({ type, status, reason }) => type === "NetworkUnavailable" && status === "False" && reason === "RouteCreated",
  );

const isOf = (family: IPFamily, address: string): boolean => address.includes(":") === (family === "ipv6");

const internalIPs = (node: Node | undefined, family: IPFamily): readonly string[] =>
  (node?.status?.addresses ?? []).flatMap(({ type, address }) =>
    type === "InternalIP" && isOf(family, address) ? [address] : [],
  );

/** True if an address of the family is among these, and one of the node's own if there are any. */
function haveNextHop(addresses: readonly string[], own: readonly string[], family: IPFamily): boolean {
  return addresses.some(
    (address) => isOf(family, address) && (own.length === 0 || own.some((one) => sameAddress(one, address))),
  );
}

/** True when none of the node's addresses of the family is the next hop; without one nothing is known. */
function hasMoved(node: Node, cidr: string, nextHop: string): boolean {
  if (isUnmanaged(node) || !(node.spec?.podCIDRs ?? []).includes(cidr)) return false;
  const own = internalIPs(node, cidr.includes(":") ? "ipv6" : "ipv4");
  return own.length > 0 && !own.some((address) => sameAddress(address, nextHop));
}

/** upstream: `findFirstIPByFamily`. */
export const firstOfFamily = (addresses: readonly string[], family: IPFamily): string | undefined =>
  addresses.find((address) => isOf(family, address));
