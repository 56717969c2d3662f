import {
  type ComponentConfig,
  type Controller,
  type ControllerContext,
  FailingObjects,
  keyOf,
  kinds,
  type LoadBalancers,
  RetryAfterError,
  retryAfterOf,
  runTogether,
  type Service,
  type WorkQueueOptions,
} from "cloud-controller-host/sdk";

import { type Backlog, backlogOf } from "./backlog.ts";
import { isInterrupted, throwIfStopping } from "./errors.ts";
import { serviceEvents } from "./events.ts";
import { KeyedMutex } from "./keyed-mutex.ts";
import { serviceMetrics } from "./metrics.ts";
import { syncNodes } from "./node-sync.ts";
import { changesNodeSets, currentNodes } from "./nodes.ts";
import { maxInFlight, Places } from "./places.ts";
import { type ServiceSelection, serviceSelection } from "./predicates.ts";
import { ServiceCache } from "./service-cache.ts";
import { hasStatus, type ServiceWrites, serviceWrites } from "./service-writes.ts";
import { syncService } from "./sync.ts";

type Config = Pick<ComponentConfig, "serviceController" | "kubeCloudShared">;

/** 5, 10, 20 … 300 seconds. */
const firstRetryMs = 5_000;
const maxRetryMs = 300_000;
const queueOptions: WorkQueueOptions = {
  limits: [{ type: "exponential", baseMs: firstRetryMs, maxMs: maxRetryMs }],
};
/** Resync period; it catches a cleanup that was missed, or a condition that came late. */
const resyncMs = 30_000;
/** Key for all nodes: a node sync covers every Service, so that any number of node changes needs one sync. */
const allNodes = "nodes";

/** Handles changes of Services and nodes; `run` processes the two queues until its signal aborts. */
export function serviceController(context: ControllerContext, balancers: LoadBalancers, config: Config): Controller {
  const { clock, log, informers, shards } = context;
  const workers = Math.max(1, config.serviceController.concurrentServiceSyncs);
  const serviceInformer = informers.of(kinds.Service);
  balancers.watch?.(serviceInformer);
  const services = serviceInformer.store;
  const serviceQueue = context.workqueue("service", queueOptions);
  const nodeQueue = context.workqueue("node", queueOptions);
  const backlog = backlogOf(serviceQueue);
  const mutex = new KeyedMutex((loop, key) => (loop === "service" ? backlog.add(key) : nodeQueue.add(allNodes)));
  const cache = new ServiceCache();
  const nodes = currentNodes(informers.of(kinds.Node).store);
  const events = serviceEvents(context);
  let changes = 0;
  const nodeChanges = (): number => changes;
  const selection = serviceSelection(config.serviceController, shards);
  const { clusterName } = config.kubeCloudShared;
  const shared = { selection, balancers, clusterName, cache, nodes, nodeChanges, events, clock };
  const retryDelayMs = (key: string, error: unknown): number =>
    retryAfterOf(error) ?? Math.min(maxRetryMs, firstRetryMs * 2 ** serviceQueue.requeues(key));
  const failing = new FailingObjects("ServicesFail", clock);
  const again = backlog.addAfter;
  const syncParts = { ...shared, services, writes: serviceWrites(context), failing, retryDelayMs, shards, again };
  const nodeParts = { ...shared, backlog, mutex, metrics: serviceMetrics(context), log };
  const registrations = [
    handleServices(context, { ...syncParts, backlog, isInFlight: (key) => mutex.has(key) }),
    handleNodes(context, () => {
      changes += 1;
      nodeQueue.add(allNodes);
    }),
  ];

  const servicePlaces = new Places(clock, workers);
  const nodePlaces = new Places(clock, workers);

  async function syncLocked(key: string, signal: AbortSignal): Promise<void> {
    backlog.started(key);
    try {
      await syncService(syncParts, key, signal);
    } catch (error) {
      backlog.failed(key);
      throw error;
    }
  }

  const workServices = (signal: AbortSignal): Promise<void> =>
    serviceQueue.process({
      workers: maxInFlight(workers),
      signal,
      async sync(key) {
        using _ = await servicePlaces.enter(signal);
        throwIfStopping(signal);
        await mutex.run(key, "service", () => syncLocked(key, signal));
      },
      failed(key, error) {
        if (isInterrupted(error, signal)) return;
        const retry = error instanceof RetryAfterError ? `in ${error.delayMs / 1000} s` : "with exponential backoff";
        log.error("error processing service", { service: key, retry, error });
      },
    });

  async function workNodes(signal: AbortSignal): Promise<void> {
    const passes = new Set<Promise<void>>();
    const sync = async (): Promise<void> => {
      const { ended } = await syncNodes(nodeParts, nodePlaces, signal);
      passes.add(ended);
      void ended.then(() => passes.delete(ended));
    };
    await nodeQueue.process({ workers: 1, signal, sync });
    await Promise.all(passes);
  }

  return {
    warnings: () => failing.warnings,
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
  readonly selection: ServiceSelection;
  readonly backlog: Backlog;
  readonly cache: ServiceCache;
  readonly writes: ServiceWrites;
  readonly isInFlight: (key: string) => boolean;
}

function handleServices({ informers, log }: ControllerContext, parts: ServiceParts) {
  const { backlog, cache, writes, isInFlight } = parts;
  const { wantsLoadBalancer, needsCleanup, mayBeLeftBehind, changeToFollow, isHandedOver } = parts.selection;
  const concerns = [wantsLoadBalancer, needsCleanup, mayBeLeftBehind, isHandedOver];
  const newCleanup = (before: Service, after: Service): string | undefined =>
    needsCleanup(after) && !needsCleanup(before) ? "cleanup" : undefined;
  /** The API server clears the address with the type: a list may show that, and not that the type has changed and back. */
  const addressGone = (before: Service, after: Service): string | undefined =>
    wantsLoadBalancer(after) && !hasStatus(before, {}) && hasStatus(after, {}) ? "address" : undefined;
  const isOutdated = (key: string, service: Service): boolean =>
    cache.get(key) !== undefined && writes.condition.showsFailureOfAnother(service);
  return informers.of(kinds.Service).handle(
    {
      added(service) {
        if (concerns.some((holds) => holds(service))) backlog.add(keyOf(service));
      },
      updated(before, after) {
        const key = keyOf(after);
        const change = changeToFollow(before, after) ?? newCleanup(before, after) ?? addressGone(before, after);
        if (change !== undefined) {
          log.debug(2, "service changed", { service: key, change });
          backlog.add(key);
          return;
        }
        const isDue = needsCleanup(after) || isHandedOver(after) || isOutdated(key, after);
        if (isDue && !backlog.isPending(key) && !isInFlight(key)) backlog.add(key);
      },
      // With the finalizer a deletion arrives as an update. A Service deleted here with a known load balancer had none.
      deleted(last) {
        if (cache.get(keyOf(last)) !== undefined) backlog.add(keyOf(last));
      },
    },
    { resyncMs },
  );
}

function handleNodes({ informers }: ControllerContext, sync: () => void) {
  return informers.of(kinds.Node).handle({
    added: sync,
    deleted: sync,
    updated(before, after) {
      if (changesNodeSets(before, after)) sync();
    },
  });
}
