import { type Cloud, keyOf, type LoadBalancers, type Routes } from "cloud-controller-host/sdk";

/** Interceptors around each call of a cloud. */
export interface Interceptors {
  readonly read: <T>(method: string, call: () => Promise<T>) => Promise<T>;
  /** `subject` is what the call is about, and `instead` a result for one that is not made. */
  readonly write: <T>(method: string, call: () => Promise<T>, subject: string, instead: T) => Promise<T>;
}

/** The same cloud, with every call made by an interceptor. */
export function interceptCloud(cloud: Cloud, interceptors: Interceptors): Cloud {
  const { read } = interceptors;
  const { instances, loadBalancers, routes, nodeMasks } = cloud;
  return {
    name: cloud.name,
    hasClusterID: cloud.hasClusterID,
    ...(instances && {
      instances: {
        instanceExists: (...given) => read("instanceExists", () => instances.instanceExists(...given)),
        instanceShutdown: (...given) => read("instanceShutdown", () => instances.instanceShutdown(...given)),
        instanceMetadata: (...given) => read("instanceMetadata", () => instances.instanceMetadata(...given)),
      },
    }),
    ...(loadBalancers && { loadBalancers: interceptBalancers(loadBalancers, interceptors) }),
    ...(routes && { routes: interceptRoutes(routes, interceptors) }),
    ...(nodeMasks && {
      nodeMasks: { nodeMasks: (...given) => read("nodeMasks", () => nodeMasks.nodeMasks(...given)) },
    }),
    ...(cloud.run && { run: (signal) => cloud.run?.(signal) ?? Promise.resolve() }),
    [Symbol.asyncDispose]: () => cloud[Symbol.asyncDispose](),
  };
}

function interceptBalancers(inner: LoadBalancers, { read, write }: Interceptors): LoadBalancers {
  const updateMany = inner.updateLoadBalancers?.bind(inner);
  const warnings = inner.warnings?.bind(inner);
  const watch = inner.watch?.bind(inner);
  const leaveLoadBalancer = inner.leaveLoadBalancer?.bind(inner);
  return {
    ...(warnings && { warnings }),
    ...(watch && { watch }),
    ...(leaveLoadBalancer && { leaveLoadBalancer }),
    loadBalancerName: (...given) => inner.loadBalancerName(...given),
    getLoadBalancer: (...given) => read("getLoadBalancer", () => inner.getLoadBalancer(...given)),
    ensureLoadBalancer(...given) {
      const [, service] = given;
      const call = () => inner.ensureLoadBalancer(...given);
      return write("ensureLoadBalancer", call, keyOf(service), service.status?.loadBalancer ?? {});
    },
    updateLoadBalancer: (...given) =>
      write("updateLoadBalancer", () => inner.updateLoadBalancer(...given), keyOf(given[1]), undefined),
    ensureLoadBalancerDeleted: (...given) =>
      write("ensureLoadBalancerDeleted", () => inner.ensureLoadBalancerDeleted(...given), keyOf(given[1]), undefined),
    ...(updateMany && {
      updateLoadBalancers(...given) {
        const [, services] = given;
        const done: readonly PromiseSettledResult<void>[] = services.map(() => ({
          status: "fulfilled",
          value: undefined,
        }));
        return write("updateLoadBalancers", () => updateMany(...given), services.map(keyOf).join(", "), done);
      },
    }),
  };
}

const interceptRoutes = (inner: Routes, { read, write }: Interceptors): Routes => ({
  listRoutes: (...given) => read("listRoutes", () => inner.listRoutes(...given)),
  createRoute(...given) {
    const [, , { destinationCIDR, targetNode }] = given;
    return write("createRoute", () => inner.createRoute(...given), `${destinationCIDR} to ${targetNode}`, undefined);
  },
  deleteRoute: (...given) => write("deleteRoute", () => inner.deleteRoute(...given), given[1].name, undefined),
});
