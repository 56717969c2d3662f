import { join } from "node:path";

import type {
  LoadBalancer,
  NetworkSecurityGroup,
  PrivateLinkService,
  PublicIPAddress,
  Subnet,
} from "@azure/arm-network";
import type { Node, Service } from "cloud-controller-host/sdk";

import { isObject, type JsonObject, stringAt } from "../../../../plugins/azure-cloud/json.ts";
import type { Observed, PoolMember } from "../../../../plugins/azure-cloud/load-balancer/model/model.ts";

interface RecordedNode {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly providerID: string;
  readonly addresses: readonly { readonly type: string; readonly address: string }[];
}

interface RecordedStep {
  readonly services?: readonly Service[];
  readonly arm: readonly JsonObject[];
}

/** One case of the Go provider; the format is described beside the cases. */
export interface RecordedCase {
  readonly case: string;
  readonly kind?: string;
  readonly cloudConfig: JsonObject;
  readonly clusterName: string;
  readonly nodes: readonly RecordedNode[];
  readonly steps: Readonly<Record<string, RecordedStep>>;
}

const folder = process.env["GOLDEN_DIR"] ?? join(import.meta.dir, "../../../golden");

/** Every case that is about Services. */
export async function recordedCases(): Promise<readonly RecordedCase[]> {
  const files = await Array.fromAsync(new Bun.Glob("*.json").scan(folder));
  const parsed = await Promise.all(
    files.toSorted().map(async (file): Promise<RecordedCase> => JSON.parse(await Bun.file(join(folder, file)).text())),
  );
  return parsed.filter((one) => !Array.isArray(one) && one.kind === undefined);
}

/** ARM's JSON as the SDK returns it: the fields of `properties` beside the others. */
function flattened(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(flattened);
  if (!isObject(value)) return value;
  const { properties, ...rest } = value;
  const all = isObject(properties) ? { ...rest, ...properties } : value;
  return Object.fromEntries(Object.entries(all).map(([key, item]) => [key, flattened(item)]));
}

const ofType = (arm: readonly JsonObject[], type: string): string => {
  const pattern = new RegExp(`/providers/Microsoft.Network/${type}/[^/]+$`, "iu");
  return JSON.stringify(arm.filter((one) => pattern.test(stringAt(one, "id") ?? "")).map(flattened));
};

const loadBalancersIn = (arm: readonly JsonObject[]): readonly LoadBalancer[] =>
  JSON.parse(ofType(arm, "loadBalancers"));
const publicIPsIn = (arm: readonly JsonObject[]): readonly PublicIPAddress[] =>
  JSON.parse(ofType(arm, "publicIPAddresses"));
const linksIn = (arm: readonly JsonObject[]): readonly PrivateLinkService[] =>
  JSON.parse(ofType(arm, "privateLinkServices"));
const groupsIn = (arm: readonly JsonObject[]): readonly NetworkSecurityGroup[] =>
  JSON.parse(ofType(arm, "networkSecurityGroups"));

export const nodesOf = ({ nodes }: RecordedCase): readonly Node[] =>
  nodes.map(({ name, labels, providerID, addresses }) => ({
    metadata: { name, labels: { ...labels } },
    spec: { providerID },
    status: { addresses: [...addresses] },
  }));

/** The state that a step recorded. */
export function observedAt(recorded: RecordedCase, step: string): Observed {
  const { arm = [], services = [] } = recorded.steps[step] ?? {};
  const subnet = (name: string): Subnet => ({
    id: `/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/virtualNetworks/vnet0/subnets/${name}`,
    name,
  });
  return {
    loadBalancers: loadBalancersIn(arm),
    publicIPs: publicIPsIn(arm),
    securityGroup: groupsIn(arm)[0],
    privateLinkServices: linksIn(arm),
    subnets: new Map([
      ["subnet0", { ...subnet("subnet0"), privateLinkServiceNetworkPolicies: "Disabled" }],
      ["lb-subnet", subnet("lb-subnet")],
    ]),
    zones: ["1", "2", "3"],
    services,
    nodes: nodesOf(recorded),
    deletedNodes: new Set(),
    poolMembers: membersIn(recorded, arm),
    vmSets: new Map(
      recorded.nodes.map(({ name }) => [name, stringAt(recorded.cloudConfig, "primaryScaleSetName") ?? ""]),
    ),
    endpointNodes: new Map(),
    namespaceLabels: new Map([["default", { "kubernetes.io/metadata.name": "default" }]]),
  };
}

function membersIn({ nodes }: RecordedCase, arm: readonly JsonObject[]): ReadonlyMap<string, readonly PoolMember[]> {
  const members = new Map<string, readonly PoolMember[]>();
  for (const { id, pools } of arm) {
    if (typeof id !== "string" || !Array.isArray(pools)) continue;
    const node = nodes.find(({ name, providerID }) => providerID.endsWith(id) || id.endsWith(`/${name}-nic`))?.name;
    for (const { ipConfiguration, pools: joined } of pools)
      for (const pool of joined) {
        const member = { ipConfigurationId: `${id}/${ipConfiguration}`, node, gone: false, complete: true };
        members.set(pool.toLowerCase(), [...(members.get(pool.toLowerCase()) ?? []), member]);
      }
  }
  return members;
}

/** Fields that ARM fills in or that say nothing. */
const ignored = new Set([
  "id",
  "etag",
  "type",
  "provisioningState",
  "backendIPConfigurations",
  "ipConfiguration",
  "fqdn",
  "alias",
  "ipAddress",
]);

/**
 * The resources by what they mean: addresses that ARM handed out by the resource that has them, lists as sets, without
 * ids and back-references.
 */
export function meaningOf(observed: Observed): unknown {
  const roles = new Map<string, string>();
  for (const { name, ipAddress } of observed.publicIPs) if (ipAddress) roles.set(ipAddress, `address of ${name}`);
  for (const { frontendIPConfigurations = [] } of observed.loadBalancers)
    for (const { name, privateIPAddress, privateIPAllocationMethod } of frontendIPConfigurations)
      if (privateIPAddress && privateIPAllocationMethod === "Dynamic")
        roles.set(privateIPAddress, `address of ${name}`);
  const members = [...observed.poolMembers].filter(([, list]) => list.length > 0);
  const meaning = {
    loadBalancers: observed.loadBalancers,
    publicIPs: observed.publicIPs,
    securityGroup: observed.securityGroup,
    privateLinkServices: observed.privateLinkServices,
    members: Object.fromEntries(members.map(([id, list]) => [id, list.map(({ node }) => node)])),
  };
  return normalized(JSON.parse(JSON.stringify(meaning)), roles);
}

function normalized(value: unknown, roles: ReadonlyMap<string, string>, key = ""): unknown {
  if (typeof value === "string") return roles.get(value) ?? (key === "id" ? value.toLowerCase() : value);
  if (Array.isArray(value)) {
    const items = value.map((item) => normalized(item, roles));
    return items.toSorted((left, right) => (JSON.stringify(left) < JSON.stringify(right) ? -1 : 1));
  }
  if (!isObject(value)) return value;
  const isReference = Object.keys(value).join() === "id";
  const isBackReference = (name: string, item: unknown): boolean =>
    name === "loadBalancingRules" && Array.isArray(item) && item.every((one) => Object.keys(one).join() === "id");
  const entries = Object.entries(value).filter(
    ([name, item]) =>
      (isReference || !ignored.has(name)) &&
      !isBackReference(name, item) &&
      !(Array.isArray(item) && item.length === 0),
  );
  const sorted = entries.toSorted(([left], [right]) => (left < right ? -1 : 1));
  return Object.fromEntries(sorted.map(([name, item]) => [name, normalized(item, roles, name)]));
}
