import type { SimulatedContents } from "cloud-controller-host/sdk";

import { type ArmPath, parseArmPath } from "../arm/resource-id.ts";
import { type JsonObject, objectAt, objectsAt, stringAt, stringsAt } from "../json.ts";
import { allowRuleName } from "../load-balancer/plan/security-group/rules.ts";
import { nodeNameOf, routeNameOf } from "../routes/route-names.ts";
import { modelInterfaces } from "./resources/scale-set-views.ts";
import type { PowerState } from "./state/scale-set-instances.ts";
import type { SubscriptionState } from "./state/subscription-state.ts";

/** Types in the order in which resources refer to each other; those below a scale set are of its instances. */
const order = [
  "microsoft.network/virtualnetworks",
  "microsoft.network/virtualnetworks/subnets",
  "microsoft.network/routetables",
  "microsoft.network/publicipprefixes",
  "microsoft.network/publicipaddresses",
  "microsoft.network/networksecuritygroups",
  "microsoft.compute/availabilitysets",
  "microsoft.compute/virtualmachinescalesets",
  "microsoft.network/networkinterfaces",
  "microsoft.compute/virtualmachines",
  "microsoft.compute/virtualmachinescalesets/virtualmachines",
  "microsoft.network/loadbalancers",
  "microsoft.network/privatelinkservices",
] as const;

interface Read {
  readonly id: string;
  readonly path: ArmPath;
  readonly type: string;
  readonly body: JsonObject;
}

type Put = (id: string, body: JsonObject) => unknown;

/** Keys of the cloud config by which the simulator is reached; all others are those of the bundle. */
const connectionKeys = [
  "aadClientId",
  "aadClientSecret",
  "cloud",
  "resourceManagerCAFile",
  "resourceManagerEndpoint",
  "tenantId",
  "useInstanceMetadata",
];
/** Other ways to authenticate, and other clouds and tenants. */
const replacedKeys =
  /^(?:aad.*|cloud|.*tenantid|resourcemanager.*|use(?:managedidentity|federated|instancemetadata).*|userassignedidentityid|disableazurestackcloud|.*certpath|.*authmode)$/iu;

/** The cloud config of a bundle with the simulator's own connection. */
export function configOf(contents: SimulatedContents | undefined, own: JsonObject): JsonObject {
  if (contents === undefined) return own;
  const { cloudConfig } = contents;
  const kept = Object.entries(cloudConfig).filter(([key]) => !replacedKeys.test(key));
  return { ...Object.fromEntries(kept), ...Object.fromEntries(connectionKeys.map((key) => [key, own[key]])) };
}

/** Stores what a plan has read. What it has not read does not exist. */
export function loadContents(state: SubscriptionState, contents: SimulatedContents, put: Put): void {
  const reads = contents.resources.flatMap((body) => readOf(body) ?? []);
  for (const { subscription, resourceGroup } of reads.map(({ path }) => path))
    if (resourceGroup !== undefined) state.store.addGroup(subscription, resourceGroup);
  const byType = Map.groupBy(reads, ({ type }) => type);
  const below = new Map(reads.map((read) => [read.id.toLowerCase(), read.body]));
  for (const type of order)
    for (const read of byType.get(type) ?? [])
      if (type === "microsoft.network/virtualnetworks/subnets") putSubnet(state, read, put);
      else if (type === "microsoft.compute/virtualmachinescalesets/virtualmachines") addInstance(state, read, below);
      else put(read.id, bodyOf(read, contents.anonymized));
}

function readOf(body: JsonObject): Read | undefined {
  const id = stringAt(body, "id") ?? "";
  const path = parseArmPath(id);
  if (path?.provider === undefined || path.collection) return undefined;
  return { id, path, type: `${path.provider}/${path.type}`.toLowerCase(), body };
}

function bodyOf({ type, body }: Read, anonymized: boolean): JsonObject {
  const { id: _id, name: _name, type: _type, etag: _etag, ...rest } = body;
  const properties = objectAt(body, "properties");
  if (anonymized && type === "microsoft.network/routetables")
    return { ...rest, properties: { ...properties, routes: objectsAt(properties, "routes").map(renamedRoute) } };
  if (!anonymized || type !== "microsoft.network/networksecuritygroups") return rest;
  return {
    ...rest,
    properties: { ...properties, securityRules: objectsAt(properties, "securityRules").map(renamedRule) },
  };
}

const allowRule = /^k8s-azure-lb_allow_(IPv4|IPv6)_[0-9a-f]{32}$/u;

/** A rule whose name is a hash of its sources and ports: of those that it has now. */
function renamedRule(rule: JsonObject): JsonObject {
  const [, family] = allowRule.exec(stringAt(rule, "name") ?? "") ?? [];
  const properties = objectAt(rule, "properties");
  if (properties === undefined || (family !== "IPv4" && family !== "IPv6")) return rule;
  const ports = stringsAt(properties, "destinationPortRanges").map(Number);
  const sources = [
    stringAt(properties, "sourceAddressPrefix") ?? [],
    stringsAt(properties, "sourceAddressPrefixes"),
  ].flat();
  const protocol = stringAt(properties, "protocol") ?? "";
  return { ...rule, name: allowRuleName({ protocol, family, sources, ports }) };
}

/** A route whose name contains its CIDR: the one that it has now. */
function renamedRoute(route: JsonObject): JsonObject {
  const name = stringAt(route, "name") ?? "";
  const node = nodeNameOf(name);
  const cidr = stringAt(objectAt(route, "properties"), "addressPrefix") ?? "";
  return node === name ? route : { ...route, name: routeNameOf(node, cidr) };
}

/** Subnets are read alone where their network is not. */
function putSubnet(state: SubscriptionState, { id, path, body }: Read, put: Put): void {
  const network = id.split("/").slice(0, -2).join("/");
  const properties = state.store.get(network)?.properties ?? {};
  const others = objectsAt(properties, "subnets").filter((one) => stringAt(one, "name") !== path.names[1]);
  const { etag: _etag, ...subnet } = body;
  put(network, { properties: { ...properties, subnets: [...others, subnet] } });
}

function addInstance(state: SubscriptionState, { id, path, body }: Read, below: ReadonlyMap<string, JsonObject>): void {
  const scaleSetId = id.split("/").slice(0, -2).join("/");
  const scaleSet = state.store.get(scaleSetId);
  const properties = objectAt(body, "properties");
  const own = objectsAt(objectAt(properties, "networkProfileConfiguration"), "networkInterfaceConfigurations");
  const view = objectAt(properties, "instanceView");
  const addresses = addressesOf(id, below);
  const faultDomain = view?.["platformFaultDomain"];
  state.instances(scaleSetId).restore({
    instanceId: path.names[1] ?? "",
    computerName: stringAt(objectAt(properties, "osProfile"), "computerName") ?? "",
    privateIP: addresses.find((address) => address.includes(".")) ?? "0.0.0.0",
    privateIPv6: addresses.find((address) => address.includes(":")),
    publicIP: publicAddressOf(id, below),
    zone: stringsAt(body, "zones")[0],
    faultDomain: typeof faultDomain === "number" ? faultDomain : 0,
    powerState: powerStateOf(view),
    provisioningState: stringAt(properties, "provisioningState") ?? "Succeeded",
    networkInterfaceConfigurations: own.length > 0 || scaleSet === undefined ? own : modelInterfaces(scaleSet),
    hidden: false,
  });
}

/** Resources below an instance, by the part of their ids after the instance's. */
const belowInstance = (id: string, all: ReadonlyMap<string, JsonObject>, part: RegExp): readonly JsonObject[] => {
  const prefix = `${id.toLowerCase()}/`;
  return [...all].flatMap(([key, body]) =>
    key.startsWith(prefix) && part.test(key.slice(prefix.length)) ? [body] : [],
  );
};

function addressesOf(id: string, all: ReadonlyMap<string, JsonObject>): readonly string[] {
  const interfaces = belowInstance(id, all, /^networkinterfaces\/[^/]+$/u);
  return interfaces
    .flatMap((one) => objectsAt(objectAt(one, "properties"), "ipConfigurations"))
    .flatMap((one) => stringAt(objectAt(one, "properties"), "privateIPAddress") ?? []);
}

const publicAddressOf = (id: string, all: ReadonlyMap<string, JsonObject>): string | undefined =>
  belowInstance(id, all, /\/publicipaddresses\/[^/]+$/u)
    .map((one) => stringAt(objectAt(one, "properties"), "ipAddress"))
    .find((address) => address !== undefined);

const powerStates: readonly PowerState[] = [
  "starting",
  "running",
  "stopping",
  "stopped",
  "deallocating",
  "deallocated",
];

function powerStateOf(view: JsonObject | undefined): PowerState {
  if (view === undefined) return "running";
  const codes = objectsAt(view, "statuses").map((status) => (stringAt(status, "code") ?? "").toLowerCase());
  return powerStates.find((one) => codes.includes(`powerstate/${one}`)) ?? "unknown";
}
