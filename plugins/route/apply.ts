import {
  type Clock,
  CodedError,
  type Logger,
  messageOf,
  retryOnConflict,
  type Route,
  type Routes,
} from "cloud-controller-host/sdk";

import type { RouteEvents } from "./events.ts";
import { atMost } from "./in-flight.ts";
import type { Creation, RoutePlan } from "./plan.ts";

export interface ApplyParts {
  readonly routes: Routes;
  readonly clusterName: string;
  readonly events: RouteEvents;
  readonly clock: Clock;
  readonly log: Logger;
}

/** What came of a plan. */
export interface Applied {
  readonly problems: readonly string[];
  /** Creations that did not come to pass. */
  readonly missing: ReadonlySet<Creation>;
}

/** Calls to the cloud under way at once in one pass, deletions and creations together. */
const mostInFlight = 200;
const conflictRetry = { steps: 5, pauseMs: 100 };

/**
 * Deletes and creates, as much at once as may be. A route is created only after every route of the same node or the
 * same destination that is to go has gone: a cloud may name routes by their node, or refuse a destination twice. Never
 * rejects. When the signal aborts, no further call is begun and those under way are finished: the cloud would work on
 * them all the same, and the next generation, not seeing their effect yet, would send them a second time.
 */
export async function applyPlan(parts: ApplyParts, plan: RoutePlan, signal: AbortSignal): Promise<Applied> {
  const limit = atMost(mostInFlight);
  const problems: string[] = [];
  const missing = new Set<Creation>(plan.creations);
  const beforehand = new Map<string, Promise<void>[]>();
  const noteProblem = async (work: Promise<string | undefined>): Promise<void> => {
    const problem = await work;
    if (problem !== undefined) problems.push(problem);
  };

  const deletions = plan.deletions.map((route) => {
    const deletion = noteProblem(limit(() => deleteRoute(parts, route, signal)));
    for (const claim of claimsOf(route)) beforehand.getOrInsertComputed(claim, () => []).push(deletion);
    return deletion;
  });
  const creations = plan.creations.map(async (creation) => {
    await Promise.all(claimsOf(creation.route).flatMap((claim) => beforehand.get(claim) ?? []));
    const problem = await createRoute(parts, creation, limit, signal);
    if (problem === undefined) missing.delete(creation);
    else problems.push(problem);
  });
  await Promise.all([...deletions, ...creations]);
  return { problems, missing };
}

const claimsOf = ({ targetNode, destinationCIDR }: Route): readonly string[] => [
  `node ${targetNode}`,
  `destination ${destinationCIDR}`,
];

const notBegun = "not begun, because the controller is stopping";

async function deleteRoute(parts: ApplyParts, route: Route, signal: AbortSignal): Promise<string | undefined> {
  const { routes, clusterName, log } = parts;
  if (signal.aborted) return notBegun;
  try {
    await routes.deleteRoute(clusterName, route);
    log.debug(2, "deleted route", { node: route.targetNode, cidr: route.destinationCIDR });
    return undefined;
  } catch (error) {
    return `could not delete route ${route.name} ${route.destinationCIDR}: ${messageOf(error)}`;
  }
}

async function createRoute(
  { routes, clusterName, events, clock, log }: ApplyParts,
  { node, route }: Creation,
  limit: ReturnType<typeof atMost>,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { targetNode, destinationCIDR: cidr } = route;
  const begun = clock.monotonic();
  const hint = node.metadata?.uid ?? "";
  try {
    await retryOnConflict({ clock, signal, ...conflictRetry }, () =>
      limit(async () => {
        if (signal.aborted) throw new CodedError("Stopping", notBegun);
        await routes.createRoute(clusterName, hint, route);
      }),
    );
    log.debug(2, "created route", { node: targetNode, cidr });
    return undefined;
  } catch (error) {
    if (!signal.aborted) events.creationFailed(node, cidr, clock.monotonic() - begun, error);
    return `could not create route ${cidr} for node ${targetNode}: ${messageOf(error)}`;
  }
}
