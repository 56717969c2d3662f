import { expect } from "bun:test";

import { defaultLoadBalancerName, isObject, type Service } from "cloud-controller-host/sdk";

import { objectAt, objectsAt, stringAt } from "../../../../plugins/azure-cloud/json.ts";
import type { AzureSimulator } from "../../../../plugins/azure-cloud/simulator/simulator.ts";
import type { Cluster } from "./cluster.ts";

/** What the load balancers of a cluster have left in Azure, by name; sorted. */
export interface AzureState {
  readonly publicIPs: readonly string[];
  /** `<load balancer>/<frontend>` */
  readonly frontends: readonly string[];
  /** `<load balancer>/<rule>` */
  readonly rules: readonly string[];
  readonly probes: readonly string[];
  /** Load balancers that exist. */
  readonly balancers: readonly string[];
  /** Addresses in security rules of ours, with the port. */
  readonly allowed: readonly string[];
  /** Pools that an instance or the scale set's model is in, each once. */
  readonly pools: readonly string[];
}

const balancersType = "Microsoft.Network/loadBalancers";

export function azureState(simulator: AzureSimulator): AzureState {
  const resources = simulator.resources();
  const ofType = (type: string) => resources.filter((one) => one.type.toLowerCase() === type.toLowerCase());
  const children = (property: string): readonly string[] =>
    ofType(balancersType).flatMap(({ name, properties }) =>
      objectsAt(properties, property).map((child) => `${name}/${stringAt(child, "name")}`),
    );
  const rules = ofType("Microsoft.Network/networkSecurityGroups").flatMap(({ properties }) =>
    objectsAt(properties, "securityRules").filter((rule) => stringAt(rule, "name")?.startsWith("k8s-azure-lb")),
  );
  return {
    publicIPs: ofType("Microsoft.Network/publicIPAddresses")
      .map(({ name }) => name)
      .toSorted(),
    frontends: children("frontendIPConfigurations").toSorted(),
    rules: children("loadBalancingRules").toSorted(),
    probes: children("probes").toSorted(),
    balancers: ofType(balancersType)
      .map(({ name }) => name)
      .toSorted(),
    allowed: rules.flatMap(destinationsOf).toSorted(),
    pools: [...new Set(ofType("Microsoft.Compute/virtualMachineScaleSets").flatMap((set) => poolsIn(set)))].toSorted(),
  };
}

function destinationsOf(rule: object): readonly string[] {
  const properties = isObject(rule) ? objectAt(rule, "properties") : undefined;
  const list: unknown = properties?.["destinationAddressPrefixes"];
  const one = stringAt(properties, "destinationAddressPrefix");
  const addresses = [...(Array.isArray(list) ? list : []), ...(one === undefined ? [] : [one])];
  const ports: unknown = properties?.["destinationPortRanges"];
  return addresses.map((address) => `${address}:${Array.isArray(ports) ? ports.join() : ""}`);
}

const poolPattern = /loadBalancers\/([^/"]+)\/backendAddressPools/giu;
const poolsIn = (resource: object): readonly string[] =>
  [...JSON.stringify(resource).matchAll(poolPattern)].map(([, name]) => name ?? "");

/** What Azure must hold for these Services, apart from addresses, and nothing else. */
function expectedState(services: readonly Service[]): Omit<AzureState, "allowed"> {
  const parts = services.map((service) => {
    const internal = service.metadata?.annotations?.["service.beta.kubernetes.io/azure-load-balancer-internal"];
    const base = defaultLoadBalancerName(service);
    const balancer = internal === "true" ? "kubernetes-internal" : "kubernetes";
    const names = (service.spec?.ports ?? []).map(({ port, protocol }) => ({ port, protocol }));
    return {
      balancer,
      publicIPs: internal === "true" ? [] : [`kubernetes-${base}`],
      rules: names.map(({ port, protocol }) => `${balancer}/${base}-${protocol}-${port}`),
      probes: names.flatMap(({ port, protocol }) => (protocol === "TCP" ? [`${balancer}/${base}-TCP-${port}`] : [])),
      frontend: `${balancer}/${base}`,
    };
  });
  const balancers = [...new Set(parts.map(({ balancer }) => balancer))].toSorted();
  return {
    publicIPs: parts.flatMap(({ publicIPs }) => publicIPs).toSorted(),
    frontends: parts.map(({ frontend }) => frontend).toSorted(),
    rules: parts.flatMap(({ rules }) => rules).toSorted(),
    probes: parts.flatMap(({ probes }) => probes).toSorted(),
    balancers,
    pools: balancers,
  };
}

/** Addresses and ports that the Services' own statuses and ports ask for. */
const expectedAllowed = (services: readonly Service[]): readonly string[] =>
  services
    .filter(
      ({ metadata }) => metadata?.annotations?.["service.beta.kubernetes.io/azure-load-balancer-internal"] !== "true",
    )
    .flatMap(({ spec, status }) => {
      const byProtocol = Object.values(Object.groupBy(spec?.ports ?? [], ({ protocol }) => protocol ?? "TCP"));
      return (status?.loadBalancer?.ingress ?? []).flatMap(({ ip }) =>
        byProtocol.map(
          (ports) =>
            `${ip}:${(ports ?? [])
              .map(({ port }) => String(port))
              .toSorted()
              .join()}`,
        ),
      );
    })
    .toSorted();

/** No orphan, no duplicate and nothing missing, as far as the Services of the cluster go. */
export function expectConverged({ world, services }: Cluster): void {
  const wanted = [...services.values()];
  const { allowed, ...state } = azureState(world.simulator);
  expect(state).toEqual(expectedState(wanted));
  expect(allowed).toEqual(expectedAllowed(wanted));
}
