import { isDeepStrictEqual } from "node:util";

import {
  type CIDR,
  CodedError,
  type CompletedConfig,
  type Controller,
  type ControllerContext,
  kinds,
  type Node,
  type Routes,
  runTogether,
} from "cloud-controller-host/sdk";

import { routeEvents } from "./events.ts";
import { FailingPasses } from "./failing-passes.ts";
import { type PassParts, reconcileRoutes, routesNotDeleted } from "./pass.ts";

export const watchGate = "CloudControllerManagerWatchBasedRoutesReconciliation";

/**
 * Reconciles the nodes' routes when a node changes and every five minutes, or with the gate off every
 * `--route-reconciliation-period`.
 */
export function routeController(
  context: ControllerContext,
  routes: Routes,
  clusterCIDRs: readonly CIDR[],
  config: CompletedConfig,
): Controller {
  const { kubeCloudShared, generic } = config.componentConfig;
  const passes = context.metrics.counter({
    name: "route_controller_route_sync_total",
    help: "A metric counting the amount of times routes have been synced with the cloud provider.",
  });
  const events = routeEvents(context);
  const nodes = context.informers.of(kinds.Node).store;
  const failing = new FailingPasses(context.clock);
  const parts: ControllerParts = {
    ...context,
    failing,
    events,
    nodes,
    routes,
    clusterCIDRs,
    clusterName: kubeCloudShared.clusterName,
    passes,
    written: new WeakMap(),
  };
  const controller = config.featureEnabled(watchGate)
    ? onNodeChanges(context, parts, generic.minResyncPeriodMs)
    : onTimer(parts, kubeCloudShared.routeReconciliationPeriodMs);
  return { ...controller, warnings: () => failing.warnings };
}

interface ControllerParts extends PassParts {
  readonly failing: FailingPasses;
}

type PassResult = "done" | "deleted" | "failed" | "not deleted";

/** Runs one pass; a pass that was interrupted by a stop is not logged. */
async function pass(parts: ControllerParts, signal: AbortSignal): Promise<PassResult> {
  try {
    const hasDeleted = await reconcileRoutes(parts, signal);
    parts.failing.ended();
    return hasDeleted ? "deleted" : "done";
  } catch (error) {
    if (!signal.aborted) {
      parts.log.error("Couldn't reconcile node routes", { error });
      parts.failing.failed(error);
    }
    return error instanceof CodedError && error.code === routesNotDeleted ? "not deleted" : "failed";
  }
}

/**
 * The period begins with a pass; a pass that takes longer is followed by the next one immediately. None runs before there
 * is a node: without one there is nothing to route, and a node filter that selects none, such as a misspelled one, must
 * not cost the routes of all.
 */
function onTimer(parts: ControllerParts, periodMs: number): Controller {
  const { clock, nodes } = parts;
  return {
    async run(signal) {
      let hasSeenNodes = false;
      while (!signal.aborted) {
        const begun = clock.monotonic();
        hasSeenNodes ||= nodes.list().length > 0;
        if (hasSeenNodes) await pass(parts, signal);
        await clock.sleep(periodMs - (clock.monotonic() - begun), signal);
      }
    },
  };
}

const allRoutes = "routes";

/** Between two passes that no change of a node has caused: what was changed by hand is found. */
const checkMs = 300_000;

/** A route that cannot be deleted (a locked resource group, say) must not cost a pass every ten seconds. */
const deletionRetry = { baseMs: 10_000, maxMs: 600_000 };

/**
 * At most one pass every ten seconds, beside the check. Any number of changes between two passes takes one token of the bucket, so that
 * a burst leaves no debt behind.
 */
function onNodeChanges(context: ControllerContext, parts: ControllerParts, minResyncMs: number): Controller {
  const queue = context.workqueue("Routes", {
    limits: [{ type: "bucket", perSecond: 0.1, burst: 1, maxDelayMs: 10_000 }],
  });
  let scheduled = false;
  /** Consecutive passes in which only deletions failed. */
  let undeleted = 0;
  const schedule = (): void => {
    if (scheduled) return;
    scheduled = true;
    queue.addRateLimited(allRoutes);
  };
  const registration = context.informers.of(kinds.Node).handle(
    {
      added: schedule,
      deleted: schedule,
      updated(before, after) {
        if (changesRoutes(before, after)) schedule();
      },
    },
    // Jittered like upstream's factories, so that controllers do not resync simultaneously.
    minResyncMs > 0 ? { resyncMs: minResyncMs * (1 + Math.random()) } : {},
  );
  const work = (signal: AbortSignal): Promise<void> =>
    queue.process({
      workers: 1,
      signal,
      async sync() {
        // Cleared first: a change during the pass schedules another one.
        scheduled = false;
        const result = await pass(parts, signal);
        if (result === "failed" || result === "deleted") schedule();
        undeleted = result === "not deleted" ? undeleted + 1 : 0;
        if (undeleted > 0)
          queue.addAfter(allRoutes, Math.min(deletionRetry.maxMs, deletionRetry.baseMs * 2 ** (undeleted - 1)));
      },
    });
  /** An empty list of nodes is a poor reason to delete routes. */
  async function check(signal: AbortSignal): Promise<void> {
    for (;;) {
      await parts.clock.sleep(checkMs, signal);
      if (signal.aborted) return;
      // At once: it is rare enough, and a plan, which skips the time until then, does not wait for the bucket.
      if (parts.nodes.list().length > 0) queue.add(allRoutes);
    }
  }
  return {
    async run(signal) {
      try {
        await runTogether(signal, [work, check]);
      } finally {
        registration.remove();
        queue.shutDown();
      }
    },
  };
}

/** A resync (same version on both objects) counts too: it finds stale routes in the long run. */
export const changesRoutes = (before: Node, after: Node): boolean =>
  before.metadata?.resourceVersion === after.metadata?.resourceVersion ||
  !isDeepStrictEqual(before.spec?.podCIDRs ?? [], after.spec?.podCIDRs ?? []) ||
  !isDeepStrictEqual(before.status?.addresses ?? [], after.status?.addresses ?? []);
