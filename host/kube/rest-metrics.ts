import type { Metrics } from "cloud-controller-host/sdk";

import type { TransportObserver } from "./transport.ts";

const durationBuckets = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];
const kib = 1024;
const mib = 1024 * kib;
const sizeBuckets = [64, 256, 512, kib, 4 * kib, 16 * kib, 64 * kib, 256 * kib, mib, 4 * mib, 16 * mib];

const families = (metrics: Metrics) => ({
  duration: metrics.histogram({
    name: "rest_client_request_duration_seconds",
    help: "Request latency in seconds",
    labels: ["verb", "host"] as const,
    buckets: durationBuckets,
  }),
  rateLimited: metrics.histogram({
    name: "rest_client_rate_limiter_duration_seconds",
    help: "How long in seconds the client-side rate limiter held a request back",
    labels: ["verb", "host"] as const,
    buckets: durationBuckets,
  }),
  requestSize: metrics.histogram({
    name: "rest_client_request_size_bytes",
    help: "Request size in bytes",
    labels: ["verb", "host"] as const,
    buckets: sizeBuckets,
  }),
  responseSize: metrics.histogram({
    name: "rest_client_response_size_bytes",
    help: "Response size in bytes",
    labels: ["verb", "host"] as const,
    buckets: sizeBuckets,
  }),
  requests: metrics.counter({
    name: "rest_client_requests_total",
    help: "Number of HTTP requests, by status code, method and host",
    labels: ["code", "method", "host"] as const,
  }),
  retries: metrics.counter({
    name: "rest_client_request_retries_total",
    help: "Number of request retries, by status code, verb and host",
    labels: ["code", "verb", "host"] as const,
  }),
});

/** Records `rest_client_*` as client-go does: each try is a request; a watch has neither a duration nor a size. */
export function restClientMetrics(metrics: Metrics): TransportObserver {
  const record = families(metrics);
  return ({ verb, host, stream }) => ({
    rateLimited: (waitMs) => record.rateLimited.observe(waitMs / 1000, { verb, host }),
    answered: (code) => record.requests.inc({ code, method: verb, host }),
    retrying: (code) => record.retries.inc({ code, verb, host }),
    ended({ durationMs, requestSize, responseSize }) {
      if (stream) return;
      record.duration.observe(durationMs / 1000, { verb, host });
      record.requestSize.observe(requestSize, { verb, host });
      if (responseSize !== undefined) record.responseSize.observe(responseSize, { verb, host });
    },
  });
}
