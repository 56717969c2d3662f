import { keyOf, kinds, type Service } from "cloud-controller-host/sdk";

import { type JsonObject, objectAt, objectsAt, stringAt } from "../../../../plugins/azure-cloud/json.ts";
import { isExcluded } from "../actions/nodes.ts";
import { usersIP } from "../actions/service-shapes.ts";
import { isTheirs } from "../actions/theirs.ts";
import { isOfType, nameOf, propertiesOf } from "../azure-view.ts";
import { addressOwners, ownedParts } from "../owned-parts.ts";
import type { World } from "../world.ts";
import { annotationOf } from "./wishes.ts";

/**
 * Chosen by Azure, or by the order in which things happened; and what stays when a Service asks for it no more, as upstream:
 * tags of annotations and configs, and an internal address that it has named.
 */
const ignored =
  /^(?:etag|provisioningState|resourceGuid|ipAddress|privateIPAddress|privateIPAllocationMethod|priority|visibility|alias|team|calm|ipTags)$/u;
const scaleSets = "virtualmachinescalesets";
const links = "privatelinkservices";
const builtTypes = new Set(["loadbalancers", "publicipaddresses", links, scaleSets]);

/** Key of the Service of a private link service. */
const ownerOf = (link: JsonObject): string | undefined => stringAt(objectAt(link, "tags"), "k8s-azure-owner-service");

const parts = ["frontendIPConfigurations", "loadBalancingRules", "probes", "outboundRules", "backendAddressPools"];
const isForeign = (part: JsonObject): boolean => nameOf(part).startsWith("foreign");

/** Everything that the product has built, a line per value, in words that do not depend on its history. */
export function builtIn(world: Pick<World, "api" | "machineOf" | "services" | "view">): readonly string[] {
  const view = world.view();
  // The model of a scale set without a node that may serve keeps its pools, and gets none.
  const nodes = world.api.list(kinds.Node).filter((node) => !isExcluded(node));
  const serving = new Set(nodes.map((node) => world.machineOf(keyOf(node))?.set));
  const owners = addressOwners(view);
  const names = linkNames(view.resources, world.services());
  const worded = (text: string): string =>
    names
      .reduce((rest, [pattern, owner]) => rest.replaceAll(pattern, owner), text)
      .replaceAll(/[^\s/]+/gu, (word) => owners.get(word) ?? word);
  const linked = world.services().filter((service) => annotationOf(service, "azure-pls-create") === "true");
  const linkOwners = new Set(linked.map(keyOf));
  const built = view.resources.filter((resource) => {
    const { type, name } = resource;
    const last = String(type).toLowerCase().split("/").at(-1) ?? "";
    // One that its Service no longer asks for stays as long as its frontend, as upstream.
    if (last === links && !linkOwners.has(ownerOf(resource) ?? "")) return false;
    return builtTypes.has(last) && (last !== scaleSets || serving.has(String(name)));
  });
  const idle = new Set(built.flatMap((one) => poolsOf(one).filter(isIdle)).map((pool) => stringAt(pool, "id") ?? ""));
  return [
    ...built.flatMap((one) => [
      ...valuesIn(`${nameOf(one)}.tags`, objectAt(one, "tags")),
      ...valuesIn(nameOf(one), withoutPools(propertiesOf(one), idle)),
    ]),
    ...ownedParts(view).keys(),
  ].map(worded);
}

/**
 * Private link services by their Service, unless one asks for their name: they keep it, and that of their interface, when
 * none does so any more, as upstream.
 */
export function linkNames(
  resources: readonly JsonObject[],
  services: readonly Service[],
): readonly (readonly [name: RegExp, owner: string])[] {
  const asked = new Set(services.map((service) => annotationOf(service, "azure-pls-name")));
  return resources
    .filter(isOfType(links))
    .filter((one) => !asked.has(nameOf(one)))
    .map((one) => {
      const owner = ownerOf(one) ?? nameOf(one);
      return [new RegExp(`${RegExp.escape(nameOf(one))}(?:\\.nic\\.[\\da-f]+)?`, "gu"), `link of ${owner}`] as const;
    });
}

const poolsOf = (balancer: JsonObject): readonly JsonObject[] =>
  objectsAt(propertiesOf(balancer), "backendAddressPools");
const isIdle = (pool: JsonObject): boolean => objectsAt(propertiesOf(pool), "loadBalancingRules").length === 0;

/** A load balancer that others use keeps its pool when the last Service has left, and its members stay in it. */
const withoutPools = (properties: JsonObject, ids: ReadonlySet<string>): JsonObject =>
  JSON.parse(JSON.stringify(properties), (key, value) =>
    /^(?:loadBalancerB|b)ackendAddressPools$/u.test(key)
      ? value.filter(({ id }: { readonly id: string }) => !ids.has(id))
      : value,
  );

/** The values in a part, each with the path to it: items are known by their names or IDs, for their order means nothing. */
function valuesIn(path: string, part: unknown): readonly string[] {
  if (Array.isArray(part)) return part.flatMap((item) => valuesIn(`${path}[${identityOf(item)}]`, item));
  if (!(part instanceof Object)) return part === undefined ? [] : [`${path} is ${JSON.stringify(part)}`];
  return Object.entries(part).flatMap(([key, value]) => (ignored.test(key) ? [] : valuesIn(`${path}.${key}`, value)));
}

const identityOf = (item: JsonObject | string): string =>
  typeof item === "string" ? item : (stringAt(item, "name") ?? stringAt(item, "id") ?? "");

/** Takes away everything that the product has built, and the status of every Service. What others have stays. */
export function raze(world: World): void {
  const { azure } = world;
  const poolless = (value: object) =>
    JSON.parse(JSON.stringify(value), (key, one) => (key === "loadBalancerBackendAddressPools" ? [] : one));
  for (const instance of world.cluster.scaleSets.flatMap((set) => azure.instances(set))) {
    const { networkInterfaceConfigurations } = instance;
    azure.changeInstance(instance.computerName.toLowerCase(), {
      networkInterfaceConfigurations: poolless(networkInterfaceConfigurations),
    });
  }
  const all = azure.resources();
  const of = (type: string) => all.filter(({ type: found }) => found.toLowerCase().endsWith(type));
  for (const scaleSet of of("/virtualmachinescalesets")) azure.put(scaleSet.id, poolless(scaleSet));
  for (const nic of of("/networkinterfaces")) azure.put(nic.id, poolless(nic));
  for (const link of of("/privatelinkservices")) azure.delete(link.id);
  for (const balancer of of("/loadbalancers")) {
    const foreign = parts.map((part) => [part, objectsAt(balancer.properties, part).filter(isForeign)] as const);
    const tags = foreignTags(balancer);
    if (foreign.every(([, found]) => found.length === 0) && Object.keys(tags).length === 0) azure.delete(balancer.id);
    else azure.put(balancer.id, { ...balancer, tags, properties: Object.fromEntries(foreign) });
  }
  for (const address of of("/publicipaddresses")) {
    if (!isForeign(address)) azure.delete(address.id);
    else if (address.name.startsWith(usersIP)) azure.put(address.id, { ...address, tags: foreignTags(address) });
  }
  const keep = (type: string, part: string, isOurs: (name: string) => boolean): void => {
    for (const resource of of(type)) {
      const rest = objectsAt(resource.properties, part).filter((one) => !isOurs(nameOf(one)));
      azure.put(resource.id, { ...resource, properties: { ...resource.properties, [part]: rest } });
    }
  };
  keep("/networksecuritygroups", "securityRules", (name) => name.startsWith("k8s-azure-lb"));
  keep("/routetables", "routes", (name) => name.includes("____"));
  for (const service of world.services().filter((one) => !isTheirs(one))) {
    const { name = "", namespace = "" } = service.metadata ?? {};
    world.api.update(kinds.Service, { name, namespace }, withoutStatus, "status");
  }
}

const withoutStatus = ({ status: _status, ...service }: Service): Service => service;

const foreignTags = (resource: JsonObject) =>
  Object.fromEntries(Object.entries(objectAt(resource, "tags") ?? {}).filter(([key]) => key.startsWith("foreign")));

/** The DNS label of a public IP stays when its Service asks for none, as upstream. */
const isDNSLabel = (line: string): boolean => /\.dnsSettings\.|\.k8s-azure-dns-label-service is /u.test(line);

/** How two builds differ. */
export function buildDifferences(before: readonly string[], after: readonly string[]): readonly string[] {
  const [had, has] = [new Set(before), new Set(after)];
  return [
    ...[...had.difference(has)].filter((one) => !isDNSLabel(one)).map((one) => `a fresh build lacks ${one}`),
    ...[...has.difference(had)].map((one) => `only a fresh build has ${one}`),
  ];
}
