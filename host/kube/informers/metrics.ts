import type { KindRef, Metrics } from "cloud-controller-host/sdk";

const labels = ["name", "group", "version", "resource"] as const;
const latencyBuckets = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** The `informer_*` series of one informer. Names and buckets are client-go's. */
export interface InformerMetrics {
  queued(items: number): void;
  processed(durationMs: number): void;
  stored(version: string): void;
}

export function informerMetrics(metrics: Metrics, name: string, kind: KindRef): InformerMetrics {
  const label = { name, group: kind.group, version: kind.version, resource: kind.plural };
  const queued = metrics.gauge({
    name: "informer_queued_items",
    help: "Number of changes that wait for their handlers",
    labels,
  });
  const version = metrics.gauge({
    name: "informer_store_resource_version",
    help: "Resource version up to which the informer's store is current",
    labels,
  });
  const latency = metrics.histogram({
    name: "informer_processing_latency_seconds",
    help: "Time in seconds to handle one change",
    labels,
    buckets: latencyBuckets,
  });
  return {
    queued: (items) => queued.set(items, label),
    processed: (durationMs) => latency.observe(durationMs / 1000, label),
    stored(text) {
      const value = Number(text);
      if (Number.isFinite(value)) version.set(value, label);
    },
  };
}
