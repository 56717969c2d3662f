import { randomOf } from "../timeline.ts";
import { lateWritesOf } from "./canceled-requests.ts";
import { type ClusterName, clusterNameOf, clusters } from "./clusters.ts";
import { type Second, secondOf } from "./deployments.ts";
import { type Action, type ActionKind, type History, pageSizeOf, quietMs, usualSpan, weighted } from "./history.ts";
import { paceOf } from "./pace.ts";
import { faultNames, targets } from "./weather.ts";

/** Within so many milliseconds all actions of a minute begin. */
const widths = [3_000, 10_000, 40_000, 90_000] as const;
/** What is still in progress then has so long to meet the faults that last. */
const restMs = 60_000;
/** Besides those of other histories, where no other deployment has Services of its own. */
const ofOne: readonly ActionKind[] = ["serveElsewhere", "excludeNode", "reachQuota"];
const ofTwo: readonly ActionKind[] = ["serveSecond", "serveSecond", "serveSecond", "excludeNode", "reachQuota"];
/** A fifth of all in clusters with Pods. */
const ofPods: readonly ActionKind[] = Array.from({ length: 30 }, () => "movePods");

/** The kinds of action that a minute draws from, each as often as it occurs. */
const kindsOf = (cluster: ClusterName, second: Second | undefined): readonly ActionKind[] => [
  ...weighted,
  ...(second === undefined ? ofOne : ofTwo),
  ...(clusters[cluster].hasPods ? ofPods : []),
];

/** Two kinds, or one alone, for the minute of a seed: the pairs take turns. */
export function pairOf(seed: number): readonly ActionKind[] {
  const cluster = clusterNameOf(seed);
  const kinds = [...new Set(kindsOf(cluster, secondOf(seed, cluster)))];
  const pairs = kinds.flatMap((one, index) => kinds.slice(index).map((other) => [...new Set([one, other])]));
  return pairs[seed % pairs.length] ?? [];
}

/**
 * A short history of a seed in which much happens at once: a few kinds of action, each several times, within seconds of
 * each other. What takes two of one kind during one write is rare in the quarter of an hour of other histories. `needs`
 * are kinds of which each happens.
 */
export function minuteOf(seed: number, needs: readonly ActionKind[] = []): History {
  const random = randomOf(seed ^ 0x01e5_5a9d);
  const below = (limit: number): number => Math.floor(random() * limit);
  const pick = <T>(items: readonly T[], fallback: T): T => items[below(items.length)] ?? fallback;
  const cluster = clusterNameOf(seed);
  const second = needs.includes("serveElsewhere") ? undefined : secondOf(seed, cluster);
  const all = kindsOf(cluster, second);
  const few = [...needs, ...Array.from({ length: 3 }, () => pick(all, "changeService"))];
  const others = Array.from({ length: 3 + below(6) }, () => pick(random() < 0.6 ? few : all, "changeService"));
  const hosts = random() < 0.25 ? 2 : 1;
  const [beganMs, widthMs] = [quietMs + below(30_000), pick(widths, widths[0])];
  const actions = [...needs, ...others].map((kind): Action => ({
    at: beganMs + below(widthMs),
    kind,
    host: below(hosts + (second?.hosts ?? 0)),
    pick: below(1_000),
    forMs: usualSpan(random),
    fault: pick(faultNames, "slow"),
    target: pick(targets, "azure"),
  }));
  return {
    seed,
    cluster,
    hosts,
    nodes: 3 + below(2),
    services: 1 + below(3),
    operationPolls: pick([0, 1, 10], 0),
    ...pageSizeOf(seed),
    ...lateWritesOf(seed),
    pace: { lease: paceOf(seed).lease, eventfulMs: beganMs + widthMs + restMs, silentMs: 2 * 60_000 },
    ...(second && { second }),
    actions: actions.toSorted((one, other) => one.at - other.at),
  };
}
