import type { LoadBalancer, NetworkSecurityGroup, PublicIPAddress } from "@azure/arm-network";
import type { Node } from "cloud-controller-host/sdk";

import type { Observed, ServiceIntent } from "../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import type { Plan } from "../../../../plugins/azure-cloud/load-balancer/model/plan-model.ts";
import type { PlannerConfig } from "../../../../plugins/azure-cloud/load-balancer/model/planner-config.ts";
import { plan } from "../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { applied } from "./applied.ts";

const group = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network";

const idOf = (type: string, name: string): string => `${group}/${type}/${name}`;

/** Nodes `node-0`, … with an address of each family. */
export const nodesNamed = (...names: readonly string[]): readonly Node[] =>
  names.map((name, index) => ({
    metadata: { name, labels: {} },
    spec: { providerID: `azure:///${name}` },
    status: {
      addresses: [
        { type: "InternalIP", address: `10.240.0.${index + 4}` },
        { type: "InternalIP", address: `fd00::${index + 4}` },
      ],
    },
  }));

export const publicIP = (name: string, ipAddress: string, more: Partial<PublicIPAddress> = {}): PublicIPAddress => ({
  id: idOf("publicIPAddresses", name),
  location: "eastus",
  ipAddress,
  publicIPAddressVersion: ipAddress.includes(":") ? "IPv6" : "IPv4",
  publicIPAllocationMethod: "Static",
  sku: { name: "Standard" },
  ...named(name),
  ...more,
});

const named = (name: string) => ({ name });

/** The users' own parts of a load balancer, which must survive everything. */
export const usersBalancer = (name: string): LoadBalancer => {
  const at = (type: string, child: string): string => `${idOf("loadBalancers", name)}/${type}/${child}`;
  const frontend = at("frontendIPConfigurations", "users-frontend");
  return {
    ...named(name),
    id: idOf("loadBalancers", name),
    location: "eastus",
    sku: { name: "Standard" },
    tags: { team: "network" },
    frontendIPConfigurations: [
      { id: frontend, name: "users-frontend", publicIPAddress: { id: idOf("publicIPAddresses", "users-ip") } },
    ],
    backendAddressPools: [{ id: at("backendAddressPools", "users-pool"), name: "users-pool" }],
    probes: [{ id: at("probes", "users-probe"), name: "users-probe", protocol: "Tcp", port: 22, intervalInSeconds: 5 }],
    loadBalancingRules: [
      {
        id: at("loadBalancingRules", "users-rule"),
        name: "users-rule",
        protocol: "Tcp",
        frontendPort: 22,
        frontendIPConfiguration: { id: frontend },
      },
    ],
    outboundRules: [
      {
        name: "users-outbound",
        protocol: "All",
        frontendIPConfigurations: [{ id: frontend }],
        backendAddressPool: { id: at("backendAddressPools", "users-pool") },
      },
    ],
  };
};

const usersGroup: NetworkSecurityGroup = {
  ...named("nsg0"),
  id: idOf("networkSecurityGroups", "nsg0"),
  tags: { team: "network" },
  securityRules: [
    {
      name: "users-rule",
      priority: 501,
      access: "Allow",
      direction: "Inbound",
      protocol: "Tcp",
      destinationAddressPrefix: "*",
      destinationPortRange: "22",
      sourceAddressPrefix: "192.0.2.0/24",
      sourcePortRange: "*",
    },
  ],
};

/** A resource group with a security group, subnets and public IPs that users created. */
export function world(about: Partial<Observed> = {}): Observed {
  const subnet = (name: string, addressPrefix: string) => ({
    id: `${idOf("virtualNetworks", "vnet0")}/subnets/${name}`,
    name,
    addressPrefix,
  });
  return {
    loadBalancers: [],
    publicIPs: [publicIP("my-pip", "20.9.9.9"), publicIP("users-ip", "20.9.9.10")],
    securityGroup: usersGroup,
    privateLinkServices: [],
    subnets: new Map([
      ["subnet0", subnet("subnet0", "10.240.0.0/16")],
      ["lb-subnet", subnet("lb-subnet", "10.241.0.0/24")],
    ]),
    zones: ["1", "2", "3"],
    services: [],
    nodes: nodesNamed("node-0", "node-1"),
    deletedNodes: new Set(),
    poolMembers: new Map(),
    vmSets: new Map(),
    endpointNodes: new Map(),
    namespaceLabels: new Map(),
    ...about,
  };
}

export interface Converged {
  readonly observed: Observed;
  /** The plan that found nothing to write. */
  readonly last: Plan;
  readonly rounds: number;
}

/** Plans and applies until nothing is left to write. */
export function converge(intents: readonly ServiceIntent[], start: Observed, config: PlannerConfig): Converged {
  let observed = start;
  for (let rounds = 0; rounds < 6; rounds += 1) {
    const last = plan(intents, observed, config);
    if (last.stages.length === 0) return { observed, last, rounds };
    observed = applied(observed, last);
  }
  throw new Error("no end after 6 rounds");
}

/** Makes every write to the value an error, at any depth. */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  const inner: readonly unknown[] = value instanceof Map ? [...value.values()] : Object.values(value);
  for (const one of inner) deepFreeze(one);
  return value;
}
