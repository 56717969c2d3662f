import type { Metrics } from "cloud-controller-host/sdk";

/** The sets of connections to API servers, one a client name and user. */
export interface ConnectionMetrics {
  /** Somebody asked for a set; `known`: it was there already. */
  asked(known: boolean): void;
  closed(count: number): void;
}

/** Names and labels are client-go's, whose cached transports these are here. upstream: `transport/cache.go`. */
export function connectionMetrics(metrics: Metrics): ConnectionMetrics {
  const entries = metrics.gauge({
    name: "rest_client_transport_cache_entries",
    help: "Sets of connections to API servers that are held, one a client.",
  });
  const calls = metrics.counter({
    name: "rest_client_transport_create_calls_total",
    help: "How often a set of connections was asked for: hit where it was there already, miss where it was made.",
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
