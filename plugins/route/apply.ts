import {
  type CIDR,
  type Clock,
  CodedError,
  type Logger,
  messageOf,
  retryOnConflict,
  type Route,
  type Routes,
} from "cloud-controller-host/sdk";

import { isWithin } from "./cluster-cidrs.ts";
import type { RouteEvents } from "./events.ts";
import type { Creation, RoutePlan } from "./plan.ts";

export interface ApplyParts {
  readonly routes: Routes;
  readonly clusterName: string;
  readonly clusterCIDRs: readonly CIDR[];
  readonly events: RouteEvents;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Result of a plan. */
export interface Applied {
  /** Failed deletions. */
  readonly undeleted: readonly string[];
  /** Failed creations. */
  readonly problems: readonly string[];
  /** Creations that failed, or were refused. */
  readonly missing: ReadonlySet<Creation>;
}

/** Concurrent cloud calls of one pass, deletions and creations together. */
const maxInFlight = 200;
const conflictRetry = { steps: 5, pauseMs: 100 };

/**
 * Deletes and creates routes concurrently. A route is created only after the deletions of the same node and of the same
 * destination: a cloud may name routes by their node, or refuse a duplicate destination. Never rejects. When the signal
 * aborts, no further call starts and those in flight are finished: the cloud would execute them anyway, and the next
 * generation, not seeing their effect yet, would send them again.
 */
export async function applyPlan(parts: ApplyParts, plan: RoutePlan, signal: AbortSignal): Promise<Applied> {
  const limit = limitConcurrency(maxInFlight);
  const undeleted: string[] = [];
  const problems: string[] = [];
  const missing = new Set<Creation>(plan.creations);
  const beforehand = new Map<string, Promise<void>[]>();
  const noteProblem = async (work: Promise<string | undefined>): Promise<void> => {
    const problem = await work;
    if (problem !== undefined) undeleted.push(problem);
  };

  const deletions = plan.deletions.map((route) => {
    const deletion = noteProblem(limit(() => deleteRoute(parts, route, signal)));
    for (const claim of claimsOf(route)) beforehand.getOrInsertComputed(claim, () => []).push(deletion);
    return deletion;
  });
  const creations = plan.creations.map(async (creation) => {
    if (!isWithin(parts.clusterCIDRs, creation.route.destinationCIDR)) return refuse(parts, creation);
    await Promise.all(claimsOf(creation.route).flatMap((claim) => beforehand.get(claim) ?? []));
    const problem = await createRoute(parts, creation, limit, signal);
    if (problem === undefined) missing.delete(creation);
    else problems.push(problem);
  });
  await Promise.all([...deletions, ...creations]);
  return { undeleted, problems, missing };
}

/**
 * A kubelet may register its node with any CIDR, such as 0.0.0.0/0: the traffic of all nodes would go there. The node has
 * an event and stays without a route; the pass does not fail, as another attempt would change nothing.
 */
function refuse({ events }: ApplyParts, { node, route: { destinationCIDR: cidr } }: Creation): void {
  const message = `pod CIDR ${cidr} is not within --cluster-cidr`;
  events.creationFailed(node, cidr, 0, new CodedError("RouteOutsideClusterCIDR", message));
}

const claimsOf = ({ targetNode, destinationCIDR }: Route): readonly string[] => [
  `node ${targetNode}`,
  `destination ${destinationCIDR}`,
];

const notStarted = "not started, because the controller is stopping";

async function deleteRoute(parts: ApplyParts, route: Route, signal: AbortSignal): Promise<string | undefined> {
  const { routes, clusterName, log } = parts;
  if (signal.aborted) return notStarted;
  try {
    await routes.deleteRoute(clusterName, route);
    log.info("Deleted route", { node: route.targetNode, cidr: route.destinationCIDR });
    return undefined;
  } catch (error) {
    return `Could not delete route ${route.name} ${route.destinationCIDR}: ${messageOf(error)}`;
  }
}

async function createRoute(
  { routes, clusterName, events, clock, log }: ApplyParts,
  { node, route }: Creation,
  limit: Limit,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { targetNode, destinationCIDR: cidr } = route;
  const begun = clock.monotonic();
  const hint = node.metadata?.uid ?? "";
  try {
    await retryOnConflict({ clock, signal, ...conflictRetry }, () =>
      limit(async () => {
        if (signal.aborted) throw new CodedError("Stopping", notStarted);
        await routes.createRoute(clusterName, hint, route);
      }),
    );
    log.info("Created route for node", { node: targetNode, cidr });
    return undefined;
  } catch (error) {
    if (!signal.aborted) events.creationFailed(node, cidr, clock.monotonic() - begun, error);
    return `Could not create route ${cidr} for node ${targetNode}: ${messageOf(error)}`;
  }
}

type Limit = <T>(work: () => Promise<T>) => Promise<T>;

/** Runs at most `max` calls at a time; the others start in the order in which they were made. */
export function limitConcurrency(max: number): Limit {
  let free = max;
  const waiting: (() => void)[] = [];
  return async (work) => {
    if (free > 0) free--;
    else await new Promise<void>((resolve) => void waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) free++;
      else next();
    }
  };
}
