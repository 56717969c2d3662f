import { describe, expect, setDefaultTimeout, test } from "bun:test";

import type { Service } from "cloud-controller-host/sdk";

import { objectAt, objectsAt, stringAt } from "../../../../../plugins/azure-cloud/json.ts";
import { isNearly, limits } from "../../../../../plugins/azure-cloud/load-balancer/model/limits.ts";
import { errorOf } from "../../../../kit/rejection.ts";
import { type RawClient, rawClient, type RawReply } from "../../raw-client.ts";
import { type Cluster, openCluster, serviceOf, type ServiceOptions } from "../cluster.ts";

setDefaultTimeout(120_000);

const network = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network";
const balancer = `${network}/loadBalancers/kubernetes`;
const inner = `${balancer}-internal`;
const group = `${network}/networkSecurityGroups/nsg0`;
const subnet = { id: `${network}/virtualNetworks/vnet0/subnets/subnet0` };
const internal = { "azure-load-balancer-internal": "true" };
const nodeIP = { loadBalancerBackendPoolConfigurationType: "nodeIP" };

const range = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index);
const port = (number: number) => ({ name: `p${number}`, protocol: "TCP", port: number, nodePort: 30_000 + number });
const codeOf = ({ status, body }: RawReply): string =>
  status < 300 ? "accepted" : (stringAt(objectAt(body, "error"), "code") ?? "");

/** How one limit is reached, by the planner and in ARM. */
interface Edge {
  /** Of ARM. */
  readonly code: string;
  /** In the refusal of the planner. */
  readonly message: string;
  readonly config?: Readonly<Record<string, unknown>>;
  /** The Service that is there before. */
  readonly first?: ServiceOptions;
  /** Users' items of a resource, of which there is room for one more. `beyond`: for none. */
  readonly fill?: {
    readonly id: string;
    readonly property: string;
    readonly item: (index: number) => object;
    readonly most: number;
  };
  /** The Service that comes last. */
  late(beyond: number): Service;
  /** A write to ARM by another program: of as much as is allowed, and of one more. */
  write(arm: RawClient, cluster: Cluster, beyond: number): Promise<RawReply>;
}

const balancerRule = (index: number, pool?: string) => ({
  name: `users-${index}`,
  properties: {
    frontendIPConfiguration: { id: `${balancer}/frontendIPConfigurations/users` },
    ...(pool !== undefined && { backendAddressPool: { id: `${balancer}/backendAddressPools/${pool}` } }),
    protocol: "Tcp",
    frontendPort: index + 1,
    backendPort: index + 1,
  },
});
const securityRule = (index: number, sourceAddressPrefixes: readonly string[]) => ({
  name: `users-${index}`,
  properties: {
    priority: 3000 - index,
    direction: "Outbound",
    access: "Allow",
    protocol: "Tcp",
    sourceAddressPrefixes,
    sourcePortRange: "*",
    destinationAddressPrefix: "*",
    destinationPortRange: "80",
  },
});

/** Brings a resource's list to a length by users' items, without the checks of ARM. */
function fillTo(cluster: Cluster, { id, property, item, most }: NonNullable<Edge["fill"]>, room: number): void {
  const { simulator } = cluster.world;
  const resource = simulator.get(id) ?? {};
  const properties = objectAt(resource, "properties") ?? {};
  const present = objectsAt(properties, property);
  const items = [...present, ...range(most - present.length - room).map(item)];
  simulator.put(id, { ...resource, properties: { ...properties, [property]: items } });
}

/** Writes a resource with one item more than it has, or as it is. */
async function putWith(arm: RawClient, id: string, property: string, items: readonly object[]): Promise<RawReply> {
  const { body } = await arm("GET", id);
  const properties = objectAt(body, "properties") ?? {};
  const all = [...objectsAt(properties, property), ...items];
  return arm("PUT", id, { body: { ...body, properties: { ...properties, [property]: all } } });
}

/** An edge of a list of a resource: another program writes the list that the planner met. */
const listEdge = (
  fill: NonNullable<Edge["fill"]>,
  about: Omit<Edge, "fill" | "write" | "late"> & { readonly late: ServiceOptions },
): Edge => ({
  ...about,
  fill,
  late: () => serviceOf("late", about.late),
  write: (arm, cluster, beyond) => {
    fillTo(cluster, fill, 0);
    return putWith(
      arm,
      fill.id,
      fill.property,
      range(beyond).map(() => fill.item(fill.most)),
    );
  },
});

const tagged = (tags: Readonly<Record<string, string>>) =>
  serviceOf("late", {
    annotations: {
      "azure-pip-tags": Object.entries(tags)
        .map((pair) => pair.join("="))
        .join(),
    },
  });
const putTags = (arm: RawClient, tags: Readonly<Record<string, string>>) =>
  arm("PUT", `${network}/publicIPAddresses/users`, { body: { tags, properties: {} } });
const tagsOf = (count: number) => Object.fromEntries(range(count).map((index) => [`t${index}`, "v"]));
/** Tags that the cloud itself adds to a public IP. */
const ownTags = 2;

const linkOf = (name: string, options: ServiceOptions = {}): Service =>
  serviceOf(name, { ...options, annotations: { ...internal, "azure-pls-create": "true", ...options.annotations } });
const putLink = (arm: RawClient, name: string, frontend: string, addresses = 1) =>
  arm("PUT", `${network}/privateLinkServices/${name}`, {
    body: {
      properties: {
        loadBalancerFrontendIpConfigurations: [{ id: frontend }],
        ipConfigurations: range(addresses).map((index) => ({ name: `c${index}`, properties: { subnet } })),
      },
    },
  });
async function allowLinks(arm: RawClient): Promise<void> {
  const { body } = await arm("GET", subnet.id);
  const properties = { ...objectAt(body, "properties"), privateLinkServiceNetworkPolicies: "Disabled" };
  await arm("PUT", subnet.id, { body: { ...body, properties } });
}

const inNamespace = (namespace: string, service: Service): Service => ({
  ...service,
  metadata: { ...service.metadata, namespace },
});

/** Every limit of the table but routes, which are not of Services. */
const edges: Readonly<Record<Exclude<keyof typeof limits, "routesPerTable">, Edge>> = {
  rulesPerLoadBalancer: listEdge(
    {
      id: balancer,
      property: "loadBalancingRules",
      item: (index) => balancerRule(index),
      most: limits.rulesPerLoadBalancer,
    },
    {
      code: "LoadBalancerRuleCountLimitReached",
      message: "load balancer kubernetes can have 1500 rules and would have 1501",
      config: nodeIP,
      late: { spec: { ports: [port(81)] } },
    },
  ),
  rulesPerInterface: listEdge(
    {
      id: balancer,
      property: "loadBalancingRules",
      item: (index) => balancerRule(index, "kubernetes"),
      most: limits.rulesPerInterface,
    },
    {
      code: "LoadBalancerRuleCountLimitReachedForNic",
      message: "each node's network interface behind load balancer kubernetes can have 300 rules and would have 301",
      late: { spec: { ports: [port(81)] } },
    },
  ),
  frontendsPerLoadBalancer: listEdge(
    {
      id: inner,
      property: "frontendIPConfigurations",
      item: (index) => ({ name: `users-${index}`, properties: { subnet } }),
      most: limits.frontendsPerLoadBalancer,
    },
    {
      code: "LoadBalancerFrontendIPConfigurationCountLimitReached",
      message: "load balancer kubernetes-internal can have 600 frontends and would have 601",
      first: { annotations: internal },
      late: { annotations: internal },
    },
  ),
  rulesPerSecurityGroup: listEdge(
    {
      id: group,
      property: "securityRules",
      item: (index) => securityRule(index, ["10.0.0.0/8"]),
      most: limits.rulesPerSecurityGroup,
    },
    {
      code: "SecurityRuleCountLimitReached",
      message: "the security group exceeds the maximum number of rules (1000)",
      late: { spec: { ports: [port(81)] } },
    },
  ),
  prefixesPerSecurityGroup: {
    code: "SecurityRuleAddressPrefixesCountLimitReached",
    message: "the security group exceeds the maximum number of source prefixes (4000)",
    // The rule of the first Service has one source, and that of the last one brings two.
    late: (beyond) => {
      const count = limits.prefixesPerSecurityGroup - 1 + beyond;
      const loadBalancerSourceRanges = range(count).map((index) => `20.${index >> 7}.${(index & 127) * 2}.0/24`);
      return serviceOf("late", { spec: { ports: [port(81)], loadBalancerSourceRanges } });
    },
    write: (arm, _cluster, beyond) => {
      const count = limits.prefixesPerSecurityGroup + beyond;
      const rules = [securityRule(0, range(count - 1).map(prefixOf)), securityRule(1, ["10.0.0.0/8"])];
      return arm("PUT", group, { body: { properties: { securityRules: rules } } });
    },
  },
  privateLinksPerLoadBalancer: {
    code: "PrivateLinkServiceCountLimitReached",
    message: "load balancer kubernetes-internal can have 8 private link services and would have 9",
    first: { annotations: { ...internal, "azure-pls-create": "true" } },
    late: () => linkOf("late", { spec: { ports: [port(81)] } }),
    async write(arm, cluster, beyond) {
      await allowLinks(arm);
      const { privateLinksPerLoadBalancer: most } = limits;
      fillTo(cluster, { ...innerFrontends, most: 2 * most + 2 }, 0);
      const present = cluster.world.simulator.resources().filter(({ type }) => type.endsWith("privateLinkServices"));
      const count = most + beyond - present.length;
      const replies: RawReply[] = [];
      for (const index of range(count))
        replies.push(await putLink(arm, `pls${index}`, `${inner}/frontendIPConfigurations/users-${index}`));
      return (
        replies.find(({ status }) => status >= 300) ?? putLink(arm, "pls0", `${inner}/frontendIPConfigurations/users-0`)
      );
    },
  },
  addressesPerPrivateLink: {
    code: "PrivateLinkServiceIpConfigurationCountLimitReached",
    message: "is not an integer from 1 to 8",
    first: { annotations: internal },
    late: (beyond) =>
      linkOf("late", {
        annotations: { "azure-pls-ip-configuration-ip-address-count": `${limits.addressesPerPrivateLink + beyond}` },
        spec: { ports: [port(81)] },
      }),
    async write(arm, cluster, beyond) {
      await allowLinks(arm);
      fillTo(cluster, { ...innerFrontends, most: 3 }, 0);
      return putLink(arm, "pls", `${inner}/frontendIPConfigurations/users-0`, limits.addressesPerPrivateLink + beyond);
    },
  },
  tagsPerResource: {
    code: "TooManyTags",
    message: "the public IP would have 51 tags, 50 at most",
    late: (beyond) => tagged(tagsOf(limits.tagsPerResource - ownTags + beyond)),
    write: (arm, _cluster, beyond) => putTags(arm, tagsOf(limits.tagsPerResource + beyond)),
  },
  tagNameLength: {
    code: "TagNameTooLarge",
    message: "a key has 512 characters",
    late: (beyond) => tagged({ ["n".repeat(limits.tagNameLength + beyond)]: "v" }),
    write: (arm, _cluster, beyond) => putTags(arm, { ["n".repeat(limits.tagNameLength + beyond)]: "v" }),
  },
  tagValueLength: {
    code: "TagValueTooLarge",
    message: "a value 256 at most",
    late: (beyond) => tagged({ n: "v".repeat(limits.tagValueLength + beyond) }),
    write: (arm, _cluster, beyond) => putTags(arm, { n: "v".repeat(limits.tagValueLength + beyond) }),
  },
  nameLength: {
    code: "InvalidResourceName",
    message: "would have 81 characters, 80 at most; shorten the names of the Service and its namespace",
    config: { ...nodeIP, multipleStandardLoadBalancerConfigurations: [{ name: "kubernetes", primaryVMSet: "vmss0" }] },
    // The pool of a Service with local traffic has the names of both.
    late: (beyond) =>
      inNamespace("n".repeat(40), serviceOf("s".repeat(39 + beyond), { spec: { externalTrafficPolicy: "Local" } })),
    write: (arm, _cluster, beyond) =>
      putWith(arm, balancer, "backendAddressPools", [{ name: "p".repeat(limits.nameLength + beyond) }]),
  },
};

const innerFrontends = {
  id: inner,
  property: "frontendIPConfigurations",
  item: (index: number) => ({ name: `users-${index}`, properties: { subnet } }),
};
const prefixOf = (index: number): string => `10.${index >> 8}.${index & 255}.0/24`;

const nameOf = ({ metadata }: Service): string => `${metadata?.namespace}/${metadata?.name}`;

async function startedAt({ config = {}, first = {} }: Edge): Promise<Cluster> {
  const cluster = await openCluster(1, { operationStyle: "none" });
  await cluster.ensure(await cluster.start(config), serviceOf("first", first));
  return cluster;
}

/** A frontend of users, for rules of users. */
const usersFrontend = (cluster: Cluster): void => {
  const { simulator } = cluster.world;
  const pip = simulator.put(`${network}/publicIPAddresses/users-ip`, { sku: { name: "Standard" }, properties: {} });
  const resource = simulator.get(balancer);
  if (resource === undefined) return;
  const frontends = objectsAt(resource.properties, "frontendIPConfigurations");
  const frontend = { name: "users", properties: { publicIPAddress: { id: pip.id } } };
  const properties = { ...resource.properties, frontendIPConfigurations: [...frontends, frontend] };
  simulator.put(balancer, { ...resource, properties });
};

describe("the planner plans the last Service that ARM accepts at a limit of Azure, and refuses the first one that ARM refuses", () => {
  const rows = Object.entries(edges);
  test.each(rows)(
    "the planner plans the last Service that ARM accepts at a limit of Azure, and refuses the first one that ARM refuses: %s",
    async (limit, edge) => {
      for (const beyond of [0, 1]) {
        await using cluster = await startedAt(edge);
        usersFrontend(cluster);
        if (limit === "privateLinksPerLoadBalancer") await links(cluster, beyond);
        if (edge.fill !== undefined) fillTo(cluster, edge.fill, 1 - beyond);
        const generation = await cluster.start(edge.config);
        cluster.world.simulator.clearLog();
        const late = edge.late(beyond);
        const error = await errorOf(cluster.ensure(generation, late));
        const label = `${limit} ${beyond}: ${String(error)}`;
        if (beyond === 0) expect([label, error]).toEqual([label, undefined]);
        else expect(String(error)).toContain(edge.message);
        const written = cluster.writes().filter((write) => !write.includes("publicIPAddresses"));
        expect(written.length > 0).toBe(beyond === 0);
        // Nothing that ARM refused: the planner knew.
        expect(cluster.world.simulator.log.filter(({ status }) => status === 400)).toEqual([]);
        expect(cluster.services.has(nameOf(late))).toBe(true);
      }
    },
  );

  test.each(rows)(
    "ARM accepts the write of another program at a limit of Azure, and refuses one with more: %s",
    async (_limit, edge) => {
      for (const beyond of [0, 1]) {
        await using cluster = await startedAt(edge);
        usersFrontend(cluster);
        const reply = await edge.write(await rawClient(cluster.world.simulator), cluster, beyond);
        expect(codeOf(reply)).toBe(beyond === 0 ? "accepted" : edge.code);
      }
    },
  );

  async function links(cluster: Cluster, beyond: number): Promise<void> {
    const generation = await cluster.start();
    const count = limits.privateLinksPerLoadBalancer - 2 + beyond;
    for (const index of range(count))
      await cluster.ensure(generation, linkOf(`link-${index}`, { spec: { ports: [port(90 + index)] } }));
  }
});

describe("two Services that reach a limit of Azure at the same moment: one gets the last place, the other fails with the limit", () => {
  const { rulesPerInterface: edge } = edges;
  const atOnce = [81, 82].map((number) => serviceOf(`late-${number}`, { spec: { ports: [port(number)] } }));

  test("two Services that reach a limit of Azure at the same moment: one gets the last place, the other fails with the limit, in one process", async () => {
    await using cluster = await startedAt(edge);
    usersFrontend(cluster);
    if (edge.fill !== undefined) fillTo(cluster, edge.fill, 1);
    const generation = await cluster.start();
    const [first, second] = await Promise.all(atOnce.map((service) => errorOf(cluster.ensure(generation, service))));
    expect([first, String(second)]).toEqual([undefined, expect.stringContaining(edge.message)]);
    expect(String(second)).toContain("use fewer ports");
    // The place is free again with the Service that has it.
    for (const service of atOnce.slice(0, 1)) await cluster.remove(generation, service);
    for (const service of atOnce.slice(1)) expect(await errorOf(cluster.ensure(generation, service))).toBeUndefined();
  });

  test("two Services that reach a limit of Azure at the same moment: one gets the last place, the other fails with the limit, in two processes", async () => {
    await using cluster = await startedAt(edge);
    usersFrontend(cluster);
    if (edge.fill !== undefined) fillTo(cluster, edge.fill, 1);
    const processes = [await cluster.start(), await cluster.start()];
    const ensureAll = () =>
      Promise.all(
        atOnce.map(async (service, index) => {
          const generation = processes[index];
          return generation === undefined ? undefined : errorOf(cluster.ensure(generation, service));
        }),
      );
    await ensureAll();
    const errors = (await ensureAll()).filter((error) => error !== undefined);
    expect(errors.map(String)).toEqual([expect.stringContaining(edge.message)]);
  });

  test("two Services that reach a limit of Azure at the same moment: one gets the last place, the other fails with the limit, of public IPs, which only ARM knows", async () => {
    await using cluster = await openCluster(1, { operationStyle: "none", limits: { publicIPAddresses: 1 } });
    const generation = await cluster.start();
    const errors = await Promise.all(atOnce.map((service) => errorOf(cluster.ensure(generation, service))));
    const refused = errors.filter((error) => error !== undefined);
    expect(refused.map(String)).toEqual([
      expect.stringContaining("PublicIPCountLimitReached: Cannot create more than 1 public IP addresses"),
    ]);
  });
});

test("inbound NAT rules count as rules of a load balancer, in ARM as in the planner", async () => {
  await using cluster = await startedAt(edges.rulesPerLoadBalancer);
  usersFrontend(cluster);
  fillTo(
    cluster,
    {
      ...innerFrontends,
      id: balancer,
      property: "loadBalancingRules",
      item: (index) => balancerRule(index),
      most: limits.rulesPerLoadBalancer,
    },
    1,
  );
  const arm = await rawClient(cluster.world.simulator);
  const nat = (count: number) =>
    range(count).map((index) => {
      const { name, properties } = balancerRule(5000 + index);
      return { name: `nat-${name}`, properties };
    });
  expect(codeOf(await putWith(arm, balancer, "inboundNatRules", nat(2)))).toBe("LoadBalancerRuleCountLimitReached");
  expect(codeOf(await putWith(arm, balancer, "inboundNatRules", nat(1)))).toBe("accepted");
});

test("a limit is nearly reached from 80 % on, as the alert has it", () => {
  expect([isNearly(239, 300), isNearly(240, 300), isNearly(6, 8), isNearly(7, 8)]).toEqual([false, true, false, true]);
});
