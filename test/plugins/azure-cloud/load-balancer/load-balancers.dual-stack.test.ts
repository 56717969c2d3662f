import { describe, expect, test } from "bun:test";

import type { Node } from "cloud-controller-host/sdk";

import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import type { JsonObject } from "../../../../plugins/azure-cloud/json.ts";
import { instanceID, nodeOf } from "../world.ts";
import { type Cluster, fast, type Generation, openCluster, serviceOf } from "./cluster.ts";

const scope = "/subscriptions/sub0/resourceGroups/rg0/providers";
const subnet = { id: `${scope}/Microsoft.Network/virtualNetworks/vnet0/subnets/subnet0` };
const excludeLabel = "node.kubernetes.io/exclude-from-external-load-balancers";

const families = { ipFamilies: ["IPv4", "IPv6"] };
const external = serviceOf("web", { spec: families });
const internal = serviceOf("inside", { spec: families, annotations: { "azure-load-balancer-internal": "true" } });

/** Puts a virtual machine with one network interface, `vm-0-nic`, that has an address of each family. */
function putMachine({ simulator }: Cluster["world"], index: number, more: JsonObject = {}): string {
  const configurations = [
    { name: "ipv4", properties: { primary: true, subnet, privateIPAddressVersion: "IPv4" } },
    { name: "ipv6", properties: { primary: false, subnet, privateIPAddressVersion: "IPv6" } },
  ];
  simulator.put(`/providers/Microsoft.Network/networkInterfaces/vm-${index}-nic`, {
    location: "eastus",
    properties: { ipConfigurations: configurations },
  });
  const networkInterfaces = [{ id: `${scope}/Microsoft.Network/networkInterfaces/vm-${index}-nic` }];
  const properties = { networkProfile: { networkInterfaces }, ...more };
  simulator.put(`/providers/Microsoft.Compute/virtualMachines/vm-${index}`, { location: "eastus", properties });
  return `azure://${scope}/Microsoft.Compute/virtualMachines/vm-${index}`;
}

const node = (index: number, providerID: string): Node => ({
  ...nodeOf(`node-${index}`, { providerID }),
  status: {
    addresses: [
      { type: "InternalIP", address: `10.240.0.${index + 4}` },
      { type: "InternalIP", address: `fd12:3456::${index + 4}` },
    ],
  },
});

interface Machines {
  readonly kind: string;
  /** What is written for the instances from `first` on. */
  readonly writes: (first: number, end: number) => readonly string[];
  /** Written as well with the first members, and with the last ones. */
  readonly models: readonly string[];
  readonly add: (cluster: Cluster, count: number) => readonly string[];
}

const range = (first: number, end: number): readonly number[] =>
  Array.from({ length: end - first }, (_, index) => first + index);

const interfaces = (first: number, end: number): readonly string[] =>
  range(first, end).map((index) => `PUT networkInterfaces/vm-${index}-nic`);

const kinds: readonly Machines[] = [
  {
    kind: "an instance of a uniform scale set",
    writes: (first, end) => range(first, end).map((index) => `PUT virtualMachines/${index}`),
    models: ["PUT virtualMachineScaleSets/dual"],
    add({ world }, count) {
      world.simulator.addScaleSet({ name: "dual", dualStack: true });
      world.simulator.addScaleSetInstances("dual", count);
      return range(0, count).map((index) => instanceID(index, "dual"));
    },
  },
  {
    kind: "the network interface of a virtual machine",
    writes: interfaces,
    models: [],
    add: ({ world }, count) => range(0, count).map((index) => putMachine(world, index)),
  },
  {
    kind: "the network interface of a virtual machine of a flexible scale set",
    writes: interfaces,
    models: ["PUT virtualMachineScaleSets/flex"],
    add({ world }, count) {
      const { id } = world.simulator.addScaleSet({ name: "flex", orchestrationMode: "Flexible", dualStack: true });
      return range(0, count).map((index) => putMachine(world, index, { virtualMachineScaleSet: { id } }));
    },
  },
];

/** The writes of instances, network interfaces and models, in the order of their names. */
const memberWrites = (cluster: Cluster): readonly string[] =>
  cluster
    .writes()
    .filter((write) => /virtualMachine|networkInterfaces/u.test(write))
    .toSorted();

/** What `work` writes of members, in the order of their names. */
async function writesOf(cluster: Cluster, work: () => Promise<unknown>): Promise<readonly string[]> {
  cluster.world.simulator.clearLog();
  await work();
  return memberWrites(cluster);
}

const update = async (
  { balancers }: Generation,
  { services, nodes }: Cluster,
  without: readonly string[] = [],
): Promise<void> => {
  const listed = nodes.filter(({ metadata }) => !without.includes(metadata?.name ?? ""));
  const results = await balancers.updateLoadBalancers("kubernetes", [...services.values()], listed);
  expect(results.map(({ status }) => status)).toEqual(results.map(() => "fulfilled"));
};

/** How many members each pool has, in the order of its id. */
async function sizes({ world }: Cluster): Promise<readonly number[]> {
  const { clients } = await world.reads({});
  const balancers = await Array.fromAsync(clients.network.loadBalancers.list("rg0"));
  return balancers
    .flatMap(({ backendAddressPools = [] }) => backendAddressPools)
    .map(({ backendIPConfigurations = [] }) => backendIPConfigurations.length);
}

const excluded = (one: Node): Node => ({ ...one, metadata: { ...one.metadata, labels: { [excludeLabel]: "" } } });

describe.each([
  ["one load balancer", [external]],
  ["an external and an internal load balancer", [external, internal]],
])("membership of the pools of both families of %s", (_title, services) => {
  test.each(kinds.map((kind) => [kind.kind, kind] as const))(
    "%s is written once when its node joins, and once when it leaves",
    async (_kind, { add, writes, models }) => {
      await using cluster = await openCluster(0);
      const nodes = add(cluster, 6).map((id, index) => node(index, id));
      cluster.nodes.push(...nodes.slice(0, 4));
      const metrics = new MetricsRegistry();
      const generation = await cluster.start({}, fast(10), { metrics: metrics.root });
      const counted = async (): Promise<number | undefined> => {
        const samples = await metrics.samples("cloudprovider_azure_load_balancer_writes_total");
        return samples.find(({ labels }) => labels["kind"] === "update-members")?.value;
      };
      const pools = services.flatMap(() => ["IPv4", "IPv6"]);
      const membersIn = (count: number): readonly number[] => pools.map(() => count);

      // The load balancers are created one after the other.
      const [first, ...others] = services;
      if (first === undefined) throw new Error("no Service");
      const created = await writesOf(cluster, () => cluster.ensure(generation, first));
      expect(created).toEqual([...models, ...writes(0, 4)].toSorted());
      expect(await counted()).toBe(created.length);
      for (const other of others) await cluster.ensure(generation, other);
      expect(await sizes(cluster)).toEqual(membersIn(4));

      const before = (await counted()) ?? 0;
      cluster.nodes.push(...nodes.slice(4));
      expect(await writesOf(cluster, () => update(generation, cluster))).toEqual(writes(4, 6));
      expect(await sizes(cluster)).toEqual(membersIn(6));

      cluster.nodes.splice(0, 3, ...nodes.slice(0, 3).map(excluded));
      const left = await writesOf(cluster, () => update(generation, cluster, ["node-0", "node-1", "node-2"]));
      expect(left).toEqual(writes(0, 3));
      expect(await sizes(cluster)).toEqual(membersIn(3));
      expect(await counted()).toBe(before + 5);

      for (const other of others) await cluster.remove(generation, other);
      const deleted = await writesOf(cluster, () => cluster.remove(generation, first));
      expect(deleted).toEqual([...models, ...writes(3, 6)].toSorted());
      expect(await sizes(cluster)).toEqual([]);
    },
  );
});
