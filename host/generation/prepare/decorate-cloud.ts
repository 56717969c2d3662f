import type { Cloud, LoadBalancers, Metrics, Routes } from "cloud-controller-host/sdk";

import type { ControllerFence } from "../scope/fence.ts";

type Observe = <T>(method: string, call: () => Promise<T>) => Promise<T>;

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
  const observe: Observe = async (method, call) => {
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
  const { instances, loadBalancers, routes, nodeMasks } = cloud;
  return {
    name: cloud.name,
    hasClusterID: cloud.hasClusterID,
    ...(instances && {
      instances: {
        instanceExists: (...given) => observe("instanceExists", () => instances.instanceExists(...given)),
        instanceShutdown: (...given) => observe("instanceShutdown", () => instances.instanceShutdown(...given)),
        instanceMetadata: (...given) => observe("instanceMetadata", () => instances.instanceMetadata(...given)),
      },
    }),
    ...(loadBalancers && { loadBalancers: fencedLoadBalancers(loadBalancers, fence, observe) }),
    ...(routes && { routes: fencedRoutes(routes, fence, observe) }),
    ...(nodeMasks && {
      nodeMasks: { nodeMasks: (...given) => observe("nodeMasks", () => nodeMasks.nodeMasks(...given)) },
    }),
    ...(cloud.run && { run: (signal) => cloud.run?.(signal) ?? Promise.resolve() }),
    [Symbol.asyncDispose]: () => cloud[Symbol.asyncDispose](),
  };
}

const writing =
  (fence: ControllerFence, observe: Observe): Observe =>
  (method, call) =>
    observe(method, () => fence.cloudWrite(`cloud call ${method}`, call));

function fencedLoadBalancers(inner: LoadBalancers, fence: ControllerFence, observe: Observe): LoadBalancers {
  const write = writing(fence, observe);
  const updateMany = inner.updateLoadBalancers?.bind(inner);
  const warnings = inner.warnings?.bind(inner);
  const watch = inner.watch?.bind(inner);
  const leaveLoadBalancer = inner.leaveLoadBalancer?.bind(inner);
  return {
    loadBalancerName: (...given) => inner.loadBalancerName(...given),
    getLoadBalancer: (...given) => observe("getLoadBalancer", () => inner.getLoadBalancer(...given)),
    ensureLoadBalancer: (...given) => write("ensureLoadBalancer", () => inner.ensureLoadBalancer(...given)),
    updateLoadBalancer: (...given) => write("updateLoadBalancer", () => inner.updateLoadBalancer(...given)),
    ensureLoadBalancerDeleted: (...given) =>
      write("ensureLoadBalancerDeleted", () => inner.ensureLoadBalancerDeleted(...given)),
    ...(updateMany && {
      updateLoadBalancers: (...given) => write("updateLoadBalancers", () => updateMany(...given)),
    }),
    ...(warnings && { warnings }),
    ...(watch && { watch }),
    ...(leaveLoadBalancer && { leaveLoadBalancer }),
  };
}

function fencedRoutes(inner: Routes, fence: ControllerFence, observe: Observe): Routes {
  const write = writing(fence, observe);
  return {
    listRoutes: (...given) => observe("listRoutes", () => inner.listRoutes(...given)),
    createRoute: (...given) => write("createRoute", () => inner.createRoute(...given)),
    deleteRoute: (...given) => write("deleteRoute", () => inner.deleteRoute(...given)),
  };
}
