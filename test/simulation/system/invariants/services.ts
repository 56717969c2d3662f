import { keyOf, kinds, type Node, type Service } from "cloud-controller-host/sdk";

import { addressesOf } from "../../../kit/services.ts";
import { isRefused, usersIP } from "../actions/services.ts";
import { type AzureView, familiesOf, ruleText, type ServiceInAzure } from "../azure-view.ts";
import type { World } from "../world.ts";
import type { Violate } from "./table.ts";

export const isBalanced = ({ spec, metadata }: Service): boolean =>
  spec?.type === "LoadBalancer" && metadata?.deletionTimestamp === undefined;
const isInternal = ({ metadata }: Service): boolean =>
  metadata?.annotations?.["service.beta.kubernetes.io/azure-load-balancer-internal"] === "true";

const annotationOf = ({ metadata }: Service, key: string): string | undefined =>
  metadata?.annotations?.[`service.beta.kubernetes.io/${key}`];

/** The load-balancing rules that a Service asks for. */
function wantedRules(service: Service): readonly string[] {
  const { ports = [], sessionAffinity } = service.spec ?? {};
  const distribution = sessionAffinity === "ClientIP" ? "SourceIP" : "Default";
  const idleMinutes = Number(annotationOf(service, "azure-load-balancer-tcp-idle-timeout") ?? 4);
  return ports.map(({ protocol, port }) => ruleText(protocol ?? "TCP", port, distribution, idleMinutes)).toSorted();
}

/** What the security group must let through to its address, and nothing else. */
function wantedOpenings(service: Service): readonly string[] {
  const { ports = [], loadBalancerSourceRanges = [] } = service.spec ?? {};
  const ranges = [...loadBalancerSourceRanges, ...[annotationOf(service, "azure-allowed-ip-ranges") ?? []].flat()];
  const sources = ranges.length > 0 ? ranges : ["Internet"];
  return ports.flatMap(({ protocol, port }) => sources.map((source) => `${protocol ?? "TCP"} ${port} from ${source}`));
}

/** What a Service lacks of a family in Azure and in its status; empty: all is as its user wants. */
function lacking(world: World, service: Service, family: string, found: ServiceInAzure): readonly string[] {
  const { address, publicIP, frontends, rules, opened } = found;
  const status = addressesOf(service)
    .filter((one) => one.includes(":") === (family === "IPv6"))
    .join();
  const suffix = isInternal(service) ? "-internal/" : "/";
  const balancers = Object.keys(world.cluster.balancers).map((name) => name + suffix);
  const misplaced = frontends.filter(
    (frontend, index) => index > 0 || !balancers.some((balancer) => frontend.startsWith(balancer)),
  );
  const isUsers = publicIP?.startsWith(usersIP) === true;
  const wantsUsers = annotationOf(service, "azure-pip-name") !== undefined;
  return [
    ...(isUsers === wantsUsers ? [] : [`has the public IP ${publicIP}`]),
    ...misplaced.map((frontend) => `has the frontend ${frontend}`),
    ...(address === undefined ? ["has no frontend with an address"] : []),
    ...differences("rule", rules, wantedRules(service)),
    ...(status === address ? [] : [`shows ${status || "no address"}, not ${address ?? "none"}`]),
    ...(isInternal(service) ? [] : differences("opening", opened, wantedOpenings(service))),
  ];
}

const isReady = ({ status }: Node): boolean =>
  status?.conditions?.some(({ type, status: value }) => type === "Ready" && value === "True") === true;

/** What users have asked for, unless a controller has changed it. Patches change the order of keys. */
export const wishOf = ({ metadata, spec }: Service): string =>
  JSON.stringify([sorted(metadata?.annotations), sorted(spec), metadata?.deletionTimestamp]);

/**
 * What `lacking` compares of what a user asks for. A Service that asks for as much as shortly before may look whole while
 * a write from between is still to come, whatever else of its wish has changed.
 */
const visibleWishOf = (service: Service): string =>
  JSON.stringify([
    isBalanced(service),
    isInternal(service),
    annotationOf(service, "azure-pip-name"),
    familiesOf(service),
    wantedRules(service),
    wantedOpenings(service),
  ]);

const sorted = (object: object = {}) => Object.entries(object).toSorted(([one], [other]) => one.localeCompare(other));

/** The load balancer, of several, that has the scale set of a node. */
export function balancerOf({ cluster, azure }: World, node: string): string | undefined {
  const isNode = ({ computerName }: { readonly computerName: string }): boolean => computerName.toLowerCase() === node;
  const balancers = Object.entries(cluster.balancers);
  return balancers.find(([, set]) => set === undefined || azure.instances(set).some(isNode))?.[0];
}

const isOn = ({ frontends }: ServiceInAzure, balancer: string | undefined): boolean =>
  frontends.some((frontend) => frontend.replace("-internal/", "/").startsWith(`${balancer}/`));

/** Nodes of the load balancer of a frontend and of those that do not exist; all, rather than none. */
function wantedMembers(world: World, view: AzureView, found: ServiceInAzure, nodes: readonly string[]) {
  const placed = nodes.filter((node) => {
    const balancer = balancerOf(world, node) ?? "";
    return isOn(found, balancer) || !(view.has(balancer) || view.has(`${balancer}-internal`));
  });
  return placed.length > 0 ? placed : nodes;
}

/** Longest time for the end of a write from before a node came back or a user took a change back, and for the news of it. */
const returnMs = 3 * 60_000;

interface Settled {
  readonly wish: string;
  readonly address: string | undefined;
  /** UIDs and VMs of the nodes behind it, by name. */
  readonly members: ReadonlyMap<string, string>;
}

/** Untouched Services stay served, and resources of others stay. */
export class Continuity {
  readonly #world: World;
  readonly #violate: Violate;
  /** By UID and family. */
  readonly #settled = new Map<string, Settled>();
  #foreign: ReadonlyMap<string, string> = new Map();
  /** When nodes have come back under their names, and Services to what their users wanted before, by UID. */
  readonly #returnedAt = new Map<string, number>();

  constructor(world: World, violate: Violate) {
    this.#world = world;
    this.#violate = violate;
    const left = new Set<string>();
    world.api.onChange(kinds.Node, (type, node) => {
      if (type === "DELETED") left.add(keyOf(node));
      else if (type === "ADDED" && left.has(keyOf(node))) this.#returnedAt.set(node.metadata?.uid ?? "", world.now);
    });
    /** When each Service was last asked for something else, by UID and former wish. */
    const formerWishes = new Map<string, number>();
    world.api.onChange(kinds.Service, (_type, service, before) => {
      if (before === undefined || visibleWishOf(before) === visibleWishOf(service)) return;
      const uid = service.metadata?.uid ?? "";
      const leftAt = formerWishes.get(`${uid} ${visibleWishOf(service)}`) ?? Number.NEGATIVE_INFINITY;
      if (world.now - leftAt < returnMs) this.#returnedAt.set(uid, world.now);
      formerWishes.set(`${uid} ${visibleWishOf(before)}`, world.now);
    });
  }

  /** A write from before its return may still take a node out of its pools, or have what a Service no longer wants. */
  #hasSettled(uid: string): boolean {
    return this.#world.now - (this.#returnedAt.get(uid) ?? Number.NEGATIVE_INFINITY) > returnMs;
  }

  /** How many of those that have come back have settled: a change that only time makes. */
  get settledReturns(): number {
    return [...this.#returnedAt.keys()].filter((uid) => this.#hasSettled(uid)).length;
  }

  readonly #idOf = (node: Node): string => `${node.metadata?.uid} ${this.#world.vmOf(keyOf(node))}`;

  /** What others take from a Service is not ours to keep: it has settled when it is whole again. */
  forget(): void {
    this.#settled.clear();
  }

  check(view: AzureView): void {
    this.#checkForeign(view);
    const nodes = new Map(this.#world.api.list(kinds.Node).map((node) => [keyOf(node), node]));
    const living = new Set<string>();
    for (const service of this.#world.services().filter(isBalanced)) {
      const uid = service.metadata?.uid ?? "";
      for (const family of familiesOf(service)) {
        living.add(`${uid} ${family}`);
        this.#checkService(service, family, view, nodes);
      }
    }
    for (const key of this.#settled.keys()) if (!living.has(key)) this.#settled.delete(key);
  }

  #checkService(service: Service, family: string, view: AzureView, nodes: ReadonlyMap<string, Node>): void {
    const found = view.serviceOf(service, family);
    const wish = wishOf(service);
    const hasSettled = this.#hasSettled(service.metadata?.uid ?? "");
    const key = `${service.metadata?.uid} ${family}`;
    const before = this.#settled.get(key);
    const problems = lacking(this.#world, service, family, found);
    if (before?.wish === wish && hasSettled) {
      const lost = [...before.members].filter(([name, id]) => {
        const node = nodes.get(name);
        const isSame = node !== undefined && this.#idOf(node) === id && isReady(node);
        const isWanted = this.#world.azure.hasInstance(name) && isOn(found, balancerOf(this.#world, name));
        return isSame && isWanted && !found.members.has(name);
      });
      const moved = before.address === found.address ? [] : [`moved from ${before.address} to ${found.address}`];
      const broken = [...moved, ...problems, ...lost.map(([name]) => `lost its healthy member ${name}`)];
      if (broken.length > 0) this.#violate("continuity", `${keyOf(service)} ${broken.join("; ")}`);
    }
    if (problems.length > 0 || !hasSettled) {
      this.#settled.delete(key);
      return;
    }
    const members = [...found.members].flatMap((name) => {
      const node = nodes.get(name);
      const id = node?.metadata?.uid ?? "";
      return node !== undefined && isReady(node) && this.#hasSettled(id) ? [[name, this.#idOf(node)] as const] : [];
    });
    this.#settled.set(key, { wish, address: found.address, members: new Map(members) });
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

/** Everything that is not as users want it. */
export function problemsOf(world: World): readonly string[] {
  const view = world.view();
  const nodes: readonly Node[] = world.api.list(kinds.Node);
  const services = world.services();
  const balanced = services.filter(isBalanced);
  const privateIPs = new Map(world.instances().map((one) => [one.computerName.toLowerCase(), one.privateIP]));
  return [
    ...nodes.flatMap(problemsOfNode),
    ...differences(
      "route",
      view.routes,
      nodes.map((node) => `${keyOf(node)} ${node.spec?.podCIDR} ${privateIPs.get(keyOf(node))}`),
    ),
    ...differences(
      "node",
      nodes.map(keyOf),
      world.instances().map(({ computerName }) => computerName.toLowerCase()),
    ),
    ...balanced
      .filter((service) => !isRefused(service))
      .flatMap((service) => familiesOf(service).map((family) => [service, family] as const))
      .flatMap(([service, family]) => {
        const found = view.serviceOf(service, family);
        const members = differences("member", [...found.members], wantedMembers(world, view, found, nodes.map(keyOf)));
        const failed = found.failed.map((name) => `uses ${name}, which is Failed`);
        return [...lacking(world, service, family, found), ...members, ...failed].map(
          (problem) => `${keyOf(service)} ${family} ${problem}`,
        );
      }),
    ...balanced
      .filter(isRefused)
      .flatMap((service) => (isReported(world, service) ? [] : [`${keyOf(service)} fails without an event`])),
    ...services
      .filter((service) => !isBalanced(service))
      .flatMap((service) => {
        if (service.metadata?.deletionTimestamp !== undefined) return [`${keyOf(service)} is still being deleted`];
        return addressesOf(service).length > 0 ? [`${keyOf(service)} still shows an address`] : [];
      }),
    ...view.leftovers([...balanced, ...world.forgiven]).map((part) => `${part} is left over`),
  ];
}

function isReported(world: World, { metadata }: Service): boolean {
  const events = world.api.list(kinds.Event);
  return events.some(({ type, involvedObject }) => type === "Warning" && involvedObject.uid === metadata?.uid);
}

function problemsOfNode(node: Node): readonly string[] {
  const rules: readonly (readonly [boolean, string])[] = [
    [node.spec?.providerID === undefined, "has no provider ID"],
    [!node.status?.addresses?.some(({ type }) => type === "InternalIP"), "has no address"],
    [node.spec?.podCIDR === undefined, "has no Pod CIDR"],
    [node.spec?.taints?.some(({ key }) => key.startsWith("node.cloudprovider.kubernetes.io/")) === true, "is tainted"],
  ];
  return rules.flatMap(([isWrong, what]) => (isWrong ? [`node ${keyOf(node)} ${what}`] : []));
}

function differences(what: string, found: readonly string[], wanted: readonly string[]): readonly string[] {
  const [has, wants] = [new Set(found), new Set(wanted)];
  return [
    ...[...has.difference(wants)].map((one) => `${what} ${one} is left over`),
    ...[...wants.difference(has)].map((one) => `${what} ${one} is missing`),
  ];
}
