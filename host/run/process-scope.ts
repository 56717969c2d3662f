import { edenGC, fullGC, heapSize } from "bun:jsc";

import { annotationOf, type Confirmations, type EventSubject, kinds, type KubeClient } from "cloud-controller-host/sdk";

import { complete } from "../config/validate/complete.ts";
import { shardName, sharesServices } from "../config/validate/shard.ts";
import type { ProcessScope } from "../generation/scope/scope.ts";
import { type ConfigSource, fileSource } from "../generation/triggers/config-source.ts";
import { secretSource } from "../generation/triggers/secret-source.ts";
import { traceQueue } from "../kube/connection/tracing.ts";
import { createWorkQueue } from "../kube/queue/work-queue.ts";
import type { Leadership } from "./leadership.ts";
import { component, type HostInput, type ProcessParts } from "./process-parts.ts";

/** Source of the cloud config: a file or a Secret; undefined without one. */
export function configSource(
  { options }: HostInput,
  parts: ProcessParts,
  ending: AsyncDisposableStack,
): ConfigSource | undefined {
  if (options.cloudConfig !== "") return fileSource(options.cloudConfig);
  if (!options.enableDynamicReloading) return undefined;
  const informers = parts.informers.share();
  ending.defer(() => informers.release());
  return secretSource({
    client: parts.clients.client("cloud-config"),
    informers,
    namespace: options.cloudConfigSecretNamespace,
    name: options.cloudConfigSecretName,
    key: options.cloudConfigKey,
  });
}

/** The parts of the process as generations use them. */
export function processScope(
  input: HostInput,
  parts: ProcessParts,
  { lease, locks, shards }: Pick<Leadership, "lease" | "locks" | "shards">,
): ProcessScope {
  const { options } = input;
  const { clock, log, telemetry, metrics, informers, health, generationClients, events, writes } = parts;
  const recorderOf = (source: string) => events.recorder(shardName(options, source));
  const recorder = recorderOf(component);
  return {
    settings: {
      cloudProvider: options.cloudProvider,
      clusterName: options.clusterName,
      ...(sharesServices(options) && { shard: options.shard }),
      controllers: options.controllers,
      webhooks: options.webhooks,
      controllerStartInterval: options.controllerStartInterval,
      drainTimeout: options.generationDrainTimeout,
      initTimeout: options.pluginInitTimeout,
      pluginFailurePolicy: options.pluginFailurePolicy === "exit" ? "exit" : "skip",
      own: input.own,
    },
    config: complete(options),
    environment: input.environment,
    locks,
    clock,
    log,
    outstanding: input.outstanding,
    loopOwner: parts.loopOwner,
    metrics,
    informers,
    // An unhealthy controller must neither kill the process nor remove it from its Service: it fails /healthz alone.
    health: {
      replaceGeneration: (checks) =>
        health.replaceGeneration(checks.map((check) => ({ ...check, endpoints: ["healthz"] }))),
    },
    client: (name, fence, generation) =>
      writes.of(informers.track(generationClients.client(name, fence)), name, generation),
    ...(options.leaderElect && {
      confirmations: leaseConfirmations(parts.clients.client("removal-confirmations"), lease),
      shards: {
        own: options.leaderElectResourceName,
        ...(shards && { isAlive: (other) => shards.isAlive(other) }),
      },
    }),
    recordWrite: (controller, generation, write) => writes.add({ controller, generation, system: "cloud" }, write),
    recorder: recorderOf,
    configChanged: (generation, keys) => writes.configChanged(generation, keys),
    tracer: telemetry,
    workqueue: (name, { owner, ...queueOptions }) =>
      traceQueue(createWorkQueue(name, { ...queueOptions, clock, busy: parts.busy }), telemetry, (work) =>
        parts.loopOwner.run(owner, work),
      ),
    // `Bun.gc(true)` would drop compiled code as well, so that the next drain and start took twice as long.
    collectGarbage: collectionOnGrowth({ size: () => heapSize(), collect: () => void fullGC() }),
    collectYoungGarbage: () => void edenGC(),
    locate: (error) => input.copies.locate(error),
    announce: (type, reason, message) => recorder.event(lease, type, reason, message),
  };
}

const growthLimit = 1.25;

/**
 * Collects the whole heap at the first call, and again when it has grown by more than a quarter. Without it the runtime
 * may keep dropped generations; each blocks the event loop, for 40 ms and more at 2,000 nodes.
 */
export function collectionOnGrowth(heap: { size(): number; collect(): void }): () => void {
  /** Smallest size since the last collection: also after a cluster has shrunk the next quarter is noticed. */
  let smallest = 0;
  return () => {
    const size = heap.size();
    smallest = Math.min(smallest, size);
    if (size <= smallest * growthLimit) return;
    heap.collect();
    smallest = heap.size();
  };
}

/** Annotation of the Lease with the hashes of confirmed removals, separated by commas. */
const confirmationAnnotation = "cloud-controller-host/confirmed-removals";

/** A plan waits for it, and is made again later. */
const confirmationLimitMs = 10_000;

/** Reads the confirmations of removals from the Lease of the leader election. */
export function leaseConfirmations(client: Pick<KubeClient, "get">, { metadata }: EventSubject): Confirmations {
  const { name = "", namespace = "" } = metadata ?? {};
  return {
    async isConfirmed(hash) {
      const lease = await client.get(
        kinds.Lease,
        { namespace, name },
        { signal: AbortSignal.timeout(confirmationLimitMs) },
      );
      const hashes = annotationOf(lease, confirmationAnnotation)?.split(",") ?? [];
      return hashes.some((one) => one.trim() === hash);
    },
    command: (hash) =>
      `kubectl annotate lease --namespace=${namespace} ${name} --overwrite ${confirmationAnnotation}=${hash}`,
  };
}
