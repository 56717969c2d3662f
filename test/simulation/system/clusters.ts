import { objectsAt } from "../../../plugins/azure-cloud/json.ts";
import type { AzureSimulator } from "../../../plugins/azure-cloud/simulator/simulator.ts";
import { randomOf } from "../timeline.ts";

/** How a cluster differs from one with a scale set, a load balancer and one family. */
export interface Cluster {
  /** Keys of its cloud config. */
  readonly config: Readonly<Record<string, unknown>>;
  /** The scale set whose nodes each load balancer has; undefined: all nodes. */
  readonly balancers: Readonly<Record<string, string | undefined>>;
  /** Uniform ones. */
  readonly scaleSets: readonly string[];
  /** Sets of VMs that have network interfaces of their own. */
  readonly virtualMachines: readonly string[];
  readonly dualStack: boolean;
  /** Services ask for addresses that others have. */
  readonly sharesAddresses: boolean;
  /** Services have Pods, most of them on a few nodes that alone get their traffic. */
  readonly hasPods: boolean;
  /** Of its Pods; each node has a /24 of it. */
  readonly podCIDR: string;
  /** How many nodes have one. */
  readonly podCIDRs: number;
}

/** VMs without a scale set, and those of a flexible one. */
export const standalone = "standalone";
export const flexible = "flex0";

const plain: Cluster = {
  config: {},
  balancers: { kubernetes: undefined },
  scaleSets: ["vmss0"],
  virtualMachines: [],
  dualStack: false,
  sharesAddresses: false,
  hasPods: false,
  podCIDR: "10.244.0.0/16",
  podCIDRs: 256,
};
const nodeIPs = { loadBalancerBackendPoolConfigurationType: "nodeIP" } as const;
const sets = { kubernetes: "vmss0", gold: "vmss1" } as const;
const several: Cluster = {
  ...plain,
  config: {
    ...nodeIPs,
    multipleStandardLoadBalancerConfigurations: Object.entries(sets).map(([name, primaryVMSet]) => ({
      name,
      primaryVMSet,
    })),
  },
  balancers: sets,
  scaleSets: Object.values(sets),
};

export const clusters = {
  plain,
  "dual-stack": { ...plain, dualStack: true },
  "node IPs": { ...plain, config: nodeIPs },
  "few Pod CIDRs": { ...plain, podCIDR: "10.244.0.0/22", podCIDRs: 4 },
  "several load balancers": several,
  "shared addresses": { ...plain, sharesAddresses: true },
  "virtual machines": { ...plain, virtualMachines: [standalone, flexible] },
  "node IPs of virtual machines": { ...plain, config: nodeIPs, virtualMachines: [standalone, flexible] },
  "shared addresses of node IPs": { ...plain, config: nodeIPs, sharesAddresses: true },
  "dual-stack shared addresses": { ...plain, dualStack: true, sharesAddresses: true },
  "Pods on several load balancers": { ...several, hasPods: true },
} as const satisfies Readonly<Record<string, Cluster>>;

export type ClusterName = keyof typeof clusters;
const isName = (name: string): name is ClusterName => name in clusters;
const clusterNames: readonly ClusterName[] = Object.keys(clusters).filter(isName);
/** Drawn in place of plain ones, each from a number of its own, so that the histories of all other seeds stay the same. */
const later: readonly (readonly [name: ClusterName, salt: number, share: number])[] = [
  ["shared addresses", 0x5a1e_d1b5, 1 / 3],
  ["virtual machines", 0x0f1e_c51c, 1 / 4],
  ["node IPs of virtual machines", 0x011f_3690, 1 / 4],
  ["shared addresses of node IPs", 0x4742_dd44, 1 / 4],
  ["dual-stack shared addresses", 0x6cd6_198a, 1 / 4],
  ["Pods on several load balancers", 0x10ca_15eb, 1 / 4],
];

/** The cluster of a seed, from numbers of its own: a third of them are plain. */
export function clusterNameOf(seed: number): ClusterName {
  const random = randomOf(seed ^ 0x0c10_57e5);
  const others = clusterNames.filter((name) => name !== "plain" && !later.some(([one]) => one === name));
  const first = random() < 0.5 ? "plain" : (others[Math.floor(random() * others.length)] ?? "plain");
  const [drawn] = later.find(([, salt, share]) => randomOf(seed ^ salt)() < share) ?? [];
  return first === "plain" ? (drawn ?? first) : first;
}

const vnet = "/providers/Microsoft.Network/virtualNetworks/vnet0";

/** Creates what the network of every simulator does not have. */
export function seedCluster(azure: AzureSimulator, { scaleSets, virtualMachines, dualStack }: Cluster): void {
  const { properties = {} } = azure.get(vnet) ?? {};
  const subnet = { name: "subnet1", properties: { addressPrefixes: ["10.241.0.0/16", "fd12:3457::/32"] } };
  azure.put(vnet, { properties: { ...properties, subnets: [...objectsAt(properties, "subnets"), subnet] } });
  for (const name of scaleSets) if (dualStack || name !== "vmss0") azure.addScaleSet({ name, dualStack });
  if (virtualMachines.includes(flexible)) azure.addScaleSet({ name: flexible, orchestrationMode: "Flexible" });
}
