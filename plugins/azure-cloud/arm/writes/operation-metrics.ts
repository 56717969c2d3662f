import type { MetricLabels, Metrics } from "cloud-controller-host/sdk";

const labels = ["request", "resource_group", "subscription_id", "source"] as const;
type Label = (typeof labels)[number];

/** One operation of the provider, which may take any number of ARM calls. */
export interface Operation {
  /** upstream: `routes_create_route`, `services_ensure_loadbalancer`, … */
  readonly request: string;
  readonly resourceGroup: string;
  readonly subscription: string;
  /** The node's name or the Service's `namespace/name`. */
  readonly source: string;
}

/** Runs an operation, observes its duration and counts its failure. */
export type ObserveOperation = <Result>(operation: Operation, work: () => Promise<Result>) => Promise<Result>;

/** The last operations of a Service and of a node's route. */
const last: ReadonlySet<string> = new Set(["services_ensure_loadbalancer_deleted", "routes_delete_route"]);

/**
 * upstream: the metrics of `metrics.NewMetricContext`, under the same names, labels and buckets. The series of a source
 * end with it: upstream keeps those of every Service and node that there has ever been.
 */
export function operationMetrics(metrics: Metrics): ObserveOperation {
  const duration = metrics.histogram<Label>({
    name: "cloudprovider_azure_op_duration_seconds",
    help: "Latency of an Azure service operation",
    labels,
    buckets: [0.1, 0.2, 0.5, 1, 5, 10, 15, 20, 30, 40, 50, 60, 100, 200, 300, 600, 1200],
  });
  const failures = metrics.counter<Label>({
    name: "cloudprovider_azure_op_failure_count",
    help: "Number of failed Azure service operations",
    labels,
  });
  const requests = new Set<string>();
  const measure = async <Result>(values: MetricLabels<Label>, work: () => Promise<Result>): Promise<Result> => {
    const startedMs = performance.now();
    try {
      return await work();
    } catch (error) {
      failures.inc(values);
      throw error;
    } finally {
      duration.observe((performance.now() - startedMs) / 1000, values);
    }
  };
  return async ({ request, resourceGroup, subscription, source }, work) => {
    requests.add(request);
    const values = { request, resource_group: resourceGroup.toLowerCase(), subscription_id: subscription, source };
    const result = await measure(values, work);
    if (last.has(request))
      for (const one of requests)
        for (const metric of [duration, failures]) metric.remove?.({ ...values, request: one });
    return result;
  };
}

/** Times an operation for a Service and counts its failure, under upstream's names without the prefix `services_`. */
export type ObserveService = <Result>(request: string, source: string, work: () => Promise<Result>) => Promise<Result>;

export function serviceOperations(
  metrics: Metrics,
  { resourceGroup, networkSubscription: subscription }: Record<"resourceGroup" | "networkSubscription", string>,
): ObserveService {
  const operations = operationMetrics(metrics);
  return (request, source, work) =>
    operations({ request: `services_${request}`, resourceGroup, subscription, source }, work);
}
