import { keyOf, kinds, type Node, type Service } from "cloud-controller-host/sdk";

import { addressesOf } from "../../../kit/services.ts";
import { isExcluded } from "../actions/nodes.ts";
import { usersIP } from "../actions/service-shapes.ts";
import { type AzureView, familiesOf, type ServiceInAzure } from "../azure-view.ts";
import { balancerEndingOf, withoutShard } from "../deployments.ts";
import type { Machine } from "../machines.ts";
import type { World } from "../world.ts";
import type { Departures } from "./departures.ts";
import { isHeld, isRefused } from "./refusals.ts";
import { returnMs, Returns } from "./returns.ts";
import type { Violate } from "./table.ts";
import {
  additionalAddresses,
  annotationOf,
  isBalanced,
  isDirect,
  isInternal,
  requestedAddress,
  visibleWishOf,
  wantedOpenings,
  wantedRules,
  wishOf,
} from "./wishes.ts";

/** What a Service lacks of a family in Azure and in its status; empty: all is as its user wants. */
export function lacking(world: World, service: Service, family: string, found: ServiceInAzure): readonly string[] {
  const { address, publicIP, ipTags, frontends, rules, opened } = found;
  const status = addressesOf(service)
    .filter((one) => one.includes(":") === (family === "IPv6"))
    .join();
  const suffix = balancerEndingOf(world.history.second, service) + (isInternal(service) ? "-internal/" : "/");
  const chosen = annotationOf(service, "azure-load-balancer-configurations");
  const balancers = Object.keys(world.cluster.balancers)
    .filter((name) => (chosen ?? name) === name)
    .map((name) => name + suffix);
  const wantsSubnet = annotationOf(service, "azure-load-balancer-internal-subnet") !== undefined;
  const misplaced = frontends.filter(
    (frontend, index) =>
      index > 0 ||
      !balancers.some((balancer) => frontend.startsWith(balancer)) ||
      frontend.includes("-subnet1") !== wantsSubnet,
  );
  const wantsAddress = requestedAddress(service) ?? address;
  const wantsTags = annotationOf(service, "azure-pip-ip-tags") ?? ipTags;
  const wanted = [...(address === undefined ? [] : [address]), ...additionalAddresses(service, family)].join();
  // Others have other ports of an address that they share.
  const ports = new Set(service.spec?.ports?.map(({ protocol = "TCP", port }) => `${protocol} ${port}`));
  const isOwn = (opening: string): boolean => ports.has(opening.split(" from ")[0] ?? "");
  const ownOpenings = world.cluster.sharesAddresses ? opened.filter(isOwn) : opened;
  return [
    ...(isOfKind(service, publicIP) ? [] : [`has the public IP ${publicIP}`]),
    // Azure does not change them: it takes another public IP, with another address.
    ...(ipTags === wantsTags ? [] : [`has the IP tags "${ipTags}"`]),
    ...(address === wantsAddress ? [] : [`has the address ${address}`]),
    ...misplaced.map((frontend) => `has the frontend ${frontend}`),
    ...(address === undefined ? ["has no frontend with an address"] : []),
    ...differences("rule", rules, wantedRules(service, family)),
    ...(status === wanted ? [] : [`shows ${status || "no address"}, not ${wanted || "none"}`]),
    ...(isInternal(service) || isDirect(service) ? [] : differences("opening", ownOpenings, wantedOpenings(service))),
  ];
}

/** It is the user's, or created from the prefix, as wanted; one with a certain address may be of either. */
const isOfKind = (service: Service, publicIP = ""): boolean =>
  (requestedAddress(service) !== undefined ||
    publicIP.startsWith(usersIP) === (annotationOf(service, "azure-pip-name") !== undefined)) &&
  publicIP.includes("-foreign-prefix") === (annotationOf(service, "azure-pip-prefix-id") !== undefined);

/** A change of the policy changes who gets the traffic only where Services have Pods. */
const wishWithPolicy = (service: Service): string => `${visibleWishOf(service)} ${service.spec?.externalTrafficPolicy}`;

const isReady = ({ status }: Node): boolean =>
  status?.conditions?.some(({ type, status: value }) => type === "Ready" && value === "True") === true;

type PlacingWorld = Pick<World, "cluster"> & {
  readonly machineOf: (name: string) => Pick<Machine, "set"> | undefined;
};

/** The load balancer, of several, that has the scale set of a node. */
export function balancerOf(world: PlacingWorld, node: string): string | undefined {
  const balancers = Object.entries(world.cluster.balancers);
  return balancers.find(([, set]) => set === undefined || world.machineOf(node)?.set === set)?.[0];
}

const isOn = ({ frontends }: ServiceInAzure, balancer: string | undefined): boolean =>
  frontends.some((frontend) => withoutShard(frontend.replace("-internal/", "/")).startsWith(`${balancer}/`));

/** Since when a Service has had Pods on the nodes that alone get its traffic; undefined: all nodes get it. */
export const localNodes = (
  { endpoints }: Pick<World, "endpoints">,
  service: Service,
): ReadonlyMap<string, number> | undefined =>
  service.spec?.externalTrafficPolicy === "Local" ? endpoints?.of(service) : undefined;

/** Nodes of the load balancer of a frontend and of those that do not exist; all, rather than none. */
export function wantedMembers(world: World, view: AzureView, found: ServiceInAzure, nodes: readonly string[]) {
  const placed = nodes.filter((node) => {
    const balancer = balancerOf(world, node) ?? "";
    return isOn(found, balancer) || !(view.has(balancer) || view.has(`${balancer}-internal`));
  });
  return placed.length > 0 ? placed : nodes;
}

interface Settled {
  readonly wish: string;
  readonly address: string | undefined;
  /** UIDs and VMs of the nodes behind it, by name. */
  readonly members: ReadonlyMap<string, string>;
  readonly rules: readonly string[];
  /** What was open of the ports of its rules. */
  readonly opened: readonly string[];
  /** What it has asked for since, and is refused. */
  readonly refused?: string;
}

/** A node as its membership of pools depends on it. */
interface Member {
  /** Of the node and its VM: another VM may have the name and the id of a former one, but not its address. */
  readonly id: string;
  readonly isReady: boolean;
  readonly isExcluded: boolean;
  /** It has not just come back. */
  readonly hasSettled: boolean;
}

interface NodesNow {
  /** By name. */
  readonly nodes: ReadonlyMap<string, Member>;
  /** Names of those that may be in no pool, although they are there. */
  readonly excused: ReadonlySet<string>;
}

/** Untouched Services stay served, and resources of others stay. */
export class Continuity {
  readonly #world: World;
  readonly #violate: Violate;
  readonly #departures: Departures;
  /** By UID and family. */
  readonly #settled = new Map<string, Settled>();
  #foreign: ReadonlyMap<string, string> = new Map();
  readonly #returns: Returns;

  constructor(world: World, departures: Departures, violate: Violate) {
    this.#world = world;
    this.#violate = violate;
    this.#departures = departures;
    this.#returns = new Returns(() => world.now);
    world.api.onChange(kinds.Node, (...change) => this.#returns.nodeChanged(...change));
    world.api.onChange(kinds.Service, (_type, service, before) => {
      const wishes = world.cluster.hasPods ? wishWithPolicy : visibleWishOf;
      if (before === undefined || wishes(before) === wishes(service)) return;
      const uid = service.metadata?.uid ?? "";
      // What it has may change from now on.
      if (!isRefused(world, service))
        for (const family of familiesOf(service)) this.#settled.delete(`${uid} ${family}`);
      // Its address may have to be another one for a moment, whatever else its user then wants otherwise.
      for (const wish of new Set([wishes, visibleWishOf]))
        if (wish(before) !== wish(service)) this.#returns.wishChanged(uid, wish(before), wish(service));
    });
  }

  /** How many of those that have come back have settled, and how many nodes are excused: changes that only time makes. */
  get settledReturns(): string {
    const excusedOf = this.#departures.excused();
    const excused = [true, false].flatMap((internal) =>
      ["IPv4", "IPv6"].map((family) => excusedOf(internal, family).size),
    );
    const pods = this.#world.endpoints?.times.filter(this.#isLongAgo).length;
    return [this.#returns.settled, ...excused, pods].join(" ");
  }

  /** A node may be away for a while: it is another member then. */
  #memberOf(node: Node, view: AzureView): Member {
    const { path, privateIP } = view.machineOf(keyOf(node)) ?? {};
    const uid = node.metadata?.uid ?? "";
    return {
      id: `${uid} ${path} ${privateIP} ${this.#returns.lastOf(uid)}`,
      isReady: isReady(node),
      isExcluded: isExcluded(node),
      hasSettled: this.#returns.hasSettled(uid),
    };
  }

  readonly #isLongAgo = (time: number): boolean => this.#world.now - time > returnMs;

  /** What others take from a Service is not ours to keep: it has settled when it is whole again. */
  forget(): void {
    this.#settled.clear();
  }

  check(view: AzureView): void {
    this.#checkForeign(view);
    const nodes = new Map(this.#world.nodes().map((node) => [keyOf(node), this.#memberOf(node, view)]));
    const excused = this.#departures.excused();
    const living = new Set<string>();
    for (const service of this.#world.services().filter(isBalanced)) {
      const uid = service.metadata?.uid ?? "";
      for (const family of familiesOf(service)) {
        living.add(`${uid} ${family}`);
        this.#checkService(service, family, view, { nodes, excused: excused(isInternal(service), family) });
      }
    }
    for (const key of this.#settled.keys()) if (!living.has(key)) this.#settled.delete(key);
  }

  #checkService(service: Service, family: string, view: AzureView, { nodes, excused }: NodesNow): void {
    const found = view.serviceOf(service, family);
    const wish = wishOf(service);
    const hasSettled = this.#returns.hasSettled(service.metadata?.uid ?? "");
    const key = `${service.metadata?.uid} ${family}`;
    const pods = localNodes(this.#world, service);
    const idOf = (name: string, { id }: Member): string => `${id} ${pods?.get(name)}`;
    const before = this.#settled.get(key);
    if (before !== undefined && before.wish !== wish && isHeld(this.#world, service)) {
      if (before.refused === wish && hasSettled) this.#checkRefused(service, before, found);
      this.#settled.set(key, { ...before, refused: wish });
      return;
    }
    const problems = lacking(this.#world, service, family, found);
    if (before?.wish === wish && hasSettled) {
      const lost = [...before.members].filter(([name, id]) => {
        if (found.members.has(name) || excused.has(name)) return false;
        const node = nodes.get(name);
        const isSame = node !== undefined && idOf(name, node) === id && node.isReady && !node.isExcluded;
        const isPlaced = pods?.has(name) ?? isOn(found, balancerOf(this.#world, name));
        return isSame && isPlaced && this.#world.machines.has(name);
      });
      const moved = before.address === found.address ? [] : [`moved from ${before.address} to ${found.address}`];
      const broken = [...moved, ...problems, ...lost.map(([name]) => `lost its healthy member ${name}`)];
      if (broken.length > 0) this.#violate("continuity", `${keyOf(service)} ${broken.join("; ")}`);
    }
    if (problems.length > 0 || !hasSettled) {
      this.#settled.delete(key);
      return;
    }
    const awaited = [...(before?.members ?? [])].filter(([name]) => excused.has(name));
    const members = [...found.members].flatMap((name) => {
      const node = nodes.get(name);
      const podSince = pods === undefined ? 0 : (pods.get(name) ?? Number.POSITIVE_INFINITY);
      return node?.isReady === true && node.hasSettled && this.#isLongAgo(podSince)
        ? [[name, idOf(name, node)] as const]
        : [];
    });
    const { address, rules } = found;
    this.#settled.set(key, {
      wish,
      address,
      rules,
      opened: openedFor(rules, found),
      members: new Map([...awaited, ...members]),
    });
  }

  /** A Service that is refused keeps what it had. */
  #checkRefused(service: Service, { address, rules, opened }: Settled, found: ServiceInAzure): void {
    const lost = [
      ...(address === found.address ? [] : [`moved from ${address} to ${found.address}`]),
      ...differences("rule", found.rules, rules),
      ...differences("opening", openedFor(rules, found), opened),
    ];
    if (lost.length > 0) this.#violate("continuity", `${keyOf(service)}, which is refused, ${lost.join("; ")}`);
  }

  #checkForeign(view: AzureView): void {
    const now = view.foreign;
    for (const [name, content] of this.#foreign) {
      const found = now.get(name);
      if (found === content) continue;
      const [, resource] = / of (.+)$/u.exec(name) ?? [];
      // A resource of ours may go, and its tags with it.
      if (found === undefined && resource !== undefined && !view.has(resource)) continue;
      if (resource === undefined || found === undefined)
        this.#violate(
          "others' property",
          `${name} ${found === undefined ? "is gone" : `was ${content} and is ${found}`}`,
        );
    }
    this.#foreign = now;
  }
}

/** What is open of the ports of some rules. */
function openedFor(rules: readonly string[], { opened }: ServiceInAzure): readonly string[] {
  const ports = new Set(rules.map((rule) => rule.split(" ", 2).join(" ")));
  return opened.filter((opening) => ports.has(opening.split(" from ")[0] ?? ""));
}

export function differences(what: string, found: readonly string[], wanted: readonly string[]): readonly string[] {
  const [has, wants] = [new Set(found), new Set(wanted)];
  return [
    ...[...has.difference(wants)].map((one) => `${what} ${one} is left over`),
    ...[...wants.difference(has)].map((one) => `${what} ${one} is missing`),
  ];
}
