import { afterAll, beforeEach } from "bun:test";

import { defaultLoadBalancerName, type Service } from "cloud-controller-host/sdk";

import type { JsonObject } from "../../../../plugins/azure-cloud/json.ts";
import { simulateAzure } from "../../../kit/azure.ts";
import { balancedService } from "../../../kit/services.ts";
import { AzureView } from "../azure-view.ts";
import type { Machine } from "../machines.ts";

/** A Service with its name in Azure. */
export interface Named {
  readonly service: Service;
  readonly base: string;
}

export function named(name: string, digit: string): Named {
  const { metadata, ...rest } = balancedService(name);
  const service = { ...rest, metadata: { ...metadata, uid: digit.repeat(32) } };
  return { service, base: defaultLoadBalancerName(service) };
}

interface SecurityRule {
  /** Start of its name; default: that of ours. */
  readonly name?: string;
  readonly to: readonly string[];
  readonly ports?: readonly string[];
  readonly access?: "Allow" | "Deny";
  readonly protocol?: string;
}

/** A load-balancing rule of a Service, by the start of its name, on a frontend. */
export const rule = (base: string, frontend: string, port = 80, protocol = "Tcp") => ({
  base,
  frontend,
  port,
  protocol,
});

interface Balancer {
  /** Each with the name of its public IP, or with a private address. */
  readonly frontends: readonly (readonly [name: string, address: string])[];
  readonly rules?: readonly (ReturnType<typeof rule> & { readonly enableFloatingIP?: boolean })[];
  readonly probes?: readonly string[];
  /** The pool of all rules. Default: that of the cluster. */
  readonly pool?: string;
  /** Addresses in it. */
  readonly members?: readonly string[];
}

/** A simulated Azure for the tests of a file, with the machines of some nodes, and empty at the start of each. */
export async function azureRig(nodes: readonly Pick<Machine, "name" | "privateIP">[] = []) {
  const azure = await simulateAzure();
  const { simulator } = azure;
  const scope = `/subscriptions/${simulator.subscriptionId}/resourceGroups/${simulator.resourceGroup}`;
  const idOf = (type: string, name: string): string => `${scope}/providers/Microsoft.Network/${type}/${name}`;
  const frontendOf = ([name, address]: Balancer["frontends"][number]): JsonObject => ({
    name,
    properties: address.includes(".")
      ? {
          privateIPAddress: address,
          privateIPAllocationMethod: "Static",
          subnet: { id: `${idOf("virtualNetworks", "vnet0")}/subnets/subnet0` },
        }
      : { publicIPAddress: { id: idOf("publicIPAddresses", address) } },
  });

  const memberOf = (ipAddress: string): JsonObject => ({ name: ipAddress, properties: { ipAddress } });

  const putBalancer = (
    { frontends, rules = [], probes = [], pool = "kubernetes", members = [] }: Balancer,
    balancer = "kubernetes",
  ): void =>
    void simulator.put(idOf("loadBalancers", balancer), {
      sku: { name: "Standard" },
      properties: {
        frontendIPConfigurations: frontends.map(frontendOf),
        backendAddressPools: [{ name: pool, properties: { loadBalancerBackendAddresses: members.map(memberOf) } }],
        loadBalancingRules: rules.map(({ base, frontend, port, protocol, enableFloatingIP = true }) => ({
          name: `${base}-${protocol.toUpperCase()}-${port}`,
          properties: {
            protocol,
            frontendPort: port,
            backendPort: port,
            enableFloatingIP,
            frontendIPConfiguration: { id: `${idOf("loadBalancers", balancer)}/frontendIPConfigurations/${frontend}` },
            backendAddressPool: { id: `${idOf("loadBalancers", balancer)}/backendAddressPools/${pool}` },
          },
        })),
        probes: probes.map((name) => ({ name, properties: { protocol: "Tcp", port: 80, intervalInSeconds: 5 } })),
      },
    });

  /** Its name may be in the tag of Services; returns its address. */
  function putPublicIP(name: string, owners?: string): string {
    const tags = owners === undefined ? {} : { "k8s-azure-service": owners };
    const properties = { publicIPAllocationMethod: "Static", publicIPAddressVersion: "IPv4" };
    const body = { sku: { name: "Standard" }, tags, properties };
    return String(simulator.put(idOf("publicIPAddresses", name), body).properties?.["ipAddress"]);
  }

  function putRules(...rules: readonly SecurityRule[]): void {
    const securityRules = rules.map(
      ({ name = "k8s-azure-lb_allow", to, ports = ["80"], access = "Allow", protocol = "Tcp" }, index) => ({
        name: `${name}_${index}`,
        properties: {
          protocol,
          access,
          direction: "Inbound",
          priority: 500 + index,
          sourcePortRange: "*",
          sourceAddressPrefix: "Internet",
          destinationPortRanges: ports,
          ...(to.length === 1 ? { destinationAddressPrefix: to[0] } : { destinationAddressPrefixes: to }),
        },
      }),
    );
    simulator.put(idOf("networkSecurityGroups", "nsg0"), { properties: { securityRules } });
  }

  const machines = nodes.map((node) => ({ ...node, set: "vmss0", path: "", owner: node.name }));
  afterAll(() => azure[Symbol.asyncDispose]());
  beforeEach(() => {
    for (const { id } of simulator.resources())
      if (/\/(?:loadBalancers|publicIPAddresses|privateLinkServices)\//u.test(id)) simulator.delete(id);
    putRules();
  });
  return { simulator, idOf, putBalancer, putPublicIP, putRules, view: () => new AzureView(simulator, machines) };
}
