import type { Cloud, Metrics } from "cloud-controller-host/sdk";

import type { ControllerFence } from "../scope/fence.ts";
import { interceptCloud } from "./intercept-cloud.ts";

const buckets = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/**
 * Wraps any cloud: times and counts each call, and asks the fence before each method that writes. The cloud's own
 * pipeline asks it again for every request.
 */
export function decorateCloud(cloud: Cloud, fence: ControllerFence, metrics: Metrics): Cloud {
  const seconds = metrics.histogram<"method" | "result">({
    name: "cloud_provider_call_duration_seconds",
    help: "Duration of calls that controllers made to the cloud, by method and result.",
    labels: ["method", "result"],
    buckets,
  });
  const observe = async <T>(method: string, call: () => Promise<T>): Promise<T> => {
    const started = performance.now();
    let result = "error";
    try {
      const value = await call();
      result = "success";
      return value;
    } finally {
      seconds.observe((performance.now() - started) / 1000, { method, result });
    }
  };
  return interceptCloud(cloud, {
    read: observe,
    write: (method, call) => observe(method, () => fence.cloudWrite(`cloud call ${method}`, call)),
  });
}
