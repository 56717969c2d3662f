import type { Metrics } from "cloud-controller-host/sdk";

/** Counts connection pools to API servers, one per client name and user. */
export interface ConnectionMetrics {
  /** A connection pool was requested; `known` means cache hit. */
  asked(known: boolean): void;
  closed(count: number): void;
}

/** Names and labels are client-go's, which counts cached transports. upstream: `transport/cache.go`. */
export function connectionMetrics(metrics: Metrics): ConnectionMetrics {
  const entries = metrics.gauge({
    name: "rest_client_transport_cache_entries",
    help: "Number of transport entries in the internal cache.",
  });
  const calls = metrics.counter({
    name: "rest_client_transport_create_calls_total",
    help: "Number of calls to get a new transport, partitioned by the result of the operation hit: obtained from the cache, miss: created and added to the cache.",
    labels: ["result"],
  });
  let held = 0;
  const change = (by: number): void => {
    held += by;
    entries.set(held);
  };
  return {
    asked(known) {
      calls.inc({ result: known ? "hit" : "miss" });
      if (!known) change(1);
    },
    closed: (count) => change(-count),
  };
}
