import { isDeepStrictEqual } from "node:util";

import {
  type CompletedConfig,
  type Controller,
  type ControllerContext,
  kinds,
  type Node,
  type Routes,
} from "cloud-controller-host/sdk";

import type { AddressRange } from "./cidr.ts";
import { routeEvents } from "./events.ts";
import { type PassParts, reconcileRoutes } from "./pass.ts";

export const watchGate = "CloudControllerManagerWatchBasedRoutesReconciliation";

/** Makes routes for the nodes: every `--route-reconciliation-period`, or with the gate on when a node changes. */
export function routeController(
  context: ControllerContext,
  routes: Routes,
  clusterCIDRs: readonly AddressRange[],
  config: CompletedConfig,
): Controller {
  const { kubeCloudShared, generic } = config.componentConfig;
  const passes = context.metrics.counter({
    name: "route_controller_route_sync_total",
    help: "How often the routes at the cloud were compared with the nodes.",
  });
  const events = routeEvents(context);
  const nodes = context.informers.of(kinds.Node).store;
  const parts: PassParts = {
    ...context,
    events,
    nodes,
    routes,
    clusterCIDRs,
    clusterName: kubeCloudShared.clusterName,
    passes,
    written: new WeakMap(),
  };
  return config.featureEnabled(watchGate)
    ? onNodeChanges(context, parts, generic.minResyncPeriodMs)
    : onTimer(parts, kubeCloudShared.routeReconciliationPeriodMs);
}

/** One pass; true when all went well. A pass that was cut short by a stop has nothing to report. */
async function pass(parts: PassParts, signal: AbortSignal): Promise<boolean> {
  try {
    await reconcileRoutes(parts, signal);
    return true;
  } catch (error) {
    if (!signal.aborted) parts.log.error("could not reconcile routes", { error });
    return false;
  }
}

/** The period counts from the start of a pass; one that took longer is followed by the next at once. */
function onTimer(parts: PassParts, periodMs: number): Controller {
  const { clock } = parts;
  return {
    async run(signal) {
      while (!signal.aborted) {
        const begun = clock.monotonic();
        await pass(parts, signal);
        await clock.sleep(periodMs - (clock.monotonic() - begun), signal);
      }
    },
  };
}

const allRoutes = "routes";

/**
 * At most one pass every ten seconds. Any number of changes between two passes takes one token of the bucket, so that
 * a burst leaves no debt behind it.
 */
function onNodeChanges(context: ControllerContext, parts: PassParts, minResyncMs: number): Controller {
  const queue = context.workqueue("Routes", {
    limits: [{ type: "bucket", perSecond: 0.1, burst: 1, maxDelayMs: 10_000 }],
  });
  let scheduled = false;
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
    // Spread as upstream's factories are, so that several controllers do not resync at one moment.
    minResyncMs > 0 ? { resyncMs: minResyncMs * (1 + Math.random()) } : {},
  );
  return {
    async run(signal) {
      try {
        await queue.process({
          workers: 1,
          signal,
          async sync() {
            // Cleared first: what changes during the pass asks for another one.
            scheduled = false;
            if (!(await pass(parts, signal))) schedule();
          },
        });
      } finally {
        registration.remove();
        queue.shutDown();
      }
    },
  };
}

/** A resync, which both objects' common version gives away, counts: it is what finds stale routes in the long run. */
export const changesRoutes = (before: Node, after: Node): boolean =>
  before.metadata?.resourceVersion === after.metadata?.resourceVersion ||
  !isDeepStrictEqual(before.spec?.podCIDRs ?? [], after.spec?.podCIDRs ?? []) ||
  !isDeepStrictEqual(before.status?.addresses ?? [], after.status?.addresses ?? []);
