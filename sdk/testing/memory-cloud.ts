import type {
  Cloud,
  InstanceMetadata,
  Instances,
  LoadBalancers,
  NodeMasks,
  Route,
  Routes,
  ServiceWarning,
} from "../cloud.ts";
import type { Clock } from "../context.ts";
import { CodedError, InstanceNotFoundError } from "../errors.ts";
import { keyOf, type LoadBalancerStatus, type Service } from "../kinds.ts";
import { type CloudCalls, type CloudScript, cloudScript } from "./cloud-calls.ts";

/** An instance; absent metadata is empty. The provider ID defaults to `<cloud>://<node>`. */
export interface MemoryMachine extends Partial<InstanceMetadata> {
  readonly shutdown?: boolean;
}

/** A load balancer, as the last call for its Service has left it. */
export interface MemoryBalancer {
  readonly name: string;
  readonly clusterName: string;
  /** Names of the nodes behind it. */
  readonly nodes: readonly string[];
  readonly status: LoadBalancerStatus;
}

type Capability = "instances" | "loadBalancers" | "routes" | "nodeMasks";

/** Options of `memoryCloud`. */
export interface MemoryCloudOptions {
  /** Default `memory`. */
  readonly name?: string;
  /** Default true. */
  readonly hasClusterID?: boolean;
  /** Capabilities to omit. */
  readonly without?: readonly Capability[];
  /** Delay of every call, in milliseconds of the clock. Default: none. */
  readonly latency?: { readonly clock: Clock; readonly ms: number };
}

/** An in-memory cloud for tests: its state can be set and read, its calls counted, failed and blocked. */
export interface MemoryCloud extends CloudCalls {
  /** Passed to the controller. */
  readonly cloud: Cloud;
  /** By node name. */
  readonly machines: Map<string, MemoryMachine>;
  /** By Service key. */
  readonly balancers: Map<string, MemoryBalancer>;
  /** By Service key. */
  readonly warnings: Map<string, readonly ServiceWarning[]>;
  /** By route name. */
  readonly routes: Map<string, Route>;
  /** By node name; default 24 and 64. */
  readonly masks: Map<string, { readonly ipv4: number; readonly ipv6: number }>;
  readonly disposed: boolean;
}

/** Creates a cloud with every capability, and without instances, load balancers and routes. */
export function memoryCloud(options: MemoryCloudOptions = {}): MemoryCloud {
  const { name = "memory", hasClusterID = true, without = [], latency } = options;
  const script = cloudScript();
  const state = {
    machines: new Map<string, MemoryMachine>(),
    balancers: new Map<string, MemoryBalancer>(),
    warnings: new Map<string, readonly ServiceWarning[]>(),
    routes: new Map<string, Route>(),
    masks: new Map<string, { readonly ipv4: number; readonly ipv6: number }>(),
  };
  let disposed = false;
  const before = async (signal?: AbortSignal): Promise<void> => {
    if (disposed) throw new CodedError("Disposed", `cloud "${name}" was called after its disposal`);
    if (latency !== undefined) await latency.clock.sleep(latency.ms, signal);
    signal?.throwIfAborted();
  };
  const make: Make = { ...state, script, before, cloudName: name };
  const has = (capability: Capability): boolean => !without.includes(capability);
  const cloud: Cloud = {
    name,
    hasClusterID,
    ...(has("instances") ? { instances: memoryInstances(make) } : {}),
    ...(has("loadBalancers") ? { loadBalancers: memoryBalancers(make) } : {}),
    ...(has("routes") ? { routes: memoryRoutes(make) } : {}),
    ...(has("nodeMasks") ? { nodeMasks: memoryMasks(make) } : {}),
    async [Symbol.asyncDispose]() {
      disposed = true;
    },
  };
  return {
    calls: script.calls,
    callsOf: script.callsOf,
    intercept: script.intercept,
    fail: script.fail,
    hold: script.hold,
    ...state,
    cloud,
    get disposed() {
      return disposed;
    },
  };
}

interface Make extends Pick<MemoryCloud, "machines" | "balancers" | "warnings" | "routes" | "masks"> {
  readonly script: CloudScript;
  readonly cloudName: string;
  /** Runs first in every call: rejects after disposal, adds the latency, rejects when the signal aborts. */
  readonly before: (signal?: AbortSignal) => Promise<void>;
}

function memoryInstances({ machines, script, before, cloudName }: Make): Instances {
  return {
    instanceExists: script.method("instanceExists", keyOf, async (node, read) => {
      await before(read?.signal);
      return machines.has(keyOf(node));
    }),
    instanceShutdown: script.method("instanceShutdown", keyOf, async (node, read) => {
      await before(read?.signal);
      return machines.get(keyOf(node))?.shutdown ?? false;
    }),
    instanceMetadata: script.method("instanceMetadata", keyOf, async (node, read) => {
      await before(read?.signal);
      const machine = machines.get(keyOf(node));
      if (machine === undefined) throw new InstanceNotFoundError();
      const { shutdown: _shutdown, ...fields } = machine;
      const silent = { instanceType: "", nodeAddresses: [], zone: "", region: "" };
      return { providerID: `${cloudName}://${keyOf(node)}`, ...silent, ...fields };
    }),
  };
}

/** upstream: `cloudprovider.DefaultLoadBalancerName`. */
const loadBalancerName = (_clusterName: string, service: Service): string =>
  `a${(service.metadata?.uid ?? keyOf(service)).replaceAll("-", "")}`.slice(0, 32);

const serviceKey = (_clusterName: string, service: Service): string => keyOf(service);

/** Addresses from the documentation range, then from the benchmark range (RFC 5737, RFC 2544), 65,000 in all. */
const addressOf = (given: number): string =>
  given < 255 ? `192.0.2.${given}` : `198.18.${(given >> 8) & 255}.${given & 255}`;

function memoryBalancers({ balancers, warnings, script, before }: Make): LoadBalancers {
  let given = 0;
  return {
    loadBalancerName,
    warnings: (service) => warnings.get(keyOf(service)) ?? [],
    getLoadBalancer: script.method("getLoadBalancer", serviceKey, async (_clusterName, service, call) => {
      await before(call?.signal);
      return balancers.get(keyOf(service))?.status;
    }),
    ensureLoadBalancer: script.method("ensureLoadBalancer", serviceKey, async (clusterName, service, nodes, call) => {
      await before(call?.signal);
      const existing = balancers.get(keyOf(service));
      const status = existing?.status ?? { ingress: [{ ip: addressOf(++given) }] };
      const name = loadBalancerName(clusterName, service);
      balancers.set(keyOf(service), { name, clusterName, nodes: nodes.map(keyOf), status });
      return status;
    }),
    updateLoadBalancer: script.method("updateLoadBalancer", serviceKey, async (clusterName, service, nodes, call) => {
      await before(call?.signal);
      const existing = balancers.get(keyOf(service));
      if (existing === undefined) throw new CodedError("NoLoadBalancer", `${keyOf(service)} has no load balancer`);
      balancers.set(keyOf(service), { ...existing, clusterName, nodes: nodes.map(keyOf) });
    }),
    ensureLoadBalancerDeleted: script.method(
      "ensureLoadBalancerDeleted",
      serviceKey,
      async (_clusterName, service, call) => {
        await before(call?.signal);
        balancers.delete(keyOf(service));
      },
    ),
  };
}

/** A route is named `<cluster>-<node>-<destination>`. Creating one that exists is an error. */
function memoryRoutes({ routes, script, before }: Make): Routes {
  return {
    listRoutes: script.method(
      "listRoutes",
      (clusterName) => clusterName,
      async (_clusterName, call) => {
        await before(call?.signal);
        return [...routes.values()];
      },
    ),
    createRoute: script.method(
      "createRoute",
      (_clusterName, _hint, route) => route.targetNode,
      async (clusterName, _hint, route, call) => {
        await before(call?.signal);
        const name = `${clusterName}-${route.targetNode}-${route.destinationCIDR}`;
        if (routes.has(name)) throw new CodedError("RouteExists", `route "${name}" already exists`);
        routes.set(name, { ...route, name });
      },
    ),
    deleteRoute: script.method(
      "deleteRoute",
      (_clusterName, route) => route.targetNode,
      async (_clusterName, route, call) => {
        await before(call?.signal);
        routes.delete(route.name);
      },
    ),
  };
}

function memoryMasks({ masks, script, before }: Make): NodeMasks {
  return {
    nodeMasks: script.method("nodeMasks", keyOf, async (node, call) => {
      await before(call?.signal);
      return masks.get(keyOf(node)) ?? { ipv4: 24, ipv6: 64 };
    }),
  };
}
