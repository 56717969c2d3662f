import { isObject, type Node, type Service } from "cloud-controller-host/sdk";

import { type JsonObject, objectAt, objectsAt, stringAt } from "../../../plugins/azure-cloud/json.ts";
import type { AzureSimulator } from "../../../plugins/azure-cloud/simulator/simulator.ts";
import { type GoldenCase, type RecordedNode, type RecordedStep, stepsOf } from "./cases.ts";

const network = "/providers/Microsoft.Network";
const compute = "/providers/Microsoft.Compute";
const subnet = { id: `/subscriptions/sub0/resourceGroups/rg0${network}/virtualNetworks/vnet0/subnets/subnet0` };

/** The resource group in which every case begins. */
export function seedGroup(simulator: AzureSimulator): void {
  simulator.put(`${network}/virtualNetworks/vnet0`, {
    properties: {
      addressSpace: { addressPrefixes: ["10.240.0.0/16", "fd12:3456::/32"] },
      subnets: [
        { name: "subnet0", properties: { addressPrefixes: ["10.240.0.0/16", "fd12:3456::/48"] } },
        { name: "lb-subnet", properties: { addressPrefixes: ["10.240.128.0/17", "fd12:3456:8000::/48"] } },
      ],
    },
  });
  const usersRule = {
    access: "Allow",
    destinationAddressPrefix: "*",
    destinationPortRange: "22",
    direction: "Inbound",
    priority: 501,
    protocol: "Tcp",
    sourceAddressPrefix: "192.0.2.0/24",
    sourcePortRange: "*",
  };
  simulator.put(`${network}/networkSecurityGroups/nsg0`, {
    properties: { securityRules: [{ name: "a-users-own-rule", properties: usersRule }] },
  });
  simulator.put(`${network}/publicIPAddresses/my-pip`, {
    sku: { name: "Standard" },
    properties: { ipAddress: "20.9.9.9", publicIPAllocationMethod: "Static" },
  });
  simulator.put(`${network}/publicIPPrefixes/my-prefix`, {
    sku: { name: "Standard" },
    properties: { ipPrefix: "20.8.8.0/28", prefixLength: 28 },
  });
}

const routeTableId = `${network}/routeTables/rt0`;

/** The route tables as they were before the Go provider first wrote them: with the routes that are not of a node of the case. */
export function seedRoutes(simulator: AzureSimulator, golden: GoldenCase): void {
  const steps = stepsOf(golden).map(([, step]) => step);
  const names = new Set(steps.flatMap(({ nodes = [] }) => nodes.map(({ name }) => name)));
  const isForeign = (route: JsonObject): boolean => !names.has((stringAt(route, "name") ?? "").split("____")[0] ?? "");
  const tables = steps[0]?.arm.filter((item) => idOf(item).toLowerCase().includes("/routetables/")) ?? [];
  if (tables.length === 0) simulator.put(routeTableId, { properties: { routes: [] } });
  for (const table of tables) {
    const routes = objectsAt(objectAt(table, "properties"), "routes").filter(isForeign);
    const tags = objectAt(table, "tags");
    simulator.addResourceGroup(idOf(table).split("/")[4] ?? "");
    simulator.put(idOf(table), { ...(tags === undefined ? {} : { tags }), properties: { routes } });
  }
}

/** Names of IP configurations and, where a state is seeded, the pools that each is in. */
type Interfaces = ReadonlyMap<string, readonly string[]>;

const idOf = (item: JsonObject): string => stringAt(item, "id") ?? "";

/** The interfaces of a machine whose recorded id (of an instance, or of a NIC) ends so. */
function interfacesOf(step: RecordedStep, ending: string): Interfaces | undefined {
  const item = step.arm.find((entry) => "pools" in entry && idOf(entry).toLowerCase().endsWith(ending.toLowerCase()));
  if (item === undefined) return undefined;
  return new Map(
    objectsAt(item, "pools").map((entry) => [
      stringAt(entry, "ipConfiguration") ?? "",
      Array.isArray(entry["pools"]) ? entry["pools"].map(String) : [],
    ]),
  );
}

/** Addresses of a machine; Azure chooses those that are not given. */
interface Addresses {
  readonly IPv4?: string;
  readonly IPv6?: string;
}

const ipConfigurations = (interfaces: Interfaces, addresses: Addresses = {}): readonly JsonObject[] =>
  [...interfaces].map(([name, pools]) => {
    const family = /v6$/iu.test(name) ? "IPv6" : "IPv4";
    const privateIPAddress = addresses[family];
    return {
      name,
      properties: {
        primary: family === "IPv4",
        privateIPAddressVersion: family,
        ...(privateIPAddress === undefined ? {} : { privateIPAddress }),
        subnet,
        loadBalancerBackendAddressPools: pools.map((id) => ({ id })),
      },
    };
  });

const configurationsOf = (interfaces: Interfaces): readonly JsonObject[] => [
  { name: "nic0", properties: { primary: true, ipConfigurations: ipConfigurations(interfaces) } },
];

/** The IPv6 address of a machine, if its Node object or a recorded route shows it. */
function ipv6Of(golden: GoldenCase, { name, addresses }: RecordedNode): Addresses {
  const routes = stepsOf(golden)
    .flatMap(([, { arm }]) => arm)
    .flatMap((item) => objectsAt(objectAt(item, "properties"), "routes"))
    .filter((route) => stringAt(route, "name")?.startsWith(`${name}____`) === true);
  const hops = routes.map((route) => stringAt(objectAt(route, "properties"), "nextHopIpAddress") ?? "");
  const internal = addresses.filter(({ type }) => type === "InternalIP").map(({ address }) => address);
  const IPv6 = [...hops, ...internal].find((address) => address.includes(":"));
  return IPv6 === undefined ? {} : { IPv6 };
}

const without = (interfaces: Interfaces): Interfaces => new Map([...interfaces.keys()].map((name) => [name, []]));

/** All pools that some machine of a set is in: the Go provider keeps them in the set's model. */
function union(all: readonly Interfaces[]): Interfaces {
  const pools = new Map<string, string[]>();
  for (const interfaces of all)
    for (const [name, ids] of interfaces) pools.set(name, [...new Set([...(pools.get(name) ?? []), ...ids])]);
  return pools;
}

interface MachinePlace {
  readonly node: RecordedNode;
  /** Name of a uniform scale set, and instance id in it. */
  readonly scaleSet: string | undefined;
  readonly name: string;
}

function placeOf(node: RecordedNode): MachinePlace {
  const parts = node.providerID.split("/");
  const scaleSet = parts.findIndex((part) => part.toLowerCase() === "virtualmachinescalesets");
  return { node, scaleSet: scaleSet < 0 ? undefined : parts[scaleSet + 1], name: parts.at(-1) ?? "" };
}

const addressOf = ({ addresses }: RecordedNode): string =>
  addresses.find(({ type, address }) => type === "InternalIP" && address.includes("."))?.address ?? "";

const zoneOf = ({ labels = {} }: RecordedNode): string | undefined => {
  const zone = labels["topology.kubernetes.io/zone"] ?? "";
  return zone.includes("-") ? zone.slice(zone.lastIndexOf("-") + 1) : undefined;
};

/** Every node that a case has at some time. */
export function nodesOf(golden: GoldenCase): readonly RecordedNode[] {
  const all = [...(golden.nodes ?? []), ...stepsOf(golden).flatMap(([, { nodes = [] }]) => nodes)];
  return [...new Map(all.map((node) => [node.name, node])).values()];
}

/** The machines of a case, in the pools of a recorded state or in none. */
export function seedMachines(simulator: AzureSimulator, golden: GoldenCase, state: RecordedStep | undefined): void {
  const [first] = stepsOf(golden);
  const places = nodesOf(golden).map(placeOf);
  const bySet = Map.groupBy(places, ({ scaleSet }) => scaleSet);
  const recorded = (ending: string): Interfaces => {
    const names =
      interfacesOf(first?.[1] ?? { arm: [] }, ending) ??
      new Map([
        ["ipconfig0", []],
        ["ipconfigv6", []],
      ]);
    return (state === undefined ? undefined : interfacesOf(state, ending)) ?? without(names);
  };
  for (const [scaleSet, members] of bySet)
    if (scaleSet === undefined) seedVirtualMachines(simulator, golden, members, recorded);
    else seedUniform(simulator, { golden, scaleSet }, members, recorded);
}

function seedUniform(
  simulator: AzureSimulator,
  { golden, scaleSet }: { readonly golden: GoldenCase; readonly scaleSet: string },
  members: readonly MachinePlace[],
  recorded: (ending: string) => Interfaces,
): void {
  const ending = ({ name }: MachinePlace): string => `/${scaleSet}/virtualMachines/${name}`;
  const model = union(members.map((member) => recorded(ending(member))));
  simulator.put(`${compute}/virtualMachineScaleSets/${scaleSet}`, {
    sku: { name: "Standard_D2s_v3", tier: "Standard" },
    zones: ["1", "2", "3"],
    properties: {
      orchestrationMode: "Uniform",
      virtualMachineProfile: {
        osProfile: { computerNamePrefix: scaleSet },
        storageProfile: { osDisk: { osType: "Linux", createOption: "FromImage" } },
        networkProfile: { networkInterfaceConfigurations: configurationsOf(model) },
      },
    },
  });
  const byInstance = new Map(members.map((member) => [Number(member.name), member]));
  const last = Math.max(...byInstance.keys());
  for (let id = 0; id <= last; id++) {
    const member = byInstance.get(id);
    const zone = member && zoneOf(member.node);
    const [instance] = simulator.addScaleSetInstances(scaleSet, 1, {
      ...(member === undefined
        ? {}
        : {
            computerName: member.node.name,
            privateIP: addressOf(member.node),
            privateIPv6: ipv6Of(golden, member.node).IPv6,
            networkInterfaceConfigurations: configurationsOf(recorded(ending(member))),
          }),
      ...(zone === undefined ? {} : { zone }),
    });
    if (member === undefined) void simulator.removeInstance(instance?.computerName ?? "");
  }
}

/** Standalone machines of the availability set `as0`, or of the flexible scale set `flex0`. */
function seedVirtualMachines(
  simulator: AzureSimulator,
  golden: GoldenCase,
  members: readonly MachinePlace[],
  recorded: (ending: string) => Interfaces,
): void {
  const scope = "/subscriptions/sub0/resourceGroups/rg0";
  const flexible = stringAt(golden.cloudConfig, "vmType") !== "standard";
  const ending = ({ name }: MachinePlace): string => `/networkInterfaces/${name}-nic`;
  const set = flexible
    ? simulator.put(`${compute}/virtualMachineScaleSets/flex0`, {
        sku: { name: "Standard_D2s_v3", tier: "Standard" },
        properties: {
          orchestrationMode: "Flexible",
          virtualMachineProfile: {
            osProfile: { computerNamePrefix: "flex0" },
            storageProfile: { osDisk: { osType: "Linux", createOption: "FromImage" } },
            networkProfile: {
              networkApiVersion: "2020-11-01",
              networkInterfaceConfigurations: configurationsOf(
                union(members.map((member) => recorded(ending(member)))),
              ),
            },
          },
        },
      })
    : simulator.put(`${compute}/availabilitySets/as0`, { sku: { name: "Aligned" } });
  for (const member of members) {
    const { node, name } = member;
    const addresses = { IPv4: addressOf(node), ...ipv6Of(golden, node) };
    const nic = simulator.put(`${network}/networkInterfaces/${name}-nic`, {
      properties: { primary: true, ipConfigurations: ipConfigurations(recorded(ending(member)), addresses) },
    });
    const zone = zoneOf(node);
    simulator.put(`${scope}${compute}/virtualMachines/${name}`, {
      ...(zone === undefined ? {} : { zones: [zone] }),
      properties: {
        hardwareProfile: { vmSize: "Standard_D2s_v3" },
        osProfile: { computerName: node.name },
        networkProfile: { networkInterfaces: [{ id: nic.id, properties: { primary: true } }] },
        [flexible ? "virtualMachineScaleSet" : "availabilitySet"]: { id: set.id },
        instanceView: {
          platformFaultDomain: 0,
          statuses: [{ code: "ProvisioningState/succeeded" }, { code: "PowerState/running" }],
        },
      },
    });
  }
}

/** The order in which resources refer to each other. */
const order = ["publicipaddresses", "networksecuritygroups", "loadbalancers", "privatelinkservices", "routetables"];

const rank = (item: JsonObject): number => order.findIndex((type) => idOf(item).toLowerCase().includes(`/${type}/`));

/** The resources of a recorded state, as if the provider that recorded it had left them. */
export function seedResources(simulator: AzureSimulator, state: RecordedStep): void {
  const resources = state.arm.filter((item) => !("pools" in item));
  for (const item of resources.toSorted((one, other) => rank(one) - rank(other))) {
    const { id: _id, name: _name, type: _type, ...body } = item;
    simulator.put(idOf(item), withoutUnpublished(body));
    if (rank(item) === order.indexOf("privatelinkservices")) allowPrivateLinks(simulator, item);
  }
}

/** Frontends were recorded with a reference to their private link service, which ARM's published definitions lack. */
function withoutUnpublished(body: JsonObject): JsonObject {
  const properties = objectAt(body, "properties");
  if (properties === undefined || !("frontendIPConfigurations" in properties)) return body;
  const frontends = objectsAt(properties, "frontendIPConfigurations").map((frontend) => {
    const { privateLinkService: _service, ...kept } = objectAt(frontend, "properties") ?? {};
    return { ...frontend, properties: kept };
  });
  return { ...body, properties: { ...properties, frontendIPConfigurations: frontends } };
}

/** Before it creates a private link service, the provider switches the network policies of the subnet off. */
function allowPrivateLinks(simulator: AzureSimulator, service: JsonObject): void {
  const used = objectsAt(objectAt(service, "properties"), "ipConfigurations").map((item) =>
    idOf(objectAt(objectAt(item, "properties"), "subnet") ?? {}).toLowerCase(),
  );
  const vnet = simulator.get(`${network}/virtualNetworks/vnet0`);
  if (vnet === undefined) return;
  const subnets = objectsAt(vnet.properties, "subnets").map((item) => {
    const properties = isObject(item["properties"]) ? item["properties"] : {};
    if (!used.includes(idOf(item).toLowerCase())) return item;
    return { ...item, properties: { ...properties, privateLinkServiceNetworkPolicies: "Disabled" } };
  });
  simulator.put(vnet.id, { ...vnet, properties: { ...vnet.properties, subnets } });
}

/** A node as it is once the cloud has initialized it. */
export const nodeObject = ({ name, labels = {}, providerID, addresses, podCIDRs = [] }: RecordedNode): Node => ({
  apiVersion: "v1",
  kind: "Node",
  metadata: { name, labels: { ...labels } },
  spec: { providerID, ...(podCIDRs.length === 0 ? {} : { podCIDR: podCIDRs[0] ?? "", podCIDRs: [...podCIDRs] }) },
  status: {
    addresses: addresses.map((address) => ({ ...address })),
    conditions: [{ type: "Ready", status: "True", reason: "KubeletReady" }],
  },
});

/** A Service with its uid, cluster IPs and node ports; with what the provider wrote to it, or as its user created it. */
export function serviceObject(recorded: Service, adopted: boolean): Service {
  const {
    resourceVersion: _version,
    creationTimestamp: _created,
    finalizers = [],
    ...metadata
  } = recorded.metadata ?? {};
  const { status, ...rest } = recorded;
  return {
    ...rest,
    metadata: adopted ? { ...metadata, finalizers } : metadata,
    ...(adopted && status !== undefined ? { status } : {}),
  };
}
