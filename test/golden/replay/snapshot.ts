import { isObject, type Service } from "cloud-controller-host/sdk";

import { type JsonObject, objectAt, objectsAt, stringAt } from "../../../plugins/azure-cloud/json.ts";
import type { RecordedEvent, RecordedNode, RecordedStep } from "./cases.ts";

/** The state of a cluster and of its resource group by meaning, so that two can be compared. */
export interface Snapshot {
  /** By resource id. */
  readonly arm: Readonly<Record<string, unknown>>;
  readonly services: Readonly<Record<string, unknown>>;
  readonly events: readonly string[];
  readonly nodes: Readonly<Record<string, unknown>>;
}

/** What ARM adds by itself, or changes with every write. */
const ignored: ReadonlySet<string> = new Set([
  "defaultSecurityRules",
  "etag",
  "networkInterfaces",
  "provisioningState",
  "resourceGuid",
  "alias",
  "type",
]);

/** References that ARM shows in sub-resources of a load balancer, and in a public IP. */
const backReferences: ReadonlySet<string> = new Set([
  "backendAddressPools",
  "backendIPConfigurations",
  "inboundNatPools",
  "inboundNatRules",
  "ipConfiguration",
  "loadBalancingRules",
  "outboundRules",
  "privateEndpointConnections",
  "privateLinkService",
]);

/** A value that ARM assumes where there is none. */
const defaults: Readonly<Record<string, unknown>> = { enableProxyProtocol: false, privateIPAddressVersion: "IPv4" };
const isDefault = (key: string, value: unknown): boolean => key in defaults && defaults[key] === value;

const isEmpty = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === "" ||
  (typeof value === "object" && Object.keys(value).length === 0);

type Rename = (text: string) => string;

const byText = (left: unknown, right: unknown): number => (JSON.stringify(left) < JSON.stringify(right) ? -1 : 1);

const isId = (text: string): boolean => text.toLowerCase().startsWith("/subscriptions/");

/** A value without what is ignored or empty, references as ids, and arrays as the sets that they are. */
function meaning(value: unknown, rename: Rename): unknown {
  if (typeof value === "string") return isId(value) ? value.toLowerCase() : rename(value);
  if (Array.isArray(value))
    return value
      .map((item: unknown) => meaning(item, rename))
      .filter((item) => !isEmpty(item))
      .toSorted(byText);
  if (!isObject(value)) return value;
  const id = stringAt(value, "id");
  if (id !== undefined && value["name"] === undefined) return id.toLowerCase();
  return fieldsOf(value, rename, new Set([...ignored, ...backReferences, "id"]));
}

function fieldsOf(value: JsonObject, rename: Rename, left: ReadonlySet<string>): JsonObject {
  const entries = Object.entries(value)
    .filter(([key, item]) => !left.has(key) && !isDefault(key, item))
    .map(([key, item]) => [key, reference(key, item) ?? meaning(item, rename)] as const)
    .filter(([, item]) => !isEmpty(item));
  return Object.fromEntries(entries.toSorted(([one], [other]) => (one < other ? -1 : 1)));
}

/** A subnet may be sent as a whole; ARM stores its id. */
const reference = (key: string, value: unknown): string | undefined =>
  key === "subnet" && isObject(value) ? stringAt(value, "id")?.toLowerCase() : undefined;

/** Pools by IP configuration; recorded for each interface of a machine. */
function membership(item: JsonObject): JsonObject {
  const entries = objectsAt(item, "pools").flatMap((entry) => {
    const pools = Array.isArray(entry["pools"]) ? entry["pools"].map((pool) => String(pool).toLowerCase()) : [];
    return pools.length === 0 ? [] : [[stringAt(entry, "ipConfiguration") ?? "", pools.toSorted()] as const];
  });
  return Object.fromEntries(entries);
}

/** Members that joined on the interface side are compared there. */
const withoutInterfaceMembers = (pool: JsonObject): JsonObject => {
  const properties = objectAt(pool, "properties") ?? {};
  const loadBalancerBackendAddresses = objectsAt(properties, "loadBalancerBackendAddresses").filter(
    (address) => stringAt(objectAt(address, "properties"), "ipAddress") !== undefined,
  );
  return { ...pool, properties: { ...properties, loadBalancerBackendAddresses } };
};

function resourceMeaning(item: JsonObject, rename: Rename): unknown {
  if ("pools" in item) return membership(item);
  const properties = objectAt(item, "properties") ?? {};
  const sku = stringAt(objectAt(item, "sku"), "name");
  const top = fieldsOf(item, rename, new Set([...ignored, "id", "name", "properties", "sku"]));
  const own = new Set([...ignored, "ipConfiguration"]);
  const pools = objectsAt(properties, "backendAddressPools");
  const compared =
    pools.length === 0 ? properties : { ...properties, backendAddressPools: pools.map(withoutInterfaceMembers) };
  return {
    ...top,
    ...(sku === undefined || sku === "Basic" ? {} : { sku }),
    properties: fieldsOf(compared, rename, own),
  };
}

const lastName = (id: string): string => id.slice(id.lastIndexOf("/") + 1);

/** Addresses that ARM handed out, by what has them. One that a Service asks for stays itself. */
function rolesOf(arm: readonly JsonObject[], services: readonly Service[]): ReadonlyMap<string, string> {
  const requested = JSON.stringify(services.map(({ metadata, spec }) => [metadata?.annotations, spec]));
  const roles = new Map<string, string>();
  const add = (address: string | undefined, role: string): void => {
    if (address !== undefined && !requested.includes(`"${address}"`) && !requested.includes(address))
      roles.set(address, role);
  };
  for (const item of arm) {
    const name = lastName(stringAt(item, "id") ?? "");
    const properties = objectAt(item, "properties");
    add(stringAt(properties, "ipAddress"), `<address of ${name}>`);
    for (const frontend of objectsAt(properties, "frontendIPConfigurations"))
      add(
        stringAt(objectAt(frontend, "properties"), "privateIPAddress"),
        `<address of ${name}/${stringAt(frontend, "name")}>`,
      );
  }
  return roles;
}

const finalizersOf = (service: Service): readonly string[] => (service.metadata?.finalizers ?? []).toSorted();

function serviceMeaning(service: Service, rename: Rename): unknown {
  const ingress = service.status?.loadBalancer?.ingress ?? [];
  return {
    ingress: ingress.map(({ ip, hostname }) => rename(ip ?? hostname ?? "")),
    finalizers: finalizersOf(service),
  };
}

const nodeMeaning = ({ podCIDRs = [], addresses, conditions = [] }: RecordedNode): unknown => ({
  podCIDRs,
  internalIPs: addresses.filter(({ type }) => type === "InternalIP").map(({ address }) => address),
  conditions: conditions
    .filter(({ type }) => type !== "Ready")
    .map(({ type, status, reason }) => `${type}=${status} ${reason}`),
});

/** What a snapshot is made of, recorded or found. */
export type Observed = Pick<RecordedStep, "services" | "nodes" | "events" | "arm">;

const eventText = ({ object, type, reason }: RecordedEvent): string => `${object} ${type} ${reason}`;

export function snapshotOf({ services = [], nodes = [], events = [], arm }: Observed): Snapshot {
  const roles = rolesOf(arm, services);
  const rename: Rename = (text) => roles.get(text) ?? text;
  const names = new Set(services.map(({ metadata }) => metadata?.name));
  const byId = arm.flatMap((item) => {
    const found = resourceMeaning(item, rename);
    return isEmpty(found) ? [] : [[(stringAt(item, "id") ?? "").toLowerCase(), found] as const];
  });
  return {
    arm: Object.fromEntries(byId.toSorted(byText)),
    services: Object.fromEntries(services.map((service) => [service.metadata?.name, serviceMeaning(service, rename)])),
    events: [...new Set(events.filter(({ object }) => names.has(object)).map(eventText))].toSorted(),
    nodes: Object.fromEntries(nodes.map((node) => [node.name, nodeMeaning(node)])),
  };
}
