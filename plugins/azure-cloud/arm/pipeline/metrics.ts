import type { PipelinePolicy, PipelineRequest } from "@azure/core-rest-pipeline";
import { CodedError, type Metrics } from "cloud-controller-host/sdk";

import { ArmError } from "../errors.ts";
import { methodWord, resourceWord, targetOf } from "./target.ts";

const labels = ["subscription_id", "resource_group", "resource", "method"] as const;
type Label = (typeof labels)[number];

/** Upstream's metrics of ARM calls, under the names of its OpenTelemetry exporter. */
export interface ArmMetrics {
  /** Times each call, its retries included, and counts those that failed. */
  readonly policy: PipelinePolicy;
  /** A request was delayed or refused before it was sent. */
  held(request: PipelineRequest): void;
  /** ARM replied with 429. */
  throttled(request: PipelineRequest): void;
}

export function armMetrics(metrics: Metrics): ArmMetrics {
  const duration = metrics.histogram<Label>({
    name: "arm_request_duration_seconds",
    help: "Duration of calls to Azure Resource Manager, retries included.",
    labels,
    buckets: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 300, 600],
  });
  const errors = metrics.counter<Label | "status_code" | "error_code">({
    name: "arm_request_errors_counter_total",
    help: "Calls to Azure Resource Manager that failed.",
    labels: [...labels, "status_code", "error_code"],
  });
  const held = metrics.counter<Label>({
    name: "arm_request_rate_limit_counter_total",
    help: "Requests held back or refused here to keep within Azure's limits.",
    labels,
  });
  const throttled = metrics.counter<Label>({
    name: "arm_request_throttle_counter_total",
    help: "Requests that Azure Resource Manager answered with 429.",
    labels,
  });
  return {
    held: (request) => held.inc(labelsOf(request)),
    throttled: (request) => throttled.inc(labelsOf(request)),
    policy: {
      name: "metrics",
      async sendRequest(request, next) {
        const startedMs = performance.now();
        const called = labelsOf(request);
        try {
          return await next(request);
        } catch (error) {
          errors.inc({ ...called, ...failureOf(error) });
          throw error;
        } finally {
          duration.observe((performance.now() - startedMs) / 1000, called);
        }
      },
    },
  };
}

function labelsOf(request: PipelineRequest): Readonly<Record<Label, string>> {
  const target = targetOf(request.url);
  return {
    subscription_id: target.subscription,
    resource_group: target.resourceGroup,
    resource: resourceWord(target),
    method: methodWord(request.method, target),
  };
}

const failureOf = (error: unknown): { readonly status_code: string; readonly error_code: string } => ({
  status_code: error instanceof ArmError ? String(error.status) : "",
  error_code: error instanceof CodedError ? error.code : "",
});
