import { randomOf } from "../timeline.ts";
import { type LateWrites, lateWritesOf } from "./canceled-requests.ts";
import { type ClusterName, clusterNameOf, clusters } from "./clusters.ts";
import { type Second, secondOf } from "./deployments.ts";
import { fullPace, type Pace, paceOf } from "./pace.ts";
import { faultNames, targets } from "./weather.ts";

/** How often each kind of action occurs. A new row needs a performer in `actions/`. */
export const rates = {
  createService: 12,
  changeService: 8,
  revertService: 3,
  deleteService: 6,
  recreateService: 3,
  flipService: 2,
  forceDelete: 2,
  // From numbers of its own: see `apart`.
  serveElsewhere: 0,
  // Of histories with a second deployment.
  serveSecond: 0,
  // Of clusters with Pods.
  movePods: 0,
  joinNodes: 4,
  loseNode: 4,
  returnNode: 2,
  returnNodeAtWrite: 2,
  // Of kept histories alone: a process that starts afterwards does not know that the VM had a node, here as upstream.
  retireNode: 0,
  // From numbers of its own: see `apart`.
  excludeNode: 0,
  stopNode: 1,
  replaceVM: 2,
  replaceScaleSet: 1,
  reload: 4,
  badConfig: 1,
  // Of kept histories alone.
  misconfigure: 0,
  killHost: 3,
  killAtWrite: 8,
  stopHost: 3,
  // From numbers of its own: see `apart`.
  endAtWrite: 0,
  pauseHost: 3,
  pauseAtWrite: 4,
  stepClock: 2,
  wrongCredentials: 1,
  rotateCredentials: 1,
  deleteLease: 1,
  stealLease: 1,
  emptyLease: 1,
  editLease: 1,
  breakWatches: 3,
  holdWatches: 2,
  repeatWatches: 1,
  rewindWatches: 2,
  // Of kept histories alone, as those below without a rate.
  replayWatches: 0,
  loseWatches: 0,
  compact: 1,
  requests: 14,
  failOperations: 3,
  prolongOperation: 1,
  lagReads: 2,
  changeAtRead: 6,
  // Of kept histories alone.
  holdRead: 0,
  hideInstance: 2,
  retag: 1,
  revokeTokens: 1,
  refuseWrites: 2,
  denyWrites: 2,
  failLateOperation: 1,
  // From numbers of its own: see `apart`.
  reachQuota: 0,
  foreignRule: 2,
  foreignTag: 2,
  foreignRoute: 2,
  foreignFrontend: 1,
  removeRoute: 1,
  removeRule: 1,
} as const;

export type ActionKind = keyof typeof rates;

/** One thing that happens, `at` milliseconds after the start. `pick` and `forMs` are for the performer to interpret. */
export interface Action {
  readonly at: number;
  readonly kind: ActionKind;
  readonly host: number;
  readonly pick: number;
  readonly forMs: number;
  readonly fault: string;
  readonly target: (typeof targets)[number];
}

/** All that happens from outside in one run. The seed also decides latencies, jitter and identifiers. */
export interface History {
  readonly seed: number;
  readonly cluster: ClusterName;
  readonly hosts: number;
  readonly nodes: number;
  readonly services: number;
  /** Polls before an operation of ARM ends. */
  readonly operationPolls: number;
  /** Items per page of ARM's lists. Default: all on one. */
  readonly pageSize?: number;
  /** A creation replaces what is there. Default: it is refused, if it has to be. */
  readonly ignoresIfNoneMatch?: boolean;
  /** Load balancers show a network interface as it was before a write in progress. Default: as it is. */
  readonly showsMembersLate?: boolean;
  /** Default: what a client cancels on its way is never carried out. */
  readonly lateWrites?: LateWrites;
  /** Default: `fullPace`. */
  readonly pace?: Pace;
  /** Default: there is one deployment. Its hosts have the numbers after those of the first. */
  readonly second?: Second;
  readonly actions: readonly Action[];
}

/** First actions: the cluster has come up by then. */
export const quietMs = 45_000;
const maxActions = 40;
const hourMs = 60 * 60_000;

const isKind = (name: string): name is ActionKind => name in rates;
export const actionKinds: readonly ActionKind[] = Object.keys(rates).filter(isKind);
/** Each as often as it occurs. */
export const weighted: readonly ActionKind[] = actionKinds.flatMap((kind) =>
  Array.from({ length: rates[kind] }, () => kind),
);

/** Clusters grow so far or, if there are more, have as many nodes as at first. */
export const maxNodesOf = ({ nodes }: History): number => Math.max(12, nodes);

export const usualSpan = (random: () => number): number => 1_000 + Math.floor(120_000 * random() ** 2);

/** What happens in one history of four, from numbers of its own: the other histories stay as they are. */
const apart: readonly {
  readonly kind: ActionKind;
  readonly salt: number;
  readonly atMost: number;
  readonly forMs: (random: () => number) => number;
}[] = [
  { kind: "reachQuota", salt: 0x0901_7a36, atMost: 3, forMs: (random) => 20_000 + Math.floor(random() * 100_000) },
  { kind: "excludeNode", salt: 0x0e5c_1de5, atMost: 5, forMs: usualSpan },
  { kind: "endAtWrite", salt: 0x0e0d_a7e5, atMost: 4, forMs: usualSpan },
  { kind: "serveElsewhere", salt: 0x07e1_25e5, atMost: 6, forMs: usualSpan },
];

function apartOf(seed: number, { eventfulMs }: Pace): readonly Action[] {
  return apart.flatMap(({ kind, salt, atMost, forMs }) => {
    const random = randomOf(seed ^ salt);
    if (random() >= 0.25) return [];
    const below = (limit: number): number => Math.floor(random() * limit);
    return Array.from({ length: 1 + below(atMost) }, (): Action => ({
      at: quietMs + below(eventfulMs - quietMs),
      kind,
      host: 0,
      pick: below(1_000),
      forMs: forMs(random),
      fault: "slow",
      target: "azure",
    }));
  });
}

/** What happens to the hosts of a second deployment, and to the Services of both. */
const ofSecond: readonly ActionKind[] = [
  "serveSecond",
  "serveSecond",
  "serveSecond",
  "killHost",
  "killAtWrite",
  "stopHost",
  "pauseHost",
  "pauseAtWrite",
  "stepClock",
  "deleteLease",
  "stealLease",
  "emptyLease",
  "editLease",
  "requests",
];

function actionsOfSecond(seed: number, { eventfulMs }: Pace, first: number, { hosts }: Second): readonly Action[] {
  const random = randomOf(seed ^ 0x0ac7_10d5);
  const below = (limit: number): number => Math.floor(random() * limit);
  return Array.from({ length: 3 + below(12) }, (): Action => ({
    at: quietMs + below(eventfulMs - quietMs),
    kind: ofSecond[below(ofSecond.length)] ?? "serveSecond",
    host: first + below(hosts),
    pick: below(1_000),
    forMs: usualSpan(random),
    fault: faultNames[below(faultNames.length)] ?? "slow",
    target: targets[below(targets.length)] ?? "azure",
  }));
}

/** Pods of a cluster that has some are replaced up to twelve times. */
function rollouts(seed: number, cluster: ClusterName, { eventfulMs }: Pace): readonly Action[] {
  if (!clusters[cluster].hasPods) return [];
  const random = randomOf(seed ^ 0x0011_0a75);
  const below = (limit: number): number => Math.floor(random() * limit);
  return Array.from({ length: 1 + below(12) }, (): Action => ({
    at: quietMs + below(eventfulMs - quietMs),
    kind: "movePods",
    host: 0,
    pick: below(1_000),
    forMs: usualSpan(random),
    fault: "slow",
    target: "azure",
  }));
}

/** Lists come in many pages in one history of four, from numbers of their own: what a page lacks may be on none. */
export function pageSizeOf(seed: number): { readonly pageSize?: number } {
  const random = randomOf(seed ^ 0x0ba6_e512);
  return random() < 0.25 ? { pageSize: 1 + Math.floor(random() * 3) } : {};
}

/** The history of a seed. Half of them have few kinds of actions: what takes three of one kind is rare among all. */
export function historyOf(seed: number): History {
  const random = randomOf(seed ^ 0x51ab_1e5);
  const below = (limit: number): number => Math.floor(random() * limit);
  const pick = <T>(items: readonly T[], fallback: T): T => items[below(items.length)] ?? fallback;
  const isFocused = random() < 0.5;
  const focus = isFocused ? Array.from({ length: 4 }, () => pick(weighted, "reload")) : [];
  const kinds: readonly ActionKind[] = isFocused ? [...focus, "createService", "changeService"] : weighted;
  const hosts = 1 + below(3);
  const pace = paceOf(seed);
  const actions = Array.from({ length: 4 + below(maxActions - 4) }, (): Action => ({
    at: quietMs + below(pace.eventfulMs - quietMs),
    kind: pick(kinds, "createService"),
    host: below(hosts),
    pick: below(1_000),
    forMs: usualSpan(random),
    fault: pick(faultNames, "slow"),
    target: pick(targets, "azure"),
  }));
  const cluster = clusterNameOf(seed);
  const second = secondOf(seed, cluster);
  const more = apartOf(seed, pace);
  // A Lease that no process holds, such as that of the other controller's mark, is none that deployments wait for.
  const others = second === undefined ? more : more.filter(({ kind }) => kind !== "serveElsewhere");
  const ofBoth = second === undefined ? [] : actionsOfSecond(seed, pace, hosts, second);
  return {
    seed,
    cluster,
    hosts,
    nodes: 2 + below(5),
    services: 1 + below(4),
    operationPolls: pick([0, 0, 1, 3, 10, 25], 0),
    ...pageSizeOf(seed),
    ...lateWritesOf(seed),
    pace,
    ...(second && { second }),
    actions: [...actions, ...others, ...ofBoth, ...rollouts(seed, cluster, pace)].toSorted(
      (one, other) => one.at - other.at,
    ),
  };
}

/**
 * An hour of a large cluster with the flags' defaults, in which as much happens as in other histories: the actions of
 * several of them, one after the other.
 */
export function hourOf(seed: number): History {
  const actions: Action[] = [];
  for (let [part, beganAt] = [seed * 100, 0]; beganAt < hourMs; part += 1) {
    const { actions: some, pace = fullPace } = historyOf(part);
    for (const action of some) actions.push({ ...action, at: beganAt + action.at });
    beganAt += pace.eventfulMs;
  }
  return {
    seed,
    cluster: "plain",
    hosts: 2,
    nodes: 50,
    services: 20,
    operationPolls: 1,
    pace: { lease: "default", eventfulMs: hourMs, silentMs: 2 * 60_000 },
    actions: actions.filter(({ at }) => at < hourMs),
  };
}
