/** The deployments of the program in a cluster: one, or two with Services of their own. */
import { annotations, controllerNames, type Service } from "cloud-controller-host/sdk";

import type { Options } from "../../../host/config/flags/options.ts";
import { optionsOfShard } from "../../../host/config/validate/shard.ts";
import { randomOf } from "../timeline.ts";
import type { ClusterName } from "./clusters.ts";

/** The first runs every controller, the second one serves Services alone. */
export const deploymentNames = ["first", "second"] as const;
export type Deployment = (typeof deploymentNames)[number];

export const leaseNames: Readonly<Record<Deployment, string>> = {
  first: "cloud-controller-manager",
  second: "cloud-controller-manager-second",
};
export const secondClass = "example.com/second";
const labelKey = "deployment";
const secondLabels: Readonly<Record<string, string>> = { [labelKey]: "second" };

type Flags = Partial<Pick<Options, "shard" | "loadBalancerClass" | "serviceSelector">>;

interface Pair {
  readonly first: Flags;
  readonly second: Flags;
  /** The clusters in which both have load balancers with all nodes; undefined: any. */
  readonly clusters?: readonly ClusterName[];
}

const byLabel = { first: { serviceSelector: "deployment!=second" }, second: { serviceSelector: "deployment=second" } };
const byClass = { first: {}, second: { loadBalancerClass: secondClass } };
const shard = { shard: "second" };
/** A node has one interface, which is in the pools of one load balancer: those of shards have addresses. */
const ofAddresses: readonly ClusterName[] = ["node IPs"];

/** How two deployments share the Services of a cluster, and the load balancers unless one is a shard. */
export const pairs = {
  class: byClass,
  label: byLabel,
  "shard of a class": { ...byClass, second: { ...shard, ...byClass.second }, clusters: ofAddresses },
  "shard of a label": { ...byLabel, second: { ...shard, ...byLabel.second }, clusters: ofAddresses },
} as const satisfies Readonly<Record<string, Pair>>;

export type PairName = keyof typeof pairs;
const isPair = (name: string): name is PairName => name in pairs;
const pairNames: readonly PairName[] = Object.keys(pairs).filter(isPair);

/** A second deployment. */
export interface Second {
  readonly pair: PairName;
  readonly hosts: number;
}

const share = 0.15;

/** The second deployment of a seed, from numbers of its own: the histories of all other seeds stay as they are. */
export function secondOf(seed: number, cluster: ClusterName): Second | undefined {
  const random = randomOf(seed ^ 0x05ec_0fe1);
  if (random() >= share) return undefined;
  const possible = pairNames.filter((name) => {
    const { clusters }: Pair = pairs[name];
    return clusters === undefined || clusters.includes(cluster);
  });
  const pair = possible[Math.floor(random() * possible.length)] ?? "class";
  return { pair, hosts: random() < 0.6 ? 1 : 2 };
}

/** The options of a host of one of two deployments. */
export function deploymentOptions(options: Options, { pair }: Second, deployment: Deployment): Options {
  const own = { ...options, ...pairs[pair][deployment] };
  if (deployment === "first") return own;
  if (own.shard !== "") return optionsOfShard(own);
  return { ...own, leaderElectResourceName: leaseNames.second, controllers: [controllerNames.serviceLB] };
}

/** True where the first deployment marks its Services as well. */
export const areAllMarked = ({ pair }: Pick<Second, "pair">): boolean => pairs[pair].first !== byClass.first;

/** The deployment that a Service is for. */
export const deploymentOf = ({ metadata, spec }: Service): Deployment =>
  spec?.loadBalancerClass === secondClass || metadata?.labels?.[labelKey] === secondLabels[labelKey]
    ? "second"
    : "first";

/** What a Service has that is for a deployment. */
export const selectionOf = (second: Second, deployment: Deployment): Service => {
  if (deployment === "first") return {};
  return areAllMarked(second) ? { metadata: { labels: secondLabels } } : { spec: { loadBalancerClass: secondClass } };
};

/** The deployment whose mark a Service has. */
export function markOf({ metadata }: Service): Deployment | undefined {
  const mark = metadata?.annotations?.[annotations.servedBy];
  return deploymentNames.find((name) => leaseNames[name] === mark);
}

/** Without the ending of the load balancers of a shard. */
export const withoutShard = (balancer: string): string => balancer.replace(/-second(?=$|-internal|\/)/u, "");

/** The ending of the load balancers that a Service may be on. */
export const balancerEndingOf = (second: Second | undefined, service: Service): string => {
  const { shard: name = "" }: Flags = second === undefined ? {} : pairs[second.pair].second;
  return name === "" || deploymentOf(service) === "first" ? "" : `-${name}`;
};

interface Hosts {
  readonly hosts: number;
  readonly second?: Second;
}

/** Numbers of the hosts of all deployments. */
export const allHosts = ({ hosts, second }: Hosts): readonly number[] =>
  Array.from({ length: hosts + (second?.hosts ?? 0) }, (_, index) => index);

/** Number of a host of each deployment. */
export const firstHosts = ({ hosts, second }: Hosts): readonly number[] => (second === undefined ? [0] : [0, hosts]);
