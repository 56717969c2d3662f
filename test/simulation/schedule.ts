import { type RequestFault, requestFaults } from "./api-server.ts";
import { cloudFaults, pluginFaults } from "./disk.ts";
import { randomOf } from "./timeline.ts";

/** One thing that happens to the system, `at` milliseconds from the start. */
export type Action = { readonly at: number } & (
  | { readonly kind: "config"; readonly host: number; readonly fault: string; readonly torn: boolean }
  | { readonly kind: "plugin"; readonly host: number; readonly fault: string }
  | { readonly kind: "removeConfig"; readonly host: number; readonly forMs: number }
  | { readonly kind: "hangUp" | "stop" | "kill" | "loseWatches"; readonly host: number }
  | { readonly kind: "pause" | "overtake"; readonly host: number; readonly forMs: number }
  | {
      readonly kind: "requests";
      readonly host: number;
      readonly fault: RequestFault | "partition";
      readonly forMs: number;
    }
  | { readonly kind: "deleteLease" | "stealLease" | "editLease" }
);

export interface Schedule {
  readonly seed: number;
  readonly hosts: number;
  readonly actions: readonly Action[];
}

/** Faults begin until then. */
export const faultyMs = 45_000;

const kinds = [
  ["config", 6],
  ["plugin", 6],
  ["removeConfig", 1],
  ["hangUp", 2],
  ["stop", 2],
  ["kill", 1],
  ["pause", 2],
  ["loseWatches", 4],
  ["overtake", 3],
  ["requests", 5],
  ["deleteLease", 1],
  ["stealLease", 1],
  ["editLease", 1],
] as const;

/** Kinds of action in a schedule of few. */
const focus = 3;

/** The schedule of a seed: the same for the same seed. */
export function scheduleOf(seed: number): Schedule {
  const random = randomOf(seed);
  const pick = <T>(items: readonly T[], fallback: T): T => items[Math.floor(random() * items.length)] ?? fallback;
  const hosts = 1 + Math.floor(random() * 3);
  // Half of the schedules are of a few kinds alone: what takes three of one kind in a row is rare among all.
  const isFocused = random() < 0.5;
  const chosen = isFocused ? Array.from({ length: focus }, () => pick(kinds, kinds[0])) : kinds;
  const weighted = chosen.flatMap(([kind, weight]) => Array.from({ length: weight }, () => kind));
  const actions = Array.from({ length: 2 + Math.floor(random() * 9) }, (): Action => {
    const at = Math.floor(1_500 + random() * (faultyMs - 1_500));
    const host = Math.floor(random() * hosts);
    const forMs = Math.floor(200 + random() * 14_000);
    const kind = pick(weighted, "hangUp");
    switch (kind) {
      case "config":
        return {
          at,
          kind,
          host,
          fault: pick([...cloudFaults, "invalid", "disabled", "none", "none"], "none"),
          torn: random() < 0.5,
        };
      case "plugin":
        return { at, kind, host, fault: pick([...pluginFaults, "none", "none"], "none") };
      case "requests":
        return {
          at,
          kind,
          host,
          fault: pick([...requestFaults, "partition" as const, "partition" as const], "drop"),
          forMs,
        };
      case "removeConfig":
      case "overtake":
        return { at, kind, host, forMs };
      case "pause":
        // Now and then for longer than a lease is valid.
        return { at, kind, host, forMs: 2 * forMs };
      case "hangUp":
      case "stop":
      case "kill":
      case "loseWatches":
        return { at, kind, host };
      default:
        return { at, kind };
    }
  });
  return { seed, hosts, actions: actions.toSorted((one, other) => one.at - other.at) };
}

/** Leaves out whatever the failure does not need: halves first, then single actions, then hosts. */
export async function shrink<S extends { readonly hosts: number; readonly actions: readonly object[] }>(
  schedule: S,
  fails: (candidate: S) => Promise<boolean>,
): Promise<S> {
  let smallest = schedule;
  for (let size = Math.ceil(smallest.actions.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2))
    for (let from = 0; from < smallest.actions.length;) {
      const candidate = { ...smallest, actions: smallest.actions.toSpliced(from, size) };
      if (await fails(candidate)) smallest = candidate;
      else from += size;
    }
  while (smallest.hosts > 1) {
    const candidate = { ...smallest, hosts: smallest.hosts - 1 };
    if (!(await fails(candidate))) break;
    smallest = candidate;
  }
  return smallest;
}
