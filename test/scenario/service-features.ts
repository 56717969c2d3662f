import { expect } from "bun:test";

import { defaultLoadBalancerName, isObject, kinds, type Service } from "cloud-controller-host/sdk";

import { type JsonObject, objectAt, objectsAt, stringAt, stringsAt } from "../../plugins/azure-cloud/json.ts";
import type { AzureSimulator } from "../../plugins/azure-cloud/simulator/simulator.ts";
import { addressesOf, balancedService, patchService } from "../kit/services.ts";
import type { LabOptions, ServiceLab } from "./service-lab.ts";

/** One feature of Services of type LoadBalancer: what users ask for, and what Azure must then hold. */
export interface Feature extends LabOptions {
  /** Completes "a Service …". */
  readonly promise: string;
  readonly services: readonly Service[];
  /** Addresses that each Service gets; default 1. */
  readonly addresses?: number;
  readonly before?: (lab: ServiceLab) => void | Promise<void>;
  readonly created: (azure: AzureView, services: readonly Service[], lab: ServiceLab) => void;
  /** A change in the middle of the life of the Services. */
  readonly later?: (lab: ServiceLab, azure: AzureView, services: readonly Service[]) => Promise<void>;
}

const network = "/providers/Microsoft.Network";

const propertiesOf = (item: JsonObject): JsonObject => objectAt(item, "properties") ?? {};

/** Reads the simulated Azure by the names that Services give to resources. */
export class AzureView {
  readonly #simulator: AzureSimulator;

  constructor(simulator: AzureSimulator) {
    this.#simulator = simulator;
  }

  /** Items of a load balancer's array property, by name, with their properties at the top level. */
  items(property: string, balancer = "kubernetes"): ReadonlyMap<string, JsonObject> {
    const found = this.#simulator.get(`${network}/loadBalancers/${balancer}`);
    const items = objectsAt(found?.properties, property);
    return new Map(items.map((item) => [stringAt(item, "name") ?? "", propertiesOf(item)]));
  }

  /** Names of the load balancers. */
  balancers(): readonly string[] {
    return this.#simulator
      .resources()
      .filter(({ type }) => type.toLowerCase() === "microsoft.network/loadbalancers")
      .map(({ name }) => name)
      .toSorted();
  }

  publicIP(name: string): JsonObject | undefined {
    return this.#simulator.get(`${network}/publicIPAddresses/${name}`);
  }

  /** Security rules of ours: `allow`, source, destination and port of each. */
  securityRules(): readonly string[] {
    const group = this.#simulator.get(`${network}/networkSecurityGroups/nsg0`);
    return objectsAt(group?.properties, "securityRules")
      .filter((rule) => stringAt(rule, "name")?.startsWith("k8s-azure-lb"))
      .map(propertiesOf)
      .map((rule) => {
        const words = ["access", "protocol", "source", "destination", "ports"] as const;
        const of = {
          access: stringAt(rule, "access")?.toLowerCase(),
          protocol: stringAt(rule, "protocol"),
          source: listAt(rule, "sourceAddressPrefix", "sourceAddressPrefixes"),
          destination: listAt(rule, "destinationAddressPrefix", "destinationAddressPrefixes"),
          ports: listAt(rule, "destinationPortRange", "destinationPortRanges"),
        };
        return words.map((word) => of[word]).join(" ");
      })
      .toSorted();
  }

  get(id: string): JsonObject | undefined {
    return this.#simulator.get(id);
  }

  /** Pools that a VM's network interface is in, as `load balancer/pool`. */
  poolsOf(vm: string): readonly string[] {
    const instance = this.#simulator.instances("vmss0").find(({ computerName }) => computerName === vm);
    const nic = this.#simulator.get(`${network}/networkInterfaces/${vm}-nic`);
    const text = JSON.stringify(instance?.networkInterfaceConfigurations ?? nic ?? {});
    const found = [...text.matchAll(/loadBalancers\/([^/"]+)\/backendAddressPools\/([^/"]+)/giu)];
    return [...new Set(found.map(([, balancer, pool]) => `${balancer}/${pool}`))].toSorted();
  }

  /** Addresses in a pool by node IP. */
  poolAddresses(pool = "kubernetes", balancer = "kubernetes"): readonly string[] {
    return objectsAt(this.items("backendAddressPools", balancer).get(pool), "loadBalancerBackendAddresses")
      .flatMap((item) => stringAt(propertiesOf(item), "ipAddress") ?? [])
      .toSorted();
  }

  /**
   * All that the life of a Service may leave behind: every resource without its etag, and the interfaces of instances.
   * An array that is empty is the same as one that is absent.
   */
  footprint(): ReadonlyMap<string, unknown> {
    const sets = this.#simulator.resources().filter(({ type }) => /virtualMachineScaleSets$/iu.test(type));
    const instances = sets.flatMap(({ id }) =>
      this.#simulator.instances(id).map(({ computerName, networkInterfaceConfigurations }) => ({
        id: computerName,
        networkInterfaceConfigurations,
      })),
    );
    const all: readonly JsonObject[] = [...this.#simulator.resources(), ...instances];
    return new Map(all.map((item) => [stringAt(item, "id") ?? "", lasting(item)]));
  }
}

function listAt(rule: JsonObject, one: string, many: string): string {
  const list = stringsAt(rule, many);
  return (list.length > 0 ? list.toSorted() : [stringAt(rule, one) ?? ""]).join(",");
}

/** Fields that ARM changes by itself with every write. */
const passing = new Set(["etag", "provisioningState", "resourceGuid"]);

const isEmpty = (value: unknown): boolean =>
  value === undefined ||
  (Array.isArray(value) && value.length === 0) ||
  (isObject(value) && Object.keys(value).length === 0);

function lasting(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(lasting);
  if (!isObject(value)) return value;
  const kept = Object.entries(value)
    .filter(([key]) => !passing.has(key))
    .map(([key, inner]) => [key, lasting(inner)] as const)
    .filter(([, inner]) => !isEmpty(inner));
  return Object.fromEntries(kept.toSorted(([one], [other]) => (one < other ? -1 : 1)));
}

type Spec = Partial<NonNullable<Service["spec"]>>;

const service = (
  name: string,
  annotations: Readonly<Record<string, string>> = {},
  spec: Spec = {},
  labels: Readonly<Record<string, string>> = {},
): Service => {
  const made = balancedService(name, spec);
  const prefixed = Object.entries(annotations).map(([key, value]) => [`service.beta.kubernetes.io/${key}`, value]);
  return { ...made, metadata: { ...made.metadata, labels: { ...labels }, annotations: Object.fromEntries(prefixed) } };
};

const port = (number: number, protocol = "TCP") => ({
  name: `port-${number}-${protocol.toLowerCase()}`,
  port: number,
  protocol,
});

/** The first Service's load balancer name, from which all its other names begin. */
const base = ([first]: readonly Service[]): string => defaultLoadBalancerName(first ?? {});

const addressOf = ([first]: readonly Service[]): string => addressesOf(first)[0] ?? "";

const internal = { "azure-load-balancer-internal": "true" };

const allVMs = ["vmss0000000", "vmss0000001", "vmss0000002"];

const annotate = (lab: ServiceLab, name: string, values: Readonly<Record<string, string | null>>): Promise<Service> =>
  patchService(lab.admin, name, {
    metadata: {
      annotations: Object.fromEntries(
        Object.entries(values).map(([key, value]) => [`service.beta.kubernetes.io/${key}`, value]),
      ),
    },
  });

const allow = (destination: string, source = "Internet", ports = "80", protocol = "Tcp"): string =>
  `allow ${protocol} ${source} ${destination} ${ports}`;

const usersIP = (azure: AzureView): unknown => azure.publicIP("my-pip");

const traffic: readonly Feature[] = [
  {
    promise: "with a TCP port gets a public address, a rule, a probe, all nodes and an open port",
    services: [service("web")],
    created(azure, services) {
      const name = base(services);
      const rule = azure.items("loadBalancingRules").get(`${name}-TCP-80`);
      expect(rule).toMatchObject({ protocol: "Tcp", frontendPort: 80, backendPort: 80, enableFloatingIP: true });
      expect([...azure.items("probes").keys()]).toEqual([`${name}-TCP-80`]);
      expect(azure.publicIP(`kubernetes-${name}`)).toMatchObject({ properties: { ipAddress: addressOf(services) } });
      for (const vm of allVMs) expect(azure.poolsOf(vm)).toEqual(["kubernetes/kubernetes"]);
      expect(azure.securityRules()).toEqual([allow(addressOf(services))]);
    },
  },
  {
    promise: "with a UDP port gets a rule without a probe",
    services: [service("dns", {}, { ports: [port(53, "UDP")] })],
    created(azure, services) {
      expect(azure.items("loadBalancingRules").get(`${base(services)}-UDP-53`)).toMatchObject({ protocol: "Udp" });
      expect(azure.items("probes").size).toBe(0);
      expect(azure.securityRules()).toEqual([allow(addressOf(services), "Internet", "53", "Udp")]);
    },
  },
  {
    promise: "with one port for TCP and UDP gets both rules on one frontend",
    services: [service("dns", {}, { ports: [port(53), port(53, "UDP")] })],
    created(azure, services) {
      const name = base(services);
      expect([...azure.items("loadBalancingRules").keys()].toSorted()).toEqual([`${name}-TCP-53`, `${name}-UDP-53`]);
      expect(azure.items("frontendIPConfigurations").size).toBe(1);
    },
  },
  {
    promise: "with settings of its connections has them in its rule",
    services: [
      service(
        "web",
        { "azure-load-balancer-tcp-idle-timeout": "10", "azure-load-balancer-disable-tcp-reset": "true" },
        { sessionAffinity: "ClientIP" },
      ),
    ],
    created(azure, services) {
      expect(azure.items("loadBalancingRules").get(`${base(services)}-TCP-80`)).toMatchObject({
        idleTimeoutInMinutes: 10,
        enableTcpReset: false,
        loadDistribution: "SourceIP",
      });
    },
  },
  {
    promise: "without floating IP gets its node port behind the rule, and the nodes' addresses opened",
    services: [service("web", { "azure-disable-load-balancer-floating-ip": "true" })],
    created(azure, services) {
      const nodePort = services[0]?.spec?.ports?.[0]?.nodePort;
      const rule = azure.items("loadBalancingRules").get(`${base(services)}-TCP-80`);
      expect(rule).toMatchObject({ backendPort: nodePort, enableFloatingIP: false });
      // As in the Go provider: of both families, although the Service has one.
      expect(azure.securityRules().toSorted()).toEqual([
        allow("10.240.0.4,10.240.0.5,10.240.0.6", "Internet", String(nodePort)),
        allow("fd12:3456::4,fd12:3456::5,fd12:3456::6", "Internet", String(nodePort)),
      ]);
    },
  },
  {
    promise: "with externalTrafficPolicy Local is probed at its health check node port",
    services: [service("web", {}, { externalTrafficPolicy: "Local" })],
    created(azure, services) {
      const [probe] = azure.items("probes").values();
      const healthPort = services[0]?.spec?.healthCheckNodePort;
      expect(probe).toMatchObject({ protocol: "Http", port: healthPort, requestPath: "/healthz" });
    },
  },
  {
    promise: "shares one probe with the others in shared probe mode",
    config: { clusterServiceLoadBalancerHealthProbeMode: "shared" },
    services: [service("one"), service("two", {}, { ports: [port(81)] })],
    created(azure) {
      expect([...azure.items("probes").keys()]).toEqual(["cluster-service-shared-health-probe"]);
      expect(azure.items("loadBalancingRules").size).toBe(2);
    },
  },
  {
    promise: "with a probe of its own has that one",
    services: [
      service("web", {
        "azure-load-balancer-health-probe-protocol": "http",
        "azure-load-balancer-health-probe-request-path": "/ready",
        "port_80_health-probe_interval": "7",
        "port_80_health-probe_num-of-probe": "3",
      }),
    ],
    created(azure) {
      const [probe] = azure.items("probes").values();
      expect(probe).toMatchObject({ protocol: "Http", requestPath: "/ready", intervalInSeconds: 7, probeThreshold: 3 });
    },
  },
];

const frontends: readonly Feature[] = [
  {
    promise: "that is internal gets an address of the cluster's subnet",
    services: [service("web", internal)],
    created(azure, services) {
      expect(addressOf(services)).toStartWith("10.240.");
      expect(azure.balancers()).toEqual(["kubernetes-internal"]);
      expect(azure.publicIP(`kubernetes-${base(services)}`)).toBeUndefined();
    },
  },
  {
    promise: "that is internal gets the address of the subnet that it names",
    services: [
      service("web", {
        ...internal,
        "azure-load-balancer-internal-subnet": "lb-subnet",
        "azure-load-balancer-ipv4": "10.240.128.10",
      }),
    ],
    created(azure, services) {
      expect(addressesOf(services[0])).toEqual(["10.240.128.10"]);
      const frontend = azure
        .items("frontendIPConfigurations", "kubernetes-internal")
        .get(`${base(services)}-lb-subnet`);
      expect(frontend).toMatchObject({ privateIPAddress: "10.240.128.10", privateIPAllocationMethod: "Static" });
    },
  },
  {
    promise: "that is internal gets one rule for all ports with high-availability ports",
    services: [service("web", { ...internal, "azure-load-balancer-enable-high-availability-ports": "true" })],
    created(azure) {
      const [rule] = azure.items("loadBalancingRules", "kubernetes-internal").values();
      expect(rule).toMatchObject({ protocol: "All", frontendPort: 0, backendPort: 0 });
    },
  },
  {
    promise: "that becomes internal loses its public address, and gets one back when it is external again",
    services: [service("web")],
    created: (azure) => expect(azure.balancers()).toEqual(["kubernetes"]),
    async later(lab, azure) {
      await annotate(lab, "web", internal);
      await lab.eventually("it is internal", () => azure.balancers().join() === "kubernetes-internal");
      await lab.eventually("its address is private", async () =>
        addressOf([await lab.served("web")]).startsWith("10."),
      );
      await annotate(lab, "web", { "azure-load-balancer-internal": null });
      await lab.eventually("it is external", () => azure.balancers().join() === "kubernetes");
      await lab.eventually(
        "its address is public",
        async () => !addressOf([await lab.served("web")]).startsWith("10."),
      );
    },
  },
  {
    promise: "gets an address of each family in a dual-stack cluster",
    addresses: 2,
    services: [service("web", {}, { ipFamilyPolicy: "RequireDualStack", ipFamilies: ["IPv4", "IPv6"] })],
    created(azure, services) {
      const name = base(services);
      expect([...azure.items("frontendIPConfigurations").keys()].toSorted()).toEqual([name, `${name}-IPv6`]);
      expect(azure.poolsOf("vmss0000000")).toEqual(["kubernetes/kubernetes", "kubernetes/kubernetes-IPv6"]);
      const [four = "", six = ""] = addressesOf(services[0]);
      expect(azure.securityRules()).toEqual([allow(four), allow(six)].toSorted());
    },
  },
  {
    promise: "of the family IPv6 gets an IPv6 address",
    services: [service("web", {}, { ipFamilyPolicy: "SingleStack", ipFamilies: ["IPv6"] })],
    created(azure, services) {
      expect(addressOf(services)).toContain(":");
      expect([...azure.items("backendAddressPools").keys()]).toEqual(["kubernetes-IPv6"]);
    },
  },
];

const publicAddresses: readonly Feature[] = [
  {
    promise: "uses the public IP that it names, and leaves it to its user",
    services: [service("web", { "azure-pip-name": "my-pip" })],
    created: (_, services) => expect(addressesOf(services[0])).toEqual(["20.9.9.9"]),
  },
  {
    promise: "uses the public IP that has its loadBalancerIP, and leaves it to its user",
    services: [service("web", {}, { loadBalancerIP: "20.9.9.9" })],
    created: (azure, services) => {
      expect(addressesOf(services[0])).toEqual(["20.9.9.9"]);
      expect(usersIP(azure)).toBeDefined();
    },
  },
  {
    promise: "shares the frontend of a public IP with others, which keep it when it is deleted",
    services: [
      service("one", { "azure-pip-name": "my-pip" }),
      service("two", { "azure-pip-name": "my-pip" }, { ports: [port(81)] }),
    ],
    created(azure, services) {
      expect(services.map((one) => addressesOf(one))).toEqual([["20.9.9.9"], ["20.9.9.9"]]);
      expect(azure.items("frontendIPConfigurations").size).toBe(1);
      expect(azure.items("loadBalancingRules").size).toBe(2);
    },
    async later(lab, azure, services) {
      await lab.remove("one");
      expect([...azure.items("loadBalancingRules").keys()]).toEqual([`${base(services.slice(1))}-TCP-81`]);
      expect(azure.securityRules()).toEqual([allow("20.9.9.9", "Internet", "81")]);
      await lab.create(service("one", { "azure-pip-name": "my-pip" }));
      await lab.served("one");
    },
  },
  {
    promise: "gets an address of the prefix that it names",
    services: [
      service("web", {
        "azure-pip-prefix-id":
          "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/publicIPPrefixes/my-prefix",
      }),
    ],
    created(azure, services) {
      expect(azure.publicIP(`kubernetes-${base(services)}-my-prefix`)).toMatchObject({
        properties: { publicIPPrefix: { id: expect.stringMatching(/my-prefix$/u) } },
      });
    },
  },
  {
    promise: "shows its additional public IPs, and has them opened",
    addresses: 2,
    services: [service("web", { "azure-additional-public-ips": "20.7.7.7" })],
    created(azure, services) {
      const [own = "", additional] = addressesOf(services[0]);
      expect(additional).toBe("20.7.7.7");
      expect(azure.securityRules()).toEqual([allow([own, "20.7.7.7"].toSorted().join())]);
    },
  },
  {
    promise: "has its DNS label and tags on its public IP",
    services: [service("web", { "azure-dns-label-name": "my-web", "azure-pip-tags": "team=a" })],
    created(azure, services) {
      expect(azure.publicIP(`kubernetes-${base(services)}`)).toMatchObject({
        tags: { team: "a", "k8s-azure-service": "default/web", "k8s-azure-dns-label-service": "default/web" },
        properties: { dnsSettings: { domainNameLabel: "my-web", fqdn: expect.stringContaining("my-web.eastus") } },
      });
    },
  },
];

const access: readonly Feature[] = [
  {
    promise: "with source ranges is open to them alone",
    services: [service("web", {}, { loadBalancerSourceRanges: ["192.0.2.0/24", "198.51.100.0/24"] })],
    created: (azure, services) =>
      expect(azure.securityRules()).toEqual([allow(addressOf(services), "192.0.2.0/24,198.51.100.0/24")]),
  },
  {
    promise: "with service tags is open to them alone",
    services: [service("web", { "azure-allowed-service-tags": "AzureCloud,Storage" })],
    created: (azure, services) =>
      expect(azure.securityRules()).toEqual([
        allow(addressOf(services), "AzureCloud"),
        allow(addressOf(services), "Storage"),
      ]),
  },
  {
    promise: "with allowed IP ranges is open to them, and follows a change of them",
    services: [service("web", { "azure-allowed-ip-ranges": "192.0.2.0/24" })],
    created: (azure, services) => expect(azure.securityRules()).toEqual([allow(addressOf(services), "192.0.2.0/24")]),
    async later(lab, azure, services) {
      await annotate(lab, "web", { "azure-allowed-ip-ranges": "203.0.113.0/24" });
      const wanted = allow(addressOf(services), "203.0.113.0/24");
      await lab.eventually("the new range is open", () => azure.securityRules().join() === wanted);
    },
  },
  {
    promise: "that denies all but its ranges has a rule that does",
    services: [
      service(
        "web",
        { "azure-deny-all-except-load-balancer-source-ranges": "true" },
        { loadBalancerSourceRanges: ["192.0.2.0/24"] },
      ),
    ],
    created: (azure, services) =>
      expect(azure.securityRules()).toEqual([
        allow(addressOf(services), "192.0.2.0/24"),
        `deny * * ${addressOf(services)} *`,
      ]),
  },
  {
    promise: "that opts out of security rules has none",
    services: [service("web", { "azure-disable-load-balancer-nsg-rule": "true" })],
    created: (azure) => expect(azure.securityRules()).toEqual([]),
  },
  {
    promise: "gets a private link service, which is deleted with it",
    services: [service("web", { ...internal, "azure-pls-create": "true", "azure-pls-name": "my-link" })],
    before: (lab) => {
      // What stays for good: the policies of the subnet, which only its owner switches on again.
      const vnet = lab.simulator.get(`${network}/virtualNetworks/vnet0`);
      const subnets = objectsAt(vnet?.properties, "subnets").map((subnet) =>
        stringAt(subnet, "name") === "subnet0"
          ? { ...subnet, properties: { ...propertiesOf(subnet), privateLinkServiceNetworkPolicies: "Disabled" } }
          : subnet,
      );
      lab.simulator.put(`${network}/virtualNetworks/vnet0`, { ...vnet, properties: { ...vnet?.properties, subnets } });
    },
    created(azure) {
      expect(azure.get(`${network}/privateLinkServices/my-link`)).toMatchObject({
        tags: { "k8s-azure-owner-service": "default/web", "k8s-azure-cluster-name": "kubernetes" },
      });
    },
  },
];

const excluded = "node.kubernetes.io/exclude-from-external-load-balancers";

const patchNode = (lab: ServiceLab, name: string, value: string | null) =>
  lab.admin.patch(kinds.Node, { name }, "merge", { metadata: { labels: { [excluded]: value } } });

const multiple = {
  multipleStandardLoadBalancerConfigurations: [
    { name: "kubernetes", primaryVMSet: "vmss0" },
    { name: "gold", primaryVMSet: "vmss1", serviceLabelSelector: { matchLabels: { tier: "gold" } } },
  ],
  loadBalancerBackendPoolConfigurationType: "nodeIP",
  loadBalancerBackendPoolUpdateIntervalInSeconds: 1,
};

const pools: readonly Feature[] = [
  ...(["flexible", "availability set", "standalone"] as const).map((machines): Feature => ({
    promise: `has the VMs of the nodes in its pool: ${machines}`,
    machines,
    services: [service("web")],
    created(azure) {
      for (const vm of ["vm-0", "vm-1", "vm-2"]) expect(azure.poolsOf(vm)).toEqual(["kubernetes/kubernetes"]);
    },
  })),
  {
    promise: "has the addresses of the nodes in a pool by node IP",
    config: { loadBalancerBackendPoolConfigurationType: "nodeIP" },
    services: [service("web")],
    created(azure) {
      expect(azure.poolAddresses()).toEqual(["10.240.0.4", "10.240.0.5", "10.240.0.6"]);
      expect(azure.poolsOf("vmss0000000")).toEqual([]);
    },
  },
  {
    promise: "loses a node that is excluded or deleted, and gets it back",
    services: [service("web")],
    created: (azure) => expect(azure.poolsOf("vmss0000002")).toEqual(["kubernetes/kubernetes"]),
    async later(lab, azure) {
      const isIn = (): boolean => azure.poolsOf("vmss0000002").length === 1;
      await patchNode(lab, "vmss0000002", "true");
      await lab.eventually("the excluded node is out", () => !isIn());
      await patchNode(lab, "vmss0000002", null);
      await lab.eventually("the included node is in", isIn);
      await lab.admin.delete(kinds.Node, { name: "vmss0000002" });
      await lab.eventually("the deleted node is out", () => !isIn());
      expect(azure.poolsOf("vmss0000001")).toEqual(["kubernetes/kubernetes"]);
    },
  },
  {
    promise: "is on the load balancer that the cloud config names",
    config: { loadBalancerName: "edge" },
    services: [service("web"), service("inside", internal)],
    created: (azure) => expect(azure.balancers()).toEqual(["edge", "edge-internal"]),
  },
  {
    promise: "is on the load balancer that selects it",
    config: multiple,
    services: [service("web"), service("rich", {}, {}, { tier: "gold" })],
    created(azure, services) {
      expect([...azure.items("loadBalancingRules").keys()]).toEqual([`${base(services)}-TCP-80`]);
      expect([...azure.items("loadBalancingRules", "gold").keys()]).toEqual([`${base(services.slice(1))}-TCP-80`]);
    },
  },
  {
    promise: "with externalTrafficPolicy Local has only the nodes of its endpoints on one of multiple load balancers",
    config: multiple,
    services: [service("web", {}, { externalTrafficPolicy: "Local" })],
    before: (lab) => setEndpoints(lab, "web", "vmss0000001"),
    created: (azure) => expect(azure.poolAddresses("default-web")).toEqual(["10.240.0.5"]),
    async later(lab, azure) {
      await setEndpoints(lab, "web", "vmss0000000");
      await lab.eventually("the pool follows", () => azure.poolAddresses("default-web").join() === "10.240.0.4");
      await lab.eventually("the event is there", async () =>
        (await lab.events("web")).some(({ reason }) => reason === "LoadBalancerBackendPoolUpdated"),
      );
    },
  },
];

async function setEndpoints({ admin }: ServiceLab, name: string, nodeName: string): Promise<void> {
  const at = { namespace: "default", name: `${name}-slice` };
  await admin.delete(kinds.EndpointSlice, at).catch(() => undefined);
  await admin.create(kinds.EndpointSlice, {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { ...at, labels: { "kubernetes.io/service-name": name } },
    addressType: "IPv4",
    endpoints: [{ addresses: ["10.1.0.4"], nodeName }],
  });
}

export const features: readonly Feature[] = [...traffic, ...frontends, ...publicAddresses, ...access, ...pools];
