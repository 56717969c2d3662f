import {
  type ComponentConfig,
  type Controller,
  type ControllerContext,
  keyOf,
  kinds,
  type LoadBalancers,
  RetryAfterError,
  runTogether,
  type Service,
  type WorkQueueOptions,
} from "cloud-controller-host/sdk";

import { type Backlog, backlogOf } from "./backlog.ts";
import { serviceEvents } from "./events.ts";
import { isLeftUndone } from "./failure.ts";
import { KeyHolds } from "./key-holds.ts";
import { serviceMetrics } from "./metrics.ts";
import { changeToFollow } from "./needs-update.ts";
import { changesNodeSets } from "./node-predicates.ts";
import { currentNodes } from "./node-set.ts";
import { syncNodes } from "./node-sync.ts";
import { needsCleanup, wantsLoadBalancer } from "./predicates.ts";
import { ServiceCache } from "./service-cache.ts";
import { serviceWrites } from "./service-writes.ts";
import { syncService } from "./sync.ts";

type Config = Pick<ComponentConfig, "serviceController" | "kubeCloudShared">;

/** 5, 10, 20 … 300 seconds. */
const queueOptions: WorkQueueOptions = { limits: [{ type: "exponential", baseMs: 5_000, maxMs: 300_000 }] };
/** How often Services are looked at for a cleanup that was missed. */
const resyncMs = 30_000;
/** A node sync concerns all Services, whichever node is the reason: any number of reasons makes one more sync. */
const allNodes = "nodes";

/** Registers for changes of Services and nodes; `run` works the two queues until its signal aborts. */
export function serviceController(context: ControllerContext, balancers: LoadBalancers, config: Config): Controller {
  const { clock, log, informers } = context;
  const workers = Math.max(1, config.serviceController.concurrentServiceSyncs);
  const services = informers.of(kinds.Service).store;
  const serviceQueue = context.workqueue("service", queueOptions);
  const nodeQueue = context.workqueue("node", queueOptions);
  const backlog = backlogOf(serviceQueue);
  const holds = new KeyHolds((loop, key) => (loop === "service" ? backlog.add(key) : nodeQueue.add(allNodes)));
  const cache = new ServiceCache();
  const nodes = currentNodes(informers.of(kinds.Node).store);
  const events = serviceEvents(context);
  const shared = { balancers, clusterName: config.kubeCloudShared.clusterName, cache, nodes, events };
  const syncParts = { ...shared, services, writes: serviceWrites(context) };
  const nodeParts = { ...shared, backlog, holds, metrics: serviceMetrics(context), clock, log };
  const registrations = [
    handleServices(context, { backlog, cache, isInHand: (key) => holds.has(key) }),
    handleNodes(context, () => nodeQueue.add(allNodes)),
  ];

  async function syncHeld(key: string, signal: AbortSignal): Promise<void> {
    backlog.begun(key);
    try {
      await syncService(syncParts, key, signal);
    } catch (error) {
      backlog.failed(key);
      throw error;
    }
  }

  const workServices = (signal: AbortSignal): Promise<void> =>
    serviceQueue.process({
      workers,
      signal,
      sync: async (key) => void (await holds.hold(key, "service", () => syncHeld(key, signal))),
      failed(key, error) {
        if (isLeftUndone(error, signal)) return;
        const retry = error instanceof RetryAfterError ? `in ${error.delayMs / 1000} s` : "with exponential backoff";
        log.error("error processing service", { service: key, retry, error });
      },
    });

  const workNodes = (signal: AbortSignal): Promise<void> =>
    nodeQueue.process({ workers: 1, signal, sync: () => syncNodes(nodeParts, workers, signal) });

  return {
    async run(signal) {
      try {
        await runTogether(signal, [workServices, workNodes]);
      } finally {
        for (const registration of registrations) registration.remove();
        serviceQueue.shutDown();
        nodeQueue.shutDown();
      }
    },
  };
}

interface ServiceParts {
  readonly backlog: Backlog;
  readonly cache: ServiceCache;
  readonly isInHand: (key: string) => boolean;
}

function handleServices({ informers, log }: ControllerContext, { backlog, cache, isInHand }: ServiceParts) {
  return informers.of(kinds.Service).handle(
    {
      added(service) {
        if (wantsLoadBalancer(service) || needsCleanup(service)) backlog.add(keyOf(service));
      },
      updated(before, after) {
        const key = keyOf(after);
        const change = changeToFollow(before, after) ?? newCleanup(before, after);
        if (change !== undefined) {
          log.debug(2, "service changed", { service: key, change });
          backlog.add(key);
        } else if (needsCleanup(after) && !backlog.owes(key) && !isInHand(key)) backlog.add(key);
      },
      // The finalizer makes a deletion arrive as an update. One that is seen here, with a load balancer still known,
      // went without it.
      deleted(last) {
        if (cache.get(keyOf(last)) !== undefined) backlog.add(keyOf(last));
      },
    },
    { resyncMs },
  );
}

const newCleanup = (before: Service, after: Service): string | undefined =>
  needsCleanup(after) && !needsCleanup(before) ? "cleanup" : undefined;

function handleNodes({ informers }: ControllerContext, look: () => void) {
  return informers.of(kinds.Node).handle({
    added: look,
    deleted: look,
    updated(before, after) {
      if (changesNodeSets(before, after)) look();
    },
  });
}
