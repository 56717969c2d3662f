import {
  type Cloud,
  defaultLoadBalancerName,
  type Fence,
  InstanceNotFoundError,
  type Instances,
  keyOf,
  type LoadBalancers,
  type LoadBalancerStatus,
  type Node,
  type NodeAddress,
  type Route,
  type Routes,
} from "cloud-controller-host/sdk";

import type { FolderBackend } from "./backend.ts";

/** One file of `instances/`. */
export interface FolderInstance {
  readonly internalIP: string;
  readonly type?: string;
  readonly zone?: string;
  readonly region?: string;
  readonly shutdown?: boolean;
}

interface FolderLoadBalancer {
  readonly nodes: readonly string[];
  readonly status: LoadBalancerStatus;
}

/** The cloud on a backend. `fence` is checked before each write. */
export function folderCloud(backend: FolderBackend, fence: Pick<Fence, "check">): Cloud {
  return {
    name: "folder",
    hasClusterID: true,
    instances: folderInstances(backend),
    loadBalancers: folderLoadBalancers(backend, fence),
    routes: folderRoutes(backend, fence),
    nodeMasks: {
      nodeMasks(_node, call) {
        call?.signal?.throwIfAborted();
        return Promise.resolve({ ipv4: 24, ipv6: 64 });
      },
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

function folderInstances(backend: FolderBackend): Instances {
  const instanceOf = (node: Node, signal?: AbortSignal): Promise<FolderInstance | undefined> =>
    backend.get<FolderInstance>("instances", keyOf(node), signal);
  return {
    instanceExists: async (node, options) => (await instanceOf(node, options?.signal)) !== undefined,
    async instanceShutdown(node, options) {
      const instance = await instanceOf(node, options?.signal);
      if (instance === undefined) throw new InstanceNotFoundError(keyOf(node));
      return instance.shutdown === true;
    },
    async instanceMetadata(node, options) {
      const instance = await instanceOf(node, options?.signal);
      if (instance === undefined) throw new InstanceNotFoundError(keyOf(node));
      const { internalIP, type = "", zone = "", region = "" } = instance;
      const nodeAddresses: readonly NodeAddress[] = [
        { type: "InternalIP", address: internalIP },
        { type: "Hostname", address: keyOf(node) },
      ];
      return { providerID: `folder://${keyOf(node)}`, instanceType: type, nodeAddresses, zone, region };
    },
  };
}

/** Addresses come from the documentation range 198.51.100.0/24; the number is the first one that is free. */
function freeAddress(existing: Iterable<FolderLoadBalancer>): string {
  const used = new Set([...existing].flatMap(({ status }) => (status.ingress ?? []).map(({ ip }) => ip)));
  for (let number = 1; number < 255; number++) if (!used.has(`198.51.100.${number}`)) return `198.51.100.${number}`;
  throw new RangeError("no load balancer address is free");
}

function folderLoadBalancers(backend: FolderBackend, fence: Pick<Fence, "check">): LoadBalancers {
  const collection = "load-balancers";
  const find = (name: string, signal?: AbortSignal): Promise<FolderLoadBalancer | undefined> =>
    backend.get<FolderLoadBalancer>(collection, name, signal);
  const ensure: LoadBalancers["ensureLoadBalancer"] = async (_clusterName, service, nodes, call) => {
    const name = defaultLoadBalancerName(service);
    const existing = await find(name, call?.signal);
    const names = nodes.map(keyOf).toSorted();
    if (existing !== undefined && existing.nodes.join() === names.join()) return existing.status;
    const all = await backend.list<FolderLoadBalancer>(collection, call?.signal);
    const status = existing?.status ?? { ingress: [{ ip: freeAddress(all.values()) }] };
    fence.check(`write load balancer ${name}`);
    await backend.put(collection, name, { nodes: names, status }, call?.signal);
    return status;
  };
  return {
    loadBalancerName: (_clusterName, service) => defaultLoadBalancerName(service),
    getLoadBalancer: async (_clusterName, service, call) =>
      (await find(defaultLoadBalancerName(service), call?.signal))?.status,
    ensureLoadBalancer: ensure,
    updateLoadBalancer: async (clusterName, service, nodes, call) =>
      void (await ensure(clusterName, service, nodes, call)),
    ensureLoadBalancerDeleted(_clusterName, service, call) {
      const name = defaultLoadBalancerName(service);
      fence.check(`delete load balancer ${name}`);
      return backend.delete(collection, name, call?.signal);
    },
  };
}

function folderRoutes(backend: FolderBackend, fence: Pick<Fence, "check">): Routes {
  return {
    listRoutes: async (_clusterName, call) => [...(await backend.list<Route>("routes", call?.signal)).values()],
    createRoute(clusterName, _nameHint, route, call) {
      const name = `${clusterName}-${route.targetNode}-${route.destinationCIDR}`;
      fence.check(`create route ${name}`);
      return backend.put("routes", name, { ...route, name }, call?.signal);
    },
    deleteRoute(_clusterName, { name }, call) {
      fence.check(`delete route ${name}`);
      return backend.delete("routes", name, call?.signal);
    },
  };
}
