import { expect, test } from "bun:test";

import type { ControllerPlugin, Metrics } from "cloud-controller-host/sdk";
import { eventually, memoryCloud } from "cloud-controller-host/sdk/testing";

import { defaultOptions } from "../../host/config/flags/options.ts";
import { complete } from "../../host/config/validate/complete.ts";
import nodeIpam from "../../plugins/azure-node-ipam/plugin.ts";
import cloudNode from "../../plugins/cloud-node/plugin.ts";
import route from "../../plugins/route/plugin.ts";
import serviceLb from "../../plugins/service-lb/plugin.ts";
import { TestCluster } from "../kit/harness.ts";

interface Family {
  readonly type: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  readonly buckets?: readonly number[];
}

const counter = (...labels: readonly string[]): Family => ({ type: "counter", labels });
const gauge = (...labels: readonly string[]): Family => ({ type: "gauge", labels });
const histogram = (buckets: readonly number[], ...labels: readonly string[]): Family => ({
  type: "histogram",
  labels,
  buckets,
});

const nodeSeconds = [1, 4, 16, 64, 256, 1024];
const serviceSeconds = Array.from({ length: 15 }, (_, power) => 2 ** power);

/** Metrics of controllers that dashboards for the Go binaries query. */
const upstream: readonly (readonly [ControllerPlugin, Readonly<Record<string, Family>>])[] = [
  [
    cloudNode,
    {
      node_controller_cloud_provider_taint_removal_delay_seconds: histogram(nodeSeconds),
      node_controller_initial_node_sync_delay_seconds: histogram(nodeSeconds),
    },
  ],
  [
    serviceLb,
    {
      service_controller_loadbalancer_sync_total: counter(),
      service_controller_nodesync_error_total: counter(),
      service_controller_nodesync_latency_seconds: histogram(serviceSeconds),
      service_controller_update_loadbalancer_host_latency_seconds: histogram(serviceSeconds),
    },
  ],
  [route, { route_controller_route_sync_total: counter() }],
  [
    nodeIpam,
    {
      node_ipam_controller_cidrset_cidrs_allocations_total: counter("clusterCIDR"),
      node_ipam_controller_cidrset_cidrs_releases_total: counter("clusterCIDR"),
      node_ipam_controller_cidrset_usage_cidrs: gauge("clusterCIDR"),
      node_ipam_controller_cidrset_allocation_tries_per_request: histogram([1, 5, 25, 125, 625], "clusterCIDR"),
      node_ipam_controller_rate_limiter_use: gauge(),
    },
  ],
];

/** Records every metric that is requested. */
function track(metrics: Metrics, requested: Map<string, Family>): Metrics {
  return {
    counter(spec) {
      requested.set(spec.name, counter(...(spec.labels ?? [])));
      return metrics.counter(spec);
    },
    gauge(spec) {
      requested.set(spec.name, gauge(...(spec.labels ?? [])));
      return metrics.gauge(spec);
    },
    histogram(spec) {
      requested.set(spec.name, histogram(spec.buckets, ...(spec.labels ?? [])));
      return metrics.histogram(spec);
    },
  };
}

test.each(upstream.map(([plugin, families]) => [plugin.name, plugin, families] as const))(
  "%s has upstream's metrics under their names, with their types, labels and buckets",
  async (_name, plugin, families) => {
    await using cluster = await TestCluster.start();
    const generation = cluster.generation(plugin);
    const { context, signal } = generation;
    const requested = new Map<string, Family>();
    const bound = plugin.bind(undefined);
    if (!bound.ok) throw new Error(bound.problems.join("; "));
    const config = complete({ ...defaultOptions, clusterCidr: "10.244.0.0/16", allocateNodeCidrs: true });
    const controller = await bound.value(
      config,
      memoryCloud().cloud,
    )({ ...context, metrics: track(context.metrics, requested) });
    if (!("run" in controller)) throw new Error(controller.skipped);
    await generation.synced();
    const ended = controller.run(signal);
    await eventually("its metrics are there", () => Object.keys(families).every((name) => requested.has(name)));
    generation.abort();
    await ended;
    expect(Object.fromEntries(requested)).toMatchObject(families);
  },
);
