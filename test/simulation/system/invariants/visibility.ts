import { controllerNames } from "cloud-controller-host/sdk";

import type { HostStatus } from "../../../../host/run/status.ts";
import type { SimulatedHost } from "../host-program.ts";
import type { World } from "../world.ts";
import type { Problem, ProblemKind } from "./problems.ts";
import type { Violate } from "./table.ts";

const minuteMs = 60_000;

interface Showing {
  /** The controller whose warnings in `/statusz` show it. */
  readonly source: string;
  /** Starts of events that show it: a reason and a space. */
  readonly events?: RegExp;
  /** A warning that shows it and does not name the object. */
  readonly warning?: RegExp;
  /** A failure that has lasted so long must be visible. */
  readonly withinMs: number;
  /** Operations on these take as long as they take: nothing has failed while they last. */
  readonly waitsFor?: RegExp;
}

/** The pass over addresses has a period of five minutes, and an address counts as failing after two of them. */
const addressesMs = 15 * minuteMs;
/** A node is checked for deletion when its kubelet is silent and it is five minutes old. */
const existenceMs = 10 * minuteMs;
const usualMs = 5 * minuteMs;

const showings: Readonly<Record<ProblemKind, Showing>> = {
  Service: {
    source: controllerNames.serviceLB,
    events: /^(?:Sync|Update|Delete)LoadBalancerFailed /u,
    withinMs: usualMs,
    waitsFor: /loadBalancers|publicIPAddresses|networkSecurityGroups|virtualMachine|networkInterfaces/iu,
  },
  uninitialized: { source: controllerNames.cloudNode, events: /^FailedToInitializeNode /u, withinMs: usualMs },
  addresses: { source: controllerNames.cloudNode, withinMs: addressesMs },
  shutdown: { source: controllerNames.cloudNodeLifecycle, withinMs: usualMs },
  existence: {
    source: controllerNames.cloudNodeLifecycle,
    events: /^DeletingNodeFailed /u,
    // Where very many are missing at once, they are held.
    warning: /nodes are missing from the cloud/u,
    withinMs: existenceMs,
  },
  CIDR: { source: controllerNames.nodeIPAM, events: /^CIDR/u, withinMs: usualMs },
  route: {
    source: controllerNames.nodeRoute,
    events: /^FailedToCreateRoute /u,
    warning: /routes not reconciled/u,
    withinMs: usualMs,
    waitsFor: /routeTables/iu,
  },
};

interface Known {
  readonly since: number;
  /** When a request was first seen to have failed since. */
  failedAt: number | undefined;
}

/** The process that leads. */
type Leader = Pick<SimulatedHost, "identity"> & {
  readonly status: Pick<HostStatus, "generation" | "running" | "warnings"> | undefined;
};

type Around = Pick<World, "now" | "meddled"> & { readonly operations: Pick<World["operations"], "underway"> };

/** What is not as users want it, and fails for minutes, shows at its object or in `/statusz` of the process that leads. */
export class Visibility {
  readonly #world: Around;
  readonly #problems: () => readonly Problem[];
  readonly #violate: Violate;
  readonly #known = new Map<string, Known>();
  /** The process and the generation that everything known is of. */
  #term = "";
  #failedAt = Number.NEGATIVE_INFINITY;
  #lookedAt = 0;
  /** When an event was last written, by its reason and the UID of its object: clocks of hosts are wrong. */
  readonly #events = new Map<string, number>();

  constructor(world: Around, problems: () => readonly Problem[], violate: Violate) {
    this.#world = world;
    this.#problems = problems;
    this.#violate = violate;
  }

  /** A request of the process that leads has failed. */
  failed(): void {
    this.#failedAt = this.#world.now;
  }

  /** An event was written, or written again. */
  shown(reason: string, uid: string): void {
    this.#events.set(`${reason} ${uid}`, this.#world.now);
  }

  /** Called every minute. */
  check(leader: Leader | undefined): void {
    this.#check(leader);
    this.#lookedAt = this.#world.now;
  }

  #check(leader: Leader | undefined): void {
    const status = leader?.status;
    const term = `${leader?.identity} ${status?.generation} ${status?.running}`;
    // Warnings are those of a generation, and one that ends may have had no time to notice.
    if (term !== this.#term || status === undefined || !status.running) this.#known.clear();
    this.#term = term;
    if (status === undefined) return;
    const keyOf = ({ kind, object, uid, cause }: Problem): string => [kind, object, uid, cause].join(" ");
    const problems = Map.groupBy(this.#problems(), keyOf);
    for (const key of this.#known.keys()) if (!problems.has(key)) this.#known.delete(key);
    for (const [key, [problem]] of problems) {
      if (problem?.kind === undefined) continue;
      const since = this.#lastingSince(key, problem);
      if (since === undefined || this.#isVisible(problem, since, status.warnings)) continue;
      const minutes = Math.floor((this.#world.now - since) / minuteMs);
      this.#violate("visible failures", `${problem.text}, and nothing has shown it for ${minutes} min`);
    }
  }

  /** Since when the object has been so, if a request for it failed long ago. */
  #lastingSince(key: string, { kind = "Service", isRefusal }: Problem): number | undefined {
    const { now } = this.#world;
    const { withinMs, waitsFor } = showings[kind];
    // What a person has removed fails for no one: it is back with the next sync.
    const isExempt = kind === "Service" && this.#world.meddled;
    if (isExempt || this.#world.operations.underway.some((path) => waitsFor?.test(path))) {
      this.#known.delete(key);
      return undefined;
    }
    const known = this.#known.getOrInsertComputed(key, () => ({ since: this.#lookedAt, failedAt: undefined }));
    if (isRefusal === true || this.#failedAt >= known.since) known.failedAt ??= now;
    return known.failedAt !== undefined && now - known.failedAt >= withinMs ? known.since : undefined;
  }

  #isVisible({ kind = "Service", object = "", uid }: Problem, since: number, warnings: readonly string[]): boolean {
    const { source, events, warning } = showings[kind];
    const isShown = warnings.some(
      (text) =>
        text.startsWith(`${source}:`) && (text.split(/[\s,;]/u).includes(object) || warning?.test(text) === true),
    );
    return (
      isShown || [...this.#events].some(([key, at]) => at >= since && key.endsWith(` ${uid}`) && events?.test(key))
    );
  }
}
