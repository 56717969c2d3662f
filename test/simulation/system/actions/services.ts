import { isNotFound, kinds, type Service } from "cloud-controller-host/sdk";

import type { Action } from "../history.ts";
import type { World } from "../world.ts";
import { defaultPorts, prefix, type Shape, shapeOf, usersIP, usersPrefix } from "./service-shapes.ts";
import { sharedIPId, sharedShapeOf } from "./shared-shapes.ts";
import { isTheirs } from "./theirs.ts";

export const namespace = "default";
/** So many or, if there are more, as many as at first. */
export const maxServices = 8;
export const mostOf = ({ history }: World): number => Math.max(maxServices, history.services);

/** What users have created before: public IPs, and a prefix that others are created from. */
export function createUsersIPs(world: World): void {
  const { azure, cluster } = world;
  azure.put(usersPrefix, { sku: { name: "Standard" }, properties: { prefixLength: 26, ipPrefix: "20.9.0.0/26" } });
  const own = Array.from(
    { length: mostOf(world) },
    (_, index) => `/providers/Microsoft.Network/publicIPAddresses/${usersIP}s${index}`,
  );
  for (const id of cluster.sharesAddresses ? [...own, sharedIPId] : own)
    azure.put(id, {
      sku: { name: "Standard" },
      properties: { publicIPAllocationMethod: "Static", publicIPAddressVersion: "IPv4" },
    });
}

const drawnShape = (world: World, name: string, pick: number): Shape =>
  world.cluster.sharesAddresses ? sharedShapeOf(world, name, pick) : shapeOf(world, name, pick);

function serviceOf(world: World, name: string, { annotations = {}, spec }: Shape): Service {
  const values: Readonly<Record<string, string>> = {
    "{name}": name,
    "{number}": name.slice(1),
    "{now}": String(Math.floor(world.now)),
    "{prefix}": world.azure.get(usersPrefix)?.id ?? "",
  };
  const valueOf = (value: string): string => value.replaceAll(/\{\w+\}/gu, (word) => values[word] ?? word);
  const named = Object.entries(annotations).map(([key, value]) => [`${prefix}${key}`, valueOf(value)]);
  return {
    metadata: { name, namespace, annotations: Object.fromEntries(named) },
    spec: { type: "LoadBalancer", selector: { app: name }, ports: [...defaultPorts], ...spec },
  };
}

/** Creates a Service with the shape of a number, and with `more`, unless its name is taken. */
export function createAs(world: World, name: string, pick: number, more: Service = {}): void {
  if (world.api.get(kinds.Service, { namespace, name }) !== undefined) return;
  const drawn = drawnShape(world, name, pick);
  const shape = { ...drawn, spec: { ...drawn.spec, ...more.spec } };
  world.note("user", `creates ${name} as ${JSON.stringify(shape)}`);
  const { metadata, ...service } = serviceOf(world, name, shape);
  const annotations = { ...metadata?.annotations, ...more.metadata?.annotations };
  world.api.create(kinds.Service, { ...service, metadata: { ...metadata, ...more.metadata, annotations } });
}

function remove(world: World, name: string): void {
  world.note("user", `deletes ${name}`);
  world.api.delete(kinds.Service, { namespace, name });
}

/** Services that are not being deleted. */
export const living = (world: World): readonly Service[] =>
  world.services().filter(({ metadata }) => metadata?.deletionTimestamp === undefined);

function chosen(world: World, pick: number): Service | undefined {
  const services = living(world);
  return services[pick % Math.max(1, services.length)];
}

export const nameOf = ({ metadata }: Service): string => metadata?.name ?? "";

export function createService(world: World, { pick }: Pick<Action, "pick">): void {
  const most = mostOf(world);
  createAs(world, `s${pick % most}`, Math.floor(pick / most));
}

export function changeService(world: World, { pick }: Action): void {
  const service = chosen(world, pick);
  if (service === undefined) return;
  const shape = drawnShape(world, nameOf(service), Math.floor(pick / 7));
  const wanted = serviceOf(world, nameOf(service), shape);
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
  loadBalancerIP: _ip,
  ...spec
}: NonNullable<Service["spec"]> = {}) => ({
  ...spec,
  externalTrafficPolicy: "Cluster" as const,
  sessionAffinity: "None" as const,
});

/** A user changes a Service, and takes the change back. */
export function revertService(world: World, action: Action): void {
  const before = chosen(world, action.pick);
  // A mark that has gone does not come back: the product serves the Service by then.
  if (before === undefined || isTheirs(before)) return;
  const at = { namespace, name: nameOf(before) };
  // The API server allocates these again.
  const { clusterIPs: _ips, healthCheckNodePort: _port, ...spec } = before.spec ?? {};
  changeService(world, action);
  world.after(action.forMs * 0.2, () => {
    const current = world.api.get(kinds.Service, at);
    if (current === undefined || current.metadata?.uid !== before.metadata?.uid) return;
    if (current.metadata?.deletionTimestamp !== undefined || current.spec?.type !== before.spec?.type) return;
    // It went to another deployment by way of another type: a class does not change.
    if (current.spec?.loadBalancerClass !== before.spec?.loadBalancerClass) return;
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
    else createAs(world, name, Math.floor(pick / 5));
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
    createAs(world, name, Math.floor(pick / 5));
  });
}

/** Pods of a Service go to other nodes, some of them perhaps back to where they were. */
export function movePods(world: World, { pick, forMs }: Action): void {
  const service = chosen(world, pick);
  if (service !== undefined) world.endpoints?.roll(service, forMs);
}

/** To ClusterIP; most of them back after a while. */
export function flipService(world: World, { pick, forMs }: Action): void {
  const service = chosen(world, pick);
  if (service === undefined) return;
  const name = nameOf(service);
  retype(world, name, "ClusterIP");
  if (pick % 3 > 0) world.after(forMs, () => retype(world, name, "LoadBalancer"));
}

/** Changes the type of a Service that is not being deleted, and what else goes with it. */
export function retype(world: World, name: string, type: "ClusterIP" | "LoadBalancer", more: Shape["spec"] = {}): void {
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
      return { ...before, spec: { ...rest, type, ...more } };
    });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}
