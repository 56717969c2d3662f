import type { Counter, Histogram, Metrics } from "cloud-controller-host/sdk";

/** Names, types and buckets are upstream's. */
export interface ServiceMetrics {
  readonly updates: Counter;
  readonly nodeSyncErrors: Counter;
  readonly nodeSyncSeconds: Histogram;
  readonly updateSeconds: Histogram;
}

/** 1, 2, 4 … 16384 seconds. */
const buckets = Array.from({ length: 15 }, (_, power) => 2 ** power);

export function serviceMetrics({ metrics }: { readonly metrics: Metrics }): ServiceMetrics {
  return {
    updates: metrics.counter({
      name: "service_controller_loadbalancer_sync_total",
      help: "Node updates of load balancers.",
    }),
    nodeSyncErrors: metrics.counter({
      name: "service_controller_nodesync_error_total",
      help: "Failed node updates of load balancers.",
    }),
    nodeSyncSeconds: metrics.histogram({
      name: "service_controller_nodesync_latency_seconds",
      help: "Duration of a node sync of all load balancers.",
      buckets,
    }),
    updateSeconds: metrics.histogram({
      name: "service_controller_update_loadbalancer_host_latency_seconds",
      help: "Duration of the node update of one load balancer.",
      buckets,
    }),
  };
}
