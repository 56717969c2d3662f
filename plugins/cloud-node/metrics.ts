import type { Histogram, Metrics } from "cloud-controller-host/sdk";

/** How long new nodes wait for the cloud, in seconds since their creation. Names and buckets are upstream's. */
export interface DelayMetrics {
  /** Until the taint is off, so that pods may be scheduled. */
  readonly taintRemoved: Histogram;
  /** Until the addresses have been written (or tried) as well. */
  readonly synced: Histogram;
}

const buckets = [1, 4, 16, 64, 256, 1024];

export function delayMetrics({ metrics }: { readonly metrics: Metrics }): DelayMetrics {
  return {
    taintRemoved: metrics.histogram({
      name: "node_controller_cloud_provider_taint_removal_delay_seconds",
      help: "Number of seconds after node creation when NodeController removed the cloud-provider taint of a single node.",
      buckets,
    }),
    synced: metrics.histogram({
      name: "node_controller_initial_node_sync_delay_seconds",
      help: "Number of seconds after node creation when NodeController finished the initial synchronization of a single node.",
      buckets,
    }),
  };
}
