import { describe, expect, test } from "bun:test";

import { isObject } from "cloud-controller-host/sdk";

import { type JsonObject, objectAt, objectsAt, stringAt } from "../../../../plugins/azure-cloud/json.ts";
import { type Definition, definitionOf } from "../../../../plugins/azure-cloud/simulator/schema/body-check.ts";
import { nodeOf } from "../world.ts";
import { type Cluster, openCluster, serviceOf } from "./cluster.ts";

const group = "/subscriptions/sub0/resourceGroups/rg0/providers";
const network = `${group}/Microsoft.Network`;
const balancer = `${network}/loadBalancers/kubernetes`;
const nic = `${network}/networkInterfaces/nic`;
const scaleSet = `${group}/Microsoft.Compute/virtualMachineScaleSets/vmss0`;
const subnet = `${network}/virtualNetworks/vnet0/subnets/subnet0`;

type Value = Definition["members"] extends ReadonlyMap<string, { readonly value: infer V }> ? V : never;

/** Values of members, by name, that ARM would refuse otherwise. */
type Fixed = Readonly<Record<string, unknown>>;

interface Sampling {
  readonly fixed: Fixed;
  /** Definitions of sub-resources and parts; any other with an id is a reference to it. */
  readonly parts: RegExp;
}

/** An object with a value for every member of its definition that is not read-only. */
function sampleOf(definition: Definition, sampling: Sampling, within: readonly string[] = []): JsonObject {
  const entries = [...definition.members].flatMap(([name, { readOnly, value }]) => {
    if (name in sampling.fixed) return [[name, sampling.fixed[name]] as const];
    const sample = readOnly ? undefined : valueOf(value, { definition, sampling, name, within });
    return sample === undefined ? [] : [[name, sample] as const];
  });
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

interface Place {
  readonly definition: Definition;
  readonly sampling: Sampling;
  readonly name: string;
  readonly within: readonly string[];
}

function valueOf(value: Value, place: Place): unknown {
  const { definition, sampling, name, within } = place;
  switch (value.kind) {
    case "list":
    case "map": {
      const item = valueOf(value.item, place);
      if (item === undefined) return undefined;
      return value.kind === "list" ? [item] : { theirs: item };
    }
    case "definition": {
      const inner = definition.other(value.name);
      if (inner.members.has("id") && !sampling.parts.test(inner.name)) return { id: `${network}/${name}/theirs` };
      if (within.includes(inner.name)) return undefined;
      const sample = sampleOf(inner, sampling, [...within, inner.name]);
      return inner.members.has("etag") || inner.name.endsWith("Configuration") ? { ...sample, name: "theirs" } : sample;
    }
    case "words":
      return [...value.words].at(-1);
    case "integer":
    case "number":
      return 7;
    case "boolean":
      return true;
    case "string":
      return `${name}-theirs`;
    default:
      return { id: `${network}/${name}/theirs` };
  }
}

const nameIn = (item: unknown): unknown => (isObject(item) ? (item["name"] ?? item["id"]) : undefined);

/** Paths of what a body lacks or changes of a reply, members that are read-only left out. */
function lost(definition: Definition, before: JsonObject, body: JsonObject, path = ""): readonly string[] {
  return [...definition.members].flatMap(([name, { readOnly, value }]) => {
    const inner = path === "" ? name : `${path}.${name}`;
    if (readOnly || ["id", "etag", "type"].includes(name) || before[name] === undefined) return [];
    return lostValue(value, { definition, before: before[name], body: body[name], path: inner });
  });
}

interface Compared {
  readonly definition: Definition;
  readonly before: unknown;
  readonly body: unknown;
  readonly path: string;
}

function lostValue(value: Value, { definition, before, body, path }: Compared): readonly string[] {
  if (value.kind === "list" && Array.isArray(before)) {
    const items: readonly unknown[] = Array.isArray(body) ? body : [];
    return before.flatMap((item: unknown) => {
      const name = nameIn(item);
      const same = items.find((one) => (name === undefined ? Bun.deepEquals(one, item) : nameIn(one) === name));
      const inner = `${path}[${typeof name === "string" ? name.split("/").at(-1) : ""}]`;
      return same === undefined
        ? [inner]
        : lostValue(value.item, { definition, before: item, body: same, path: inner });
    });
  }
  if (value.kind === "definition" && isObject(before))
    return isObject(body) ? lost(definition.other(value.name), before, body, path) : [path];
  if (isObject(before) && isObject(body))
    return Object.keys(before)
      .filter((key) => !Bun.deepEquals(before[key], body[key]))
      .map((key) => `${path}.${key}`);
  return Bun.deepEquals(before, body) ? [] : [path];
}

interface Write {
  readonly cluster: Cluster;
  readonly path: string;
  readonly type: string;
  readonly work: () => Promise<unknown>;
}

function definitionAt(type: string): Definition {
  const definition = definitionOf(type);
  if (definition === undefined) throw new Error(`no definition of ${type}`);
  return definition;
}

/** What the first PUT of a resource during `work` loses of what ARM showed before. */
async function lostBy({ cluster, path, type, work }: Write): Promise<readonly string[]> {
  const { simulator } = cluster.world;
  const parent = simulator.get(path);
  const child = objectsAt(
    simulator.get(path.split("/").slice(0, -2).join("/"))?.properties,
    path.split("/").at(-2) ?? "",
  ).find((one) => stringAt(one, "id") === path);
  const before = parent ?? child;
  simulator.clearLog();
  await work();
  const put = simulator.log.find((one) => one.method === "PUT" && one.path.toLowerCase() === path.toLowerCase());
  if (before === undefined || !isObject(put?.body)) throw new Error(`no PUT of ${path}`);
  return lost(definitionAt(type), before, put.body);
}

/** Seeds a resource with every member of its definition, beside what it has. */
function seed(cluster: Cluster, path: string, type: string, sampling: Sampling): void {
  const { simulator } = cluster.world;
  const definition = definitionAt(type);
  const current: JsonObject = simulator.get(path) ?? {};
  const sample = sampleOf(definition, sampling);
  const mine = objectAt(current, "properties") ?? {};
  const theirs = objectAt(sample, "properties") ?? {};
  const lists = Object.fromEntries(
    Object.entries(theirs).map(([key, value]) => [
      key,
      Array.isArray(value) && objectsAt(theirs, key).length > 0
        ? [...objectsAt(mine, key), ...objectsAt(theirs, key)]
        : value,
    ]),
  );
  simulator.put(path, {
    ...sample,
    ...current,
    tags: { ...objectAt(sample, "tags"), ...objectAt(current, "tags") },
    properties: { ...theirs, ...mine, ...lists },
  });
}

/** No definition. */
const nothing = /(?!)/u;
const internal = { "azure-load-balancer-internal": "true" };
const linked = { ...internal, "azure-pls-create": "true" };

/** Members that ARM does not take together, or that tell what we own. */
const common: Fixed = {
  location: "eastus",
  id: undefined,
  etag: undefined,
  provisioningState: undefined,
};

describe("round trips of the published definitions", () => {
  test("a PUT returns every property of a load balancer that its GET had", async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start();
    const pip = `${network}/publicIPAddresses/theirs`;
    cluster.world.simulator.put(pip, { sku: { name: "Standard" }, properties: {} });
    const fixed = {
      ...common,
      sku: { name: "Standard", tier: "Regional" },
      publicIPAddress: { id: pip },
      subnet: { id: subnet },
      privateIPAddress: "10.240.200.1",
      privateIPAddressVersion: "IPv4",
      privateIPAllocationMethod: "Static",
      frontendIPConfiguration: { id: `${balancer}/frontendIPConfigurations/theirs` },
      backendAddressPool: { id: `${balancer}/backendAddressPools/theirs` },
      probe: { id: `${balancer}/probes/theirs` },
    };
    const parts = /^(FrontendIPConfiguration|BackendAddressPool|LoadBalancingRule|Probe|InboundNat|OutboundRule)/u;
    seed(cluster, balancer, "Microsoft.Network/loadBalancers", { fixed, parts });
    const own = {
      backendAddressPools: [fixed.backendAddressPool],
      frontendIPConfigurations: [fixed.frontendIPConfiguration],
    };
    const { properties } = cluster.world.simulator.get(balancer) ?? {};
    const rules = (key: string, more: JsonObject) =>
      objectsAt(properties, key).map((one) => ({ ...one, properties: { ...objectAt(one, "properties"), ...more } }));
    cluster.world.simulator.put(balancer, {
      ...cluster.world.simulator.get(balancer),
      properties: {
        ...properties,
        loadBalancingRules: rules("loadBalancingRules", { backendAddressPools: own.backendAddressPools }),
        outboundRules: rules("outboundRules", { frontendIPConfigurations: own.frontendIPConfigurations }),
      },
    });
    const work = () => cluster.ensure(generation, serviceOf("web"));
    expect(await lostBy({ cluster, path: balancer, type: "Microsoft.Network/loadBalancers", work })).toEqual([]);
  });

  test("a PUT returns every property of a public IP of ours that gets a tag, and of the user's own that gets a DNS label", async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start();
    await cluster.ensure(generation, serviceOf("web"));
    const { simulator } = cluster.world;
    const pip = simulator.resources().find(({ id }) => id.includes("/publicIPAddresses/"))?.id ?? "";
    const type = "Microsoft.Network/publicIPAddresses";
    const fixed = {
      ...common,
      sku: { name: "Standard", tier: "Regional" },
      publicIPPrefix: undefined,
      ipAddress: "20.9.9.9",
      publicIPAddressVersion: "IPv4",
      publicIPAllocationMethod: "Static",
    };
    seed(cluster, pip, type, { fixed, parts: nothing });
    const next = await cluster.start();
    const tagged = serviceOf("web", { annotations: { "azure-pip-tags": "a=b" } });
    expect(await lostBy({ cluster, path: pip, type, work: () => cluster.ensure(next, tagged) })).toEqual([]);
    const mine = `${network}/publicIPAddresses/mine`;
    seed(cluster, mine, type, { fixed: { ...fixed, domainNameLabel: "old" }, parts: nothing });
    const labeled = serviceOf("labeled", { annotations: { "azure-pip-name": "mine", "azure-dns-label-name": "new" } });
    const last = await cluster.start();
    expect(await lostBy({ cluster, path: mine, type, work: () => cluster.ensure(last, labeled) })).toEqual([
      "properties.dnsSettings.domainNameLabel",
    ]);
  });

  test("a PUT returns every property of a security group that its GET had", async () => {
    await using cluster = await openCluster(1);
    const type = "Microsoft.Network/networkSecurityGroups";
    const path = `${network}/networkSecurityGroups/nsg0`;
    const fixed = { ...common, priority: 4000, direction: "Inbound" };
    seed(cluster, path, type, { fixed, parts: /^SecurityRule/u });
    const generation = await cluster.start();
    const work = () => cluster.ensure(generation, serviceOf("web"));
    expect(await lostBy({ cluster, path, type, work })).toEqual([]);
  });

  test("a PUT returns every property of a subnet and of a private link service that its GET had", async () => {
    await using cluster = await openCluster(1);
    const { simulator } = cluster.world;
    const fixed = {
      ...common,
      addressPrefix: undefined,
      addressPrefixes: ["10.240.0.0/16"],
      privateLinkServiceNetworkPolicies: "Enabled",
      ipamPoolPrefixAllocations: [{ pool: { id: `${network}/ipamPools/theirs` }, numberOfIpAddresses: "8" }],
    };
    const sample = sampleOf(definitionAt("Microsoft.Network/virtualNetworks/subnets"), {
      fixed,
      parts: /^(Delegation|ServiceEndpointPropertiesFormat)/u,
    });
    const vnet = simulator.get(`${network}/virtualNetworks/vnet0`);
    const subnets = [{ name: "subnet0", properties: objectAt(sample, "properties") }];
    simulator.put(vnet?.id ?? "", { ...vnet, properties: { ...vnet?.properties, subnets } });
    const first = await cluster.start();
    const create = () => cluster.ensure(first, serviceOf("linked", { annotations: linked }));
    const ofSubnet = { cluster, path: subnet, type: "Microsoft.Network/virtualNetworks/subnets", work: create };
    expect(await lostBy(ofSubnet)).toEqual(["properties.privateLinkServiceNetworkPolicies"]);
    const link = simulator.resources().find(({ id }) => id.includes("/privateLinkServices/"))?.id ?? "";
    const type = "Microsoft.Network/privateLinkServices";
    const parts = /^PrivateLinkService/u;
    seed(cluster, link, type, {
      fixed: { ...common, ipConfigurations: undefined, loadBalancerFrontendIpConfigurations: undefined },
      parts,
    });
    const generation = await cluster.start();
    const changed = serviceOf("linked", { annotations: { ...linked, "azure-pls-fqdns": "a.example" } });
    const work = () => cluster.ensure(generation, changed);
    // What annotations set, or leave out.
    expect(await lostBy({ cluster, path: link, type, work })).toEqual([
      "properties.autoApproval.subscriptions[]",
      "properties.enableProxyProtocol",
      "properties.fqdns[]",
      "properties.visibility.subscriptions[]",
    ]);
  });

  test("a PUT returns every property of a network interface that joins a pool", async () => {
    await using cluster = await openCluster(0);
    const { simulator } = cluster.world;
    const type = "Microsoft.Network/networkInterfaces";
    const fixed = {
      ...common,
      subnet: { id: subnet },
      publicIPAddress: undefined,
      primary: true,
      privateIPAddress: "10.240.0.77",
      privateIPAddressVersion: "IPv4",
      privateIPAllocationMethod: "Static",
      loadBalancerBackendAddressPools: undefined,
    };
    seed(cluster, nic, type, { fixed, parts: /^InterfaceIPConfiguration/u });
    const vm = simulator.put(`${group}/Microsoft.Compute/virtualMachines/vm`, {
      properties: { networkProfile: { networkInterfaces: [{ id: nic, properties: { primary: true } }] } },
    });
    cluster.nodes.push({
      ...nodeOf("vm", { providerID: `azure://${vm.id}` }),
      status: { addresses: [{ type: "InternalIP", address: "10.240.0.77" }] },
    });
    const generation = await cluster.start({ vmType: "standard" });
    const work = () => cluster.ensure(generation, serviceOf("web"));
    expect(await lostBy({ cluster, path: nic, type, work })).toEqual([]);
  });

  test("a PUT returns every property of the network of an instance and of the model of its scale set", async () => {
    await using cluster = await openCluster(1);
    const { simulator } = cluster.world;
    const model = definitionAt("Microsoft.Compute/virtualMachineScaleSets");
    const profile = model.other("VirtualMachineScaleSetNetworkProfile");
    const fixed = {
      ...common,
      primary: true,
      subnet: { id: subnet },
      privateIPAddressVersion: "IPv4",
      networkApiVersion: undefined,
      loadBalancerBackendAddressPools: undefined,
    };
    const networkProfile = sampleOf(profile, { fixed, parts: /^VirtualMachineScaleSet/u });
    const configurations = objectsAt(networkProfile, "networkInterfaceConfigurations");
    const { properties } = simulator.get(scaleSet) ?? {};
    const virtualMachineProfile = { ...objectAt(properties, "virtualMachineProfile"), networkProfile };
    simulator.put(scaleSet, { ...simulator.get(scaleSet), properties: { ...properties, virtualMachineProfile } });
    simulator.changeInstance("vmss0000000", { networkInterfaceConfigurations: configurations });
    const generation = await cluster.start();
    simulator.clearLog();
    await cluster.ensure(generation, serviceOf("web"));
    const profileIn = (ending: RegExp, ...keys: readonly string[]): JsonObject => {
      const put = simulator.log.find(({ method, path }) => method === "PUT" && ending.test(path));
      return keys.reduce<JsonObject>((from, key) => objectAt(from, key) ?? {}, isObject(put?.body) ? put.body : {});
    };
    const ofModel = profileIn(
      /virtualMachineScaleSets\/vmss0$/u,
      "properties",
      "virtualMachineProfile",
      "networkProfile",
    );
    expect(lost(profile, networkProfile, ofModel)).toEqual([]);
    const ofInstance = profileIn(/virtualMachines\/0$/u, "properties", "networkProfileConfiguration");
    const instanceProfile = model.other("VirtualMachineScaleSetVMNetworkProfileConfiguration");
    expect(lost(instanceProfile, { networkInterfaceConfigurations: configurations }, ofInstance)).toEqual([]);
  });

  test("a PUT returns every property of a route table that its GET had", async () => {
    await using cluster = await openCluster(1);
    const type = "Microsoft.Network/routeTables";
    const path = `${network}/routeTables/rt0`;
    const fixed = { ...common, addressPrefix: "192.168.0.0/16", nextHopIpAddress: "10.9.9.9" };
    seed(cluster, path, type, { fixed, parts: /^Route/u });
    await using cloud = await cluster.world.create({ routeTableName: "rt0" });
    const route = { name: "", targetNode: "vmss0000000", destinationCIDR: "10.244.0.0/24" };
    const work = () => cloud.routes.createRoute("kubernetes", "", route);
    expect(await lostBy({ cluster, path, type, work })).toEqual([]);
  });
});
