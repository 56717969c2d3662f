import type { Metrics } from "cloud-controller-host/sdk";

import type { TransportObserver } from "./transport.ts";

const secondsBuckets = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];
const kibi = 1024;
const sizeBuckets = [
  64,
  256,
  512,
  kibi,
  4 * kibi,
  16 * kibi,
  64 * kibi,
  256 * kibi,
  kibi ** 2,
  4 * kibi ** 2,
  16 * kibi ** 2,
];

/** Counts and times every request under client-go's metric names. upstream: component-base `metrics/prometheus/restclient`. */
export function requestMetrics(metrics: Metrics): TransportObserver {
  const { duration, limiter, requestSize, responseSize, requests, retries } = series(metrics);
  return ({ verb, host, stream }) => ({
    rateLimited: (waitMs) => limiter.observe(waitMs / 1000, { verb, host }),
    answered: (code) => requests.inc({ code, method: verb, host }),
    retrying: (code) => retries.inc({ code, verb, host }),
    ended(outcome) {
      // For a watch only the time until its response begins is observed here.
      if (stream) return;
      duration.observe(outcome.durationMs / 1000, { verb, host });
      requestSize.observe(outcome.requestSize, { verb, host });
      if (outcome.responseSize !== undefined) responseSize.observe(outcome.responseSize, { verb, host });
    },
  });
}

function series(metrics: Metrics) {
  const histogram = (name: string, help: string, buckets: readonly number[]) =>
    metrics.histogram<"verb" | "host">({ name: `rest_client_${name}`, help, labels: ["verb", "host"], buckets });
  return {
    duration: histogram("request_duration_seconds", "Request latency in seconds.", secondsBuckets),
    limiter: histogram("rate_limiter_duration_seconds", "Client side rate limiter latency in seconds.", secondsBuckets),
    requestSize: histogram("request_size_bytes", "Request size in bytes.", sizeBuckets),
    responseSize: histogram("response_size_bytes", "Response size in bytes.", sizeBuckets),
    requests: metrics.counter<"code" | "method" | "host">({
      name: "rest_client_requests_total",
      help: "Number of HTTP requests, by status code, method, and host.",
      labels: ["code", "method", "host"],
    }),
    retries: metrics.counter<"code" | "verb" | "host">({
      name: "rest_client_request_retries_total",
      help: "Number of request retries, by status code, verb, and host.",
      labels: ["code", "verb", "host"],
    }),
  };
}
