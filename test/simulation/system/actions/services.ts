import { isNotFound, kinds, type Service } from "cloud-controller-host/sdk";

import type { Action } from "../history.ts";
import type { World } from "../world.ts";

const prefix = "service.beta.kubernetes.io/";
const namespace = "default";
const maxServices = 8;

interface Shape {
  readonly annotations?: Readonly<Record<string, string>>;
  readonly spec?: Partial<NonNullable<Service["spec"]>>;
}

const tcp = (port: number) => ({ name: `tcp-${port}`, protocol: "TCP" as const, port });

/** Start of the names of the public IPs that users have created for Services of theirs. */
export const usersIP = "foreign-of-";

export function createUsersIPs({ azure }: World): void {
  for (let index = 0; index < maxServices; index += 1)
    azure.put(`/providers/Microsoft.Network/publicIPAddresses/${usersIP}s${index}`, {
      sku: { name: "Standard" },
      properties: { publicIPAllocationMethod: "Static", publicIPAddressVersion: "IPv4" },
    });
}

/** What users ask for. The last one is refused, and its user must hear of it. */
const shapes: readonly Shape[] = [
  {},
  {},
  { spec: { ports: [tcp(80), tcp(443)] } },
  { spec: { ports: [tcp(80), { name: "dns", protocol: "UDP", port: 53 }] } },
  { spec: { loadBalancerSourceRanges: ["192.0.2.0/24"] } },
  { spec: { externalTrafficPolicy: "Local" } },
  { spec: { sessionAffinity: "ClientIP" } },
  { annotations: { "azure-load-balancer-internal": "true" } },
  { annotations: { "azure-pip-tags": "team=network" } },
  { annotations: { "azure-load-balancer-tcp-idle-timeout": "10" } },
  { annotations: { "azure-pip-name": usersIP } },
  { annotations: { "azure-allowed-ip-ranges": "198.51.100.0/24" } },
  { annotations: { "azure-load-balancer-health-probe-interval": "10" } },
  { annotations: { "azure-load-balancer-internal": "true", "azure-pls-create": "true" } },
  { annotations: { "azure-load-balancer-tcp-idle-timeout": "1" } },
];

export const isRefused = ({ metadata }: Service): boolean =>
  metadata?.annotations?.[`${prefix}azure-load-balancer-tcp-idle-timeout`] === "1";

/** What a Service asks for that is of IPv4 only. */
const isIPv4Only = ({ annotations = {}, spec = {} }: Shape): boolean =>
  spec.loadBalancerSourceRanges !== undefined ||
  ["azure-pip-name", "azure-allowed-ip-ranges", "azure-pls-create"].some((key) => key in annotations);

/** Of a dual-stack cluster: every fourth Service has IPv6 alone, the others IPv4 or both. The first family stays. */
function families(name: string, shape: Shape, isDual: boolean): Shape["spec"] {
  if (Number(name.slice(1)) % 4 === 3) return { ipFamilyPolicy: "SingleStack", ipFamilies: ["IPv6"] };
  if (isIPv4Only(shape) || !isDual) return { ipFamilyPolicy: "SingleStack", ipFamilies: ["IPv4"] };
  return { ipFamilyPolicy: "RequireDualStack", ipFamilies: ["IPv4", "IPv6"] };
}

/** The shape in a cluster: without what only another one has. */
function shapeOf({ cluster }: World, name: string, pick: number): Shape {
  const shape = shapes[pick % shapes.length] ?? {};
  // On one of several load balancers, it would have the nodes of its endpoints alone.
  if (cluster.scaleSets.length > 1 && shape.spec?.externalTrafficPolicy === "Local") return {};
  if (!cluster.dualStack) return shape;
  const spec = families(name, shape, Math.floor(pick / shapes.length) % 2 === 0);
  const isIPv6 = spec?.ipFamilies?.[0] === "IPv6";
  return isIPv6 && isIPv4Only(shape) ? { spec } : { ...shape, spec: { ...shape.spec, ...spec } };
}

function serviceOf(name: string, { annotations = {}, spec }: Shape): Service {
  const valueOf = (value: string): string => (value === usersIP ? `${usersIP}${name}` : value);
  const named = Object.entries(annotations).map(([key, value]) => [`${prefix}${key}`, valueOf(value)]);
  return {
    metadata: { name, namespace, annotations: Object.fromEntries(named) },
    spec: { type: "LoadBalancer", selector: { app: name }, ports: [tcp(80)], ...spec },
  };
}

function create(world: World, name: string, pick: number): void {
  if (world.api.get(kinds.Service, { namespace, name }) !== undefined) return;
  const shape = shapeOf(world, name, pick);
  world.note("user", `creates ${name} as ${JSON.stringify(shape)}`);
  world.api.create(kinds.Service, serviceOf(name, shape));
}

function remove(world: World, name: string): void {
  world.note("user", `deletes ${name}`);
  world.api.delete(kinds.Service, { namespace, name });
}

/** A Service that is not being deleted. */
function chosen(world: World, pick: number): Service | undefined {
  const living = world.services().filter(({ metadata }) => metadata?.deletionTimestamp === undefined);
  return living[pick % Math.max(1, living.length)];
}

const nameOf = ({ metadata }: Service): string => metadata?.name ?? "";

export function createService(world: World, { pick }: Pick<Action, "pick">): void {
  create(world, `s${pick % maxServices}`, Math.floor(pick / maxServices));
}

export function changeService(world: World, { pick }: Action): void {
  const service = chosen(world, pick);
  if (service === undefined) return;
  const shape = shapeOf(world, nameOf(service), Math.floor(pick / 7));
  const wanted = serviceOf(nameOf(service), shape);
  world.note("user", `changes ${nameOf(service)} to ${JSON.stringify(shape)}`);
  world.api.update(kinds.Service, { namespace, name: nameOf(service) }, (before) => ({
    ...before,
    metadata: { ...before.metadata, annotations: wanted.metadata?.annotations ?? {} },
    spec: { ...changeable(before.spec), ...wanted.spec },
  }));
}

/** What a change keeps of a spec: users that apply a manifest leave out the rest. */
const changeable = ({
  loadBalancerSourceRanges: _ranges,
  healthCheckNodePort: _port,
  clusterIPs: _ips,
  ...spec
}: NonNullable<Service["spec"]> = {}) => ({
  ...spec,
  externalTrafficPolicy: "Cluster" as const,
  sessionAffinity: "None" as const,
});

/** A user changes a Service, and takes the change back. */
export function revertService(world: World, action: Action): void {
  const before = chosen(world, action.pick);
  if (before === undefined) return;
  const at = { namespace, name: nameOf(before) };
  // The API server allocates these again.
  const { clusterIPs: _ips, healthCheckNodePort: _port, ...spec } = before.spec ?? {};
  changeService(world, action);
  world.after(action.forMs * 0.2, () => {
    const current = world.api.get(kinds.Service, at);
    if (current === undefined || current.metadata?.uid !== before.metadata?.uid) return;
    if (current.metadata?.deletionTimestamp !== undefined || current.spec?.type !== before.spec?.type) return;
    world.note("user", `takes back the change of ${at.name}`);
    world.api.update(kinds.Service, at, (now) => ({
      ...now,
      metadata: { ...now.metadata, annotations: before.metadata?.annotations ?? {} },
      spec,
    }));
  });
}

export function deleteService(world: World, { pick }: Action): void {
  const service = chosen(world, pick);
  if (service !== undefined) remove(world, nameOf(service));
}

/** Deletes a Service and creates another one under its name as soon as that is free. */
export function recreateService(world: World, { pick }: Action): void {
  const service = chosen(world, pick);
  if (service === undefined) return;
  const name = nameOf(service);
  remove(world, name);
  const again = (): void => {
    if (world.api.get(kinds.Service, { namespace, name }) !== undefined) world.after(200, again);
    else create(world, name, Math.floor(pick / 5));
  };
  again();
}

/**
 * Deletes a Service, and removes its finalizers before its load balancer is gone, as people do who are tired of waiting.
 * Another one has its name at once. A process that loses its Lease or its generation leaves what the first one had: the
 * world forgives that, and nothing else.
 */
export function forceDelete(world: World, { pick, forMs }: Action): void {
  const service = chosen(world, pick);
  if (service === undefined) return;
  const name = nameOf(service);
  world.abandoned.push({ service, at: world.now });
  remove(world, name);
  world.after(forMs * 0.02, () => {
    const current = world.api.get(kinds.Service, { namespace, name });
    if (current !== undefined && current.metadata?.uid !== service.metadata?.uid) return;
    world.note("user", `removes the finalizers of ${name}`);
    if (current !== undefined)
      world.api.update(kinds.Service, { namespace, name }, ({ metadata, ...rest }) => ({
        ...rest,
        metadata: { ...metadata, finalizers: [] },
      }));
    create(world, name, Math.floor(pick / 5));
  });
}

/** To ClusterIP; most of them back after a while. */
export function flipService(world: World, { pick, forMs }: Action): void {
  const service = chosen(world, pick);
  if (service === undefined) return;
  const name = nameOf(service);
  const become = (type: "ClusterIP" | "LoadBalancer"): void => {
    if (world.api.get(kinds.Service, { namespace, name })?.metadata?.deletionTimestamp !== undefined) return;
    world.note("user", `makes ${name} a ${type}`);
    try {
      world.api.update(kinds.Service, { namespace, name }, ({ spec, ...before }) => {
        const {
          loadBalancerSourceRanges: _ranges,
          externalTrafficPolicy: _policy,
          healthCheckNodePort: _port,
          allocateLoadBalancerNodePorts: _ports,
          ...rest
        } = spec ?? {};
        return { ...before, spec: { ...rest, type } };
      });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  };
  become("ClusterIP");
  if (pick % 3 > 0) world.after(forMs, () => become("LoadBalancer"));
}
