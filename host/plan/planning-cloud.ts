import type { Cloud, CloudPlugin, LoadBalancers, Routes } from "cloud-controller-host/sdk";
import { keyOf } from "cloud-controller-host/sdk";

import type { Activity } from "./activity.ts";
import type { RecordedWrites } from "./recorded.ts";

interface Parts {
  readonly writes: RecordedWrites;
  readonly activity: Activity;
  cloud?: Cloud;
}

/** The cloud plugin for a plan: its calls count as activity, and its writes are recorded. */
export function planningPlugin(plugin: CloudPlugin, parts: Parts): CloudPlugin {
  return {
    ...plugin,
    bind(document, environment) {
      const decoded = plugin.bind(document, environment);
      if (!decoded.ok) return decoded;
      return {
        ...decoded,
        value: async (context) => {
          const cloud = await decoded.value(plugin.plans ? { ...context, planning: parts.writes } : context);
          parts.cloud = cloud;
          return observed(cloud, plugin.plans, parts);
        },
      };
    },
  };
}

/** Counts every call. Calls that would write are listed and not made where the cloud cannot plan them itself. */
function observed(cloud: Cloud, plans: boolean, { writes, activity }: Parts): Cloud {
  const track = <T>(call: () => Promise<T>): Promise<T> => activity.track(call);
  const write = <T>(method: string, subject: string, instead: T, call: () => Promise<T>): Promise<T> => {
    if (plans) return track(call);
    writes.call(method, subject);
    return Promise.resolve(instead);
  };
  const { instances, loadBalancers, routes, nodeMasks } = cloud;
  return {
    name: cloud.name,
    hasClusterID: cloud.hasClusterID,
    ...(instances && {
      instances: {
        instanceExists: (...given) => track(() => instances.instanceExists(...given)),
        instanceShutdown: (...given) => track(() => instances.instanceShutdown(...given)),
        instanceMetadata: (...given) => track(() => instances.instanceMetadata(...given)),
      },
    }),
    ...(loadBalancers && { loadBalancers: observedBalancers(loadBalancers, track, write) }),
    ...(routes && { routes: observedRoutes(routes, track, write) }),
    ...(nodeMasks && { nodeMasks: { nodeMasks: (...given) => track(() => nodeMasks.nodeMasks(...given)) } }),
    ...(cloud.run && { run: (signal) => cloud.run?.(signal) ?? Promise.resolve() }),
    [Symbol.asyncDispose]: () => cloud[Symbol.asyncDispose](),
  };
}

type Track = <T>(call: () => Promise<T>) => Promise<T>;
type Write = <T>(method: string, subject: string, instead: T, call: () => Promise<T>) => Promise<T>;

function observedBalancers(inner: LoadBalancers, track: Track, write: Write): LoadBalancers {
  const updateMany = inner.updateLoadBalancers?.bind(inner);
  const warnings = inner.warnings?.bind(inner);
  const watch = inner.watch?.bind(inner);
  const leaveLoadBalancer = inner.leaveLoadBalancer?.bind(inner);
  return {
    ...(warnings && { warnings }),
    ...(watch && { watch }),
    ...(leaveLoadBalancer && { leaveLoadBalancer }),
    loadBalancerName: (...given) => inner.loadBalancerName(...given),
    getLoadBalancer: (...given) => track(() => inner.getLoadBalancer(...given)),
    ensureLoadBalancer: (...given) =>
      write("ensureLoadBalancer", keyOf(given[1]), given[1].status?.loadBalancer ?? {}, () =>
        inner.ensureLoadBalancer(...given),
      ),
    updateLoadBalancer: (...given) =>
      write("updateLoadBalancer", keyOf(given[1]), undefined, () => inner.updateLoadBalancer(...given)),
    ensureLoadBalancerDeleted: (...given) =>
      write("ensureLoadBalancerDeleted", keyOf(given[1]), undefined, () => inner.ensureLoadBalancerDeleted(...given)),
    ...(updateMany && {
      updateLoadBalancers: (...given) => {
        const done: readonly PromiseSettledResult<void>[] = given[1].map(() => ({
          status: "fulfilled",
          value: undefined,
        }));
        return write("updateLoadBalancers", given[1].map(keyOf).join(", "), done, () => updateMany(...given));
      },
    }),
  };
}

const observedRoutes = (inner: Routes, track: Track, write: Write): Routes => ({
  listRoutes: (...given) => track(() => inner.listRoutes(...given)),
  createRoute: (...given) =>
    write("createRoute", `${given[2].destinationCIDR} to ${given[2].targetNode}`, undefined, () =>
      inner.createRoute(...given),
    ),
  deleteRoute: (...given) => write("deleteRoute", given[1].name, undefined, () => inner.deleteRoute(...given)),
});
