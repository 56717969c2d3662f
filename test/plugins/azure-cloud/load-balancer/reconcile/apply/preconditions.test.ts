import { describe, expect, test } from "bun:test";

import {
  annotations as annotationKeys,
  defaultLoadBalancerName,
  type InformerHandler,
  isObject,
  keyOf,
  type Service,
} from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { type JsonObject, objectAt, objectsAt, stringAt } from "../../../../../../plugins/azure-cloud/json.ts";
import {
  hasSameChildren,
  hasSameClaim,
  hasSameOwners,
  isSameExceptEtags,
  NewServices,
} from "../../../../../../plugins/azure-cloud/load-balancer/reconcile/apply/preconditions.ts";
import type { Resource } from "../../../../../../plugins/azure-cloud/simulator/state/store.ts";
import { errorOf } from "../../../../../kit/rejection.ts";
import { type Cluster, fast, type Generation, openCluster, serviceOf } from "../../cluster.ts";

const group = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network";
const path = `${group}/loadBalancers/kubernetes`;
const subnetPath = `${group}/virtualNetworks/vnet0/subnets/subnet0`;
const internal = { "azure-load-balancer-internal": "true" };

function found({ world }: Cluster, pattern: RegExp): Resource {
  const one = world.simulator.resources().find(({ id }) => pattern.test(id));
  if (one === undefined) throw new Error(`no resource ${pattern.source}`);
  return one;
}

const balancer = (cluster: Cluster): Resource => found(cluster, /loadBalancers\/kubernetes$/u);
const namesAt = ({ properties }: Resource, key: string): readonly (string | undefined)[] =>
  objectsAt(properties, key).map((one) => stringAt(one, "name"));

/** Adds to a resource as another writer would. */
function change({ world }: Cluster, one: Resource, properties: JsonObject, rest: JsonObject = {}): void {
  world.simulator.put(one.id, { ...one, ...rest, properties: { ...one.properties, ...properties } });
}

const without =
  (type: string) =>
  (all: readonly Resource[]): readonly Resource[] =>
    all.filter((one) => !one.type.toLowerCase().endsWith(`/${type.toLowerCase()}`));

/** An outbound rule with its frontend and its public IP, beside what the load balancer has. */
function addEgress(cluster: Cluster): void {
  const { simulator } = cluster.world;
  const { id } = simulator.put(`${group}/publicIPAddresses/egress`, {
    sku: { name: "Standard" },
    properties: { ipAddress: "20.9.9.8" },
  });
  const one = simulator.get(path);
  const frontend = { name: "egress", properties: { publicIPAddress: { id } } };
  const pool = { name: "egress", properties: {} };
  const rule = {
    name: "egress",
    properties: {
      protocol: "All",
      frontendIPConfigurations: [{ id: `${path}/frontendIPConfigurations/egress` }],
      backendAddressPool: { id: `${path}/backendAddressPools/egress` },
    },
  };
  simulator.put(path, {
    ...one,
    sku: { name: "Standard" },
    properties: {
      ...one?.properties,
      frontendIPConfigurations: [...objectsAt(one?.properties, "frontendIPConfigurations"), frontend],
      backendAddressPools: [...objectsAt(one?.properties, "backendAddressPools"), pool],
      outboundRules: [rule],
    },
  });
}

describe.each([
  ["honors", { ignoresIfNoneMatch: false }],
  ["ignores", { ignoresIfNoneMatch: true }],
])("ARM that %s If-None-Match", (_verb, options) => {
  test("a load balancer that another writer created since the last list is not replaced", async () => {
    await using cluster = await openCluster(1, options);
    const generation = await cluster.start();
    await cluster.ensure(generation, serviceOf("first", { annotations: internal }));
    addEgress(cluster);
    await cluster.ensure(generation, serviceOf("web"));
    expect(namesAt(balancer(cluster), "outboundRules")).toEqual(["egress"]);
    expect(namesAt(balancer(cluster), "frontendIPConfigurations")).toHaveLength(2);
  });

  test("a load balancer that a list lacks keeps the frontends of all other Services", async () => {
    await using cluster = await openCluster(1, options);
    const first = await cluster.start();
    for (const name of ["a", "b", "c"]) await cluster.ensure(first, serviceOf(name));
    const next = await cluster.start();
    cluster.world.simulator.changeLists(without("loadBalancers"));
    await cluster.ensure(next, serviceOf("d"));
    expect(namesAt(balancer(cluster), "frontendIPConfigurations")).toHaveLength(4);
  });

  test("a public IP that a list lacks keeps its tags", async () => {
    await using cluster = await openCluster(1, options);
    await cluster.ensure(await cluster.start(), serviceOf("a"));
    const one = found(cluster, /publicIPAddresses\/kubernetes-a/u);
    change(cluster, one, {}, { tags: { ...objectAt(one, "tags"), costcenter: "42" } });
    const next = await cluster.start();
    cluster.world.simulator.changeLists(without("publicIPAddresses"));
    await cluster.ensure(next, serviceOf("a"));
    expect(objectAt(found(cluster, /publicIPAddresses\/kubernetes-a/u), "tags")).toMatchObject({ costcenter: "42" });
  });
});

describe("the public IP of a Service", () => {
  const web = serviceOf("web");
  const isPublicIP = /publicIPAddresses\/kubernetes-a/u;
  const requests = ({ world }: Cluster): readonly string[] =>
    world.simulator.log.flatMap((one) => (isPublicIP.test(one.path) ? [one.method] : []));
  /** A process that leads, and what must happen before it plans anything. */
  async function leading(cluster: Cluster): Promise<Generation> {
    const generation = await cluster.start();
    void generation.balancers.run(new AbortController().signal);
    return generation;
  }

  test("the public IP of a Service that was created since this process has led is created without a read", async () => {
    await using cluster = await openCluster(1, { operationStyle: "none" });
    await cluster.ensure(await leading(cluster), web);
    expect(requests(cluster)).toEqual(["PUT"]);
  });

  test("the public IP of a Service that is older than this process's lead is read before it is created", async () => {
    await using cluster = await openCluster(1, { operationStyle: "none" });
    cluster.services.set(keyOf(web), web);
    await cluster.ensure(await leading(cluster), web);
    expect(requests(cluster)).toEqual(["GET", "PUT"]);
  });

  test("the public IP of a Service whose creation has failed is read before it is created again", async () => {
    await using cluster = await openCluster(1, { operationStyle: "none" });
    const generation = await leading(cluster);
    cluster.world.simulator.failNext({ method: "PUT", path: isPublicIP }, { status: 500, code: "Broken", times: 10 });
    await errorOf(cluster.ensure(generation, web));
    cluster.world.simulator.clearFailures();
    cluster.world.simulator.clearLog();
    await cluster.ensure(generation, web);
    expect(requests(cluster).slice(-2)).toEqual(["GET", "PUT"]);
  });

  test("the public IP of a Service that was created by this process, and that a list lacks before it has a frontend, keeps its tags", async () => {
    await using cluster = await openCluster(1, { ignoresIfNoneMatch: true });
    const generation = await cluster.start({ disableAPICallCache: true });
    void generation.balancers.run(new AbortController().signal);
    cluster.world.simulator.failNext({ method: "PUT", path: "/loadBalancers/" }, { status: 400, code: "Refused" });
    expect(await errorOf(cluster.ensure(generation, web))).toMatchObject({ code: "RetryAfter" });
    const one = found(cluster, isPublicIP);
    change(cluster, one, {}, { tags: { ...objectAt(one, "tags"), costcenter: "42" } });
    cluster.world.simulator.changeLists(without("publicIPAddresses"));
    await errorOf(cluster.ensure(generation, web));
    expect(objectAt(found(cluster, isPublicIP), "tags")).toMatchObject({ costcenter: "42" });
  });

  test("the public IP of a Service that was created by this process and that a list lacks later keeps its tags", async () => {
    await using cluster = await openCluster(1, { ignoresIfNoneMatch: true });
    const generation = await cluster.start({ disableAPICallCache: true });
    void generation.balancers.run(new AbortController().signal);
    await cluster.ensure(generation, web);
    const one = found(cluster, isPublicIP);
    change(cluster, one, {}, { tags: { ...objectAt(one, "tags"), costcenter: "42" } });
    cluster.world.simulator.changeLists(without("publicIPAddresses"));
    await errorOf(cluster.ensure(generation, serviceOf("web", { annotations: { "azure-pip-tags": "team=a" } })));
    expect(objectAt(found(cluster, isPublicIP), "tags")).toMatchObject({ costcenter: "42" });
  });
});

test("a load balancer that a list shows without frontends, against its public IPs, keeps those of all Services", async () => {
  await using cluster = await openCluster(1);
  const first = await cluster.start();
  for (const name of ["a", "b", "c"]) await cluster.ensure(first, serviceOf(name));
  const next = await cluster.start();
  const nothing = { frontendIPConfigurations: [], loadBalancingRules: [], probes: [] };
  const bare = (one: Resource): Resource =>
    "frontendIPConfigurations" in one.properties ? { ...one, properties: { ...one.properties, ...nothing } } : one;
  cluster.world.simulator.changeLists((all) => all.map(bare));
  await cluster.ensure(next, serviceOf("d"));
  expect(namesAt(balancer(cluster), "frontendIPConfigurations")).toHaveLength(4);
});

test("a load balancer without pools is not deleted while its Service waits for a public IP that is created again", async () => {
  await using cluster = await openCluster(1);
  await cluster.ensure(await cluster.start(), serviceOf("web"));
  const pip = found(cluster, /publicIPAddresses\/kubernetes-a/u);
  change(cluster, balancer(cluster), { backendAddressPools: [], loadBalancingRules: [], probes: [] });
  change(cluster, found(cluster, /publicIPAddresses\/kubernetes-a/u), { ipTags: [{ ipTagType: "a", tag: "old" }] });
  cluster.world.simulator.clearLog();
  const next = await cluster.start();
  await cluster.ensure(next, serviceOf("web", { annotations: { "azure-pip-ip-tags": "a=new" } }));
  expect(cluster.writes()).toContain(`DELETE publicIPAddresses/${pip.name}`);
  expect(cluster.writes()).not.toContain("DELETE loadBalancers/kubernetes");
  expect(namesAt(balancer(cluster), "frontendIPConfigurations")).toHaveLength(1);
});

test("every write names the state that it was planned on", async () => {
  await using cluster = await openCluster(1);
  const generation = await cluster.start();
  const annotations = { ...internal, "azure-pls-create": "true" };
  const services = [serviceOf("web"), serviceOf("linked", { annotations })];
  for (const service of services) await cluster.ensure(generation, service);
  const more = { ...annotations, "azure-pls-fqdns": "a.example" };
  await cluster.ensure(generation, serviceOf("linked", { annotations: more }));
  for (const service of services) await cluster.remove(generation, service);
  const writes = cluster.world.simulator.log.filter(({ method }) => method === "PUT" || method === "DELETE");
  const unconditional = writes.filter(({ ifMatch, ifNoneMatch }) => ifMatch === undefined && ifNoneMatch !== "*");
  expect(unconditional.map(({ method, path: of }) => `${method} ${of}`)).toEqual([]);
  expect(writes.map(({ method, path: of }) => `${method} ${of.split("/").at(-2)}`)).toContain(
    "DELETE privateLinkServices",
  );
});

describe("a deletion rests on a read made for it", () => {
  test.each([
    ["network interfaces", {}],
    ["addresses", { loadBalancerBackendPoolConfigurationType: "nodeIP" }],
  ])(
    "a deletion rests on a read made for it: an outbound rule that another writer added keeps the load balancer of the last Service, with pools of %s",
    async (_members, keys) => {
      await using cluster = await openCluster(1);
      const generation = await cluster.start(keys);
      await cluster.ensure(generation, serviceOf("web"));
      addEgress(cluster);
      await cluster.remove(generation, serviceOf("web"));
      expect(namesAt(balancer(cluster), "outboundRules")).toEqual(["egress"]);
      expect(namesAt(balancer(cluster), "frontendIPConfigurations")).toEqual(["egress"]);
    },
  );

  const frontend = { id: `${path}/frontendIPConfigurations/theirs` };
  const pool = { id: `${path}/backendAddressPools/theirs` };
  test.each<[string, JsonObject]>([
    ["frontendIPConfigurations", { privateIPAddress: "10.240.9.9" }],
    ["backendAddressPools", {}],
    ["outboundRules", { protocol: "All", frontendIPConfigurations: [frontend], backendAddressPool: pool }],
    ["inboundNatRules", { protocol: "Tcp", frontendIPConfiguration: frontend, frontendPort: 22, backendPort: 22 }],
  ])("one item that another writer added to %s keeps the load balancer of the last Service", async (key, item) => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start();
    await cluster.ensure(generation, serviceOf("web"));
    const one = balancer(cluster);
    change(cluster, one, { [key]: [...objectsAt(one.properties, key), { name: "theirs", properties: item }] });
    await errorOf(cluster.remove(generation, serviceOf("web")));
    expect(namesAt(balancer(cluster), key)).toContain("theirs");
  });

  test("a deletion rests on a read made for it: an endpoint connection that was made since the last list is deleted with its private link service", async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start();
    const linked = serviceOf("linked", { annotations: { ...internal, "azure-pls-create": "true" } });
    await cluster.ensure(generation, linked);
    const link = found(cluster, /privateLinkServices\//u);
    change(cluster, link, { privateEndpointConnections: [{ name: "peer" }] });
    await cluster.remove(generation, linked);
    expect(cluster.world.simulator.get(link.id)).toBeUndefined();
  });

  test("a deletion rests on a read made for it: a public IP whose owner tag was removed stays", async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start();
    await cluster.ensure(generation, serviceOf("web"));
    const one = found(cluster, /publicIPAddresses\/kubernetes-a/u);
    change(cluster, one, {}, { tags: { of: "a person" } });
    await cluster.remove(generation, serviceOf("web"));
    expect(objectAt(found(cluster, /publicIPAddresses\/kubernetes-a/u), "tags")).toEqual({ of: "a person" });
  });

  test("a deletion rests on a read made for it: a public IP that is written between the read and the deletion stays", async () => {
    await using cluster = await openCluster(1);
    const { simulator } = cluster.world;
    const generation = await cluster.start();
    await cluster.ensure(generation, serviceOf("web"));
    const hold = simulator.hold({ method: "DELETE", path: "/publicIPAddresses/" });
    const work = cluster.remove(generation, serviceOf("web"));
    await eventually("the public IP is being deleted", () => hold.waiting() === 1);
    change(cluster, found(cluster, /publicIPAddresses\/kubernetes-a/u), {}, { tags: { of: "a person" } });
    hold.release();
    await work;
    expect(objectAt(found(cluster, /publicIPAddresses\/kubernetes-a/u), "tags")).toEqual({ of: "a person" });
  });

  test("a deletion rests on a read made for it: a private link service whose owner tags were removed stays, with its endpoint connections", async () => {
    await using cluster = await openCluster(1);
    const linked = serviceOf("linked", { annotations: { ...internal, "azure-pls-create": "true" } });
    await cluster.ensure(await cluster.start(), linked);
    const link = (): Resource => found(cluster, /privateLinkServices\//u);
    change(cluster, link(), { privateEndpointConnections: [{ name: "peer" }] });
    const generation = await cluster.start();
    await cluster.ensure(generation, linked);
    change(cluster, link(), {}, { tags: { of: "a person" } });
    expect(await errorOf(cluster.remove(generation, linked))).toMatchObject({ code: "UnmanagedPrivateLinkService" });
    expect(objectAt(link(), "tags")).toEqual({ of: "a person" });
    expect(namesAt(link(), "privateEndpointConnections")).toEqual(["peer"]);
  });
});

describe("what others change while a write is prepared stays", () => {
  /** The subnet of a private link service gets these properties from others while its load balancer is being written. */
  async function withSubnetChange(cluster: Cluster, properties: JsonObject): Promise<void> {
    const generation = await cluster.start();
    const hold = cluster.world.simulator.hold({ method: "PUT", path: "/loadBalancers/" });
    const annotations = { ...internal, "azure-pls-create": "true" };
    const work = cluster.ensure(generation, serviceOf("linked", { annotations }));
    await eventually("the load balancer is being written", () => hold.waiting() === 1);
    const network = found(cluster, /virtualNetworks\/vnet0$/u);
    const subnets = objectsAt(network.properties, "subnets").map((one) =>
      stringAt(one, "name") === "subnet0"
        ? { ...one, properties: { ...objectAt(one, "properties"), ...properties } }
        : one,
    );
    change(cluster, network, { subnets });
    hold.release();
    await work;
  }

  test("what others change while a write is prepared stays: the settings of a subnet, when its network policies are disabled for a private link service", async () => {
    await using cluster = await openCluster(1);
    const routeTable = { id: `${group}/routeTables/rt0` };
    await withSubnetChange(cluster, { routeTable });
    const now = objectsAt(found(cluster, /virtualNetworks\/vnet0$/u).properties, "subnets").find(
      (one) => stringAt(one, "name") === "subnet0",
    );
    expect(objectAt(now, "properties")).toMatchObject({ routeTable, privateLinkServiceNetworkPolicies: "Disabled" });
  });

  test("what others change while a write is prepared stays: a subnet whose network policies were disabled meanwhile, without a write", async () => {
    await using cluster = await openCluster(1);
    await withSubnetChange(cluster, { privateLinkServiceNetworkPolicies: "Disabled" });
    expect(cluster.writes()).not.toContain("PUT subnets/subnet0");
    expect(cluster.writes().at(-1)).toStartWith("PUT privateLinkServices/");
  });

  test("what others change while a write is prepared stays: a private link service, written once although each write of its load balancer changes its etag", async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start();
    const annotations = { ...internal, "azure-pls-create": "true" };
    await cluster.ensure(generation, serviceOf("linked", { annotations }));
    const link = found(cluster, /privateLinkServices\//u);
    cluster.world.simulator.put(link.id, link);
    cluster.world.simulator.clearLog();
    const more = { ...annotations, "azure-pls-fqdns": "a.example" };
    await cluster.ensure(generation, serviceOf("linked", { annotations: more }));
    expect(cluster.writes()).toEqual([`PUT privateLinkServices/${link.name}`]);
  });

  test("what others change while a write is prepared stays: the settings of a subnet that is written between our read and our write", async () => {
    await using cluster = await openCluster(1);
    const { simulator } = cluster.world;
    const hold = simulator.hold({ method: "PUT", path: "/subnets/" });
    const annotations = { ...internal, "azure-pls-create": "true" };
    const work = cluster.ensure(await cluster.start(), serviceOf("linked", { annotations }));
    await eventually("the subnet is being written", () => hold.waiting() === 1);
    const network = found(cluster, /virtualNetworks\/vnet0$/u);
    const subnets = objectsAt(network.properties, "subnets").map((one) => ({
      ...one,
      properties: { ...objectAt(one, "properties"), defaultOutboundAccess: false },
    }));
    change(cluster, network, { subnets });
    hold.release();
    await work;
    const [now] = objectsAt(found(cluster, /virtualNetworks\/vnet0$/u).properties, "subnets");
    expect(stringAt(now, "id")).toBe(subnetPath);
    expect(objectAt(now, "properties")).toMatchObject({
      defaultOutboundAccess: false,
      privateLinkServiceNetworkPolicies: "Disabled",
    });
  });

  test("what others change while a write is prepared stays: the tags of a private link service", async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start();
    const annotations = { ...internal, "azure-pls-create": "true" };
    await cluster.ensure(generation, serviceOf("linked", { annotations }));
    const link = found(cluster, /privateLinkServices\//u);
    change(cluster, link, {}, { tags: { ...objectAt(link, "tags"), costcenter: "42" } });
    const more = { ...annotations, "azure-pls-fqdns": "a.example" };
    await cluster.ensure(generation, serviceOf("linked", { annotations: more }));
    const now = found(cluster, /privateLinkServices\//u);
    expect(objectAt(now, "tags")).toMatchObject({ costcenter: "42" });
    expect(now.properties["fqdns"]).toEqual(["a.example"]);
  });

  test("what others change while a write is prepared stays: the other DNS settings of a public IP that gets a label, the user's own included", async () => {
    await using cluster = await openCluster(1);
    const { simulator } = cluster.world;
    const generation = await cluster.start();
    const dnsSettings = { domainNameLabel: "old", reverseFqdn: "host.example.", domainNameLabelScope: "TenantReuse" };
    const properties = { ipAddress: "20.9.9.7", publicIPAllocationMethod: "Static", dnsSettings };
    simulator.put(`${group}/publicIPAddresses/mine`, { sku: { name: "Standard" }, properties });
    await cluster.ensure(
      generation,
      serviceOf("web", { annotations: { "azure-pip-name": "mine", "azure-dns-label-name": "new" } }),
    );
    const now = found(cluster, /publicIPAddresses\/mine$/u);
    expect(objectAt(now.properties, "dnsSettings")).toMatchObject({ ...dnsSettings, domainNameLabel: "new" });
  });
});

describe("what the last operation has left as failed", () => {
  const failure = { status: 500, code: "InternalServerError", stage: "operation" } as const;

  test.each([
    ["security group", "/networkSecurityGroups/", /networkSecurityGroups\/nsg0$/u],
    ["load balancer", "/loadBalancers/", /loadBalancers\/kubernetes$/u],
    ["public IP", "/publicIPAddresses/", /publicIPAddresses\/kubernetes-/u],
  ])("a %s is written again before its Service is done", async (_noun, of, pattern) => {
    await using cluster = await openCluster(1, { operationPolls: 1 });
    const { simulator } = cluster.world;
    const generation = await cluster.start();
    simulator.failNext({ method: "PUT", path: of }, { ...failure, times: 2 });
    const attempt = () => errorOf(cluster.ensure(generation, serviceOf("b")));
    for (let failures = 2; failures > 0; failures -= 1)
      expect(await attempt()).toMatchObject({ code: "InternalServerError" });
    await cluster.ensure(generation, serviceOf("b"));
    expect(stringAt(found(cluster, pattern).properties, "provisioningState")).toBe("Succeeded");
    cluster.world.simulator.clearLog();
    await cluster.ensure(generation, serviceOf("b"));
    expect(cluster.writes()).toEqual([]);
  });

  test("what the last operation of another Service has left as failed is not written again for a deletion that had failed writes before it was done", async () => {
    await using cluster = await openCluster(1, { operationPolls: 1 });
    const { simulator } = cluster.world;
    const generation = await cluster.start();
    for (const name of ["a", "b"]) await cluster.ensure(generation, serviceOf(name));
    simulator.failNext({ method: "PUT", path: "/networkSecurityGroups/" }, failure);
    expect(await errorOf(cluster.remove(generation, serviceOf("a")))).toMatchObject({ code: "InternalServerError" });
    const deletion = () => generation.balancers.ensureLoadBalancerDeleted("kubernetes", serviceOf("a"));
    await deletion();
    simulator.failNext({ method: "PUT", path: "/networkSecurityGroups/" }, failure);
    expect(await errorOf(cluster.ensure(generation, serviceOf("c")))).toMatchObject({ code: "InternalServerError" });
    simulator.clearLog();
    await deletion();
    expect(cluster.writes()).toEqual([]);
  });

  test.each([
    ["a security group", "Failed", /networkSecurityGroups\/nsg0$/u],
    ["a load balancer", "Canceled", /loadBalancers\/kubernetes$/u],
    ["a public IP", "Failed", /publicIPAddresses\/kubernetes-/u],
  ])(
    "what the last operation has left as failed by another writer is written again: %s that is shown as %s",
    async (_noun, provisioningState, pattern) => {
      await using cluster = await openCluster(1);
      await cluster.ensure(await cluster.start(), serviceOf("web"));
      change(cluster, found(cluster, pattern), { provisioningState });
      cluster.world.simulator.clearLog();
      await cluster.ensure(await cluster.start(), serviceOf("web"));
      expect(cluster.writes()).toHaveLength(1);
      expect(stringAt(found(cluster, pattern).properties, "provisioningState")).toBe("Succeeded");
    },
  );

  test.each([
    ["security group", "an address", "/networkSecurityGroups/", /networkSecurityGroups\/nsg0$/u],
    ["load balancer", "an address", "/loadBalancers/", /loadBalancers\/kubernetes$/u],
    ["security group", "none, as its type has changed,", "/networkSecurityGroups/", /networkSecurityGroups\/nsg0$/u],
    ["load balancer", "none, as its type has changed,", "/loadBalancers/", /loadBalancers\/kubernetes$/u],
  ])(
    "a %s that is left as failed by a deletion of a Service that shows %s is written again before that is done",
    async (_noun, shown, of, pattern) => {
      await using cluster = await openCluster(1, { operationPolls: 1 });
      const { simulator } = cluster.world;
      const generation = await cluster.start();
      for (const name of ["a", "b"]) await cluster.ensure(generation, serviceOf(name));
      const { status, ...rest } = cluster.services.get("default/a") ?? serviceOf("a");
      const service = shown === "an address" && status ? { ...rest, status } : rest;
      simulator.failNext({ method: "PUT", path: of }, { ...failure, times: 1 });
      expect(await errorOf(cluster.remove(generation, service))).toMatchObject({ code: "InternalServerError" });
      await cluster.remove(generation, service);
      expect(stringAt(found(cluster, pattern).properties, "provisioningState")).toBe("Succeeded");
    },
  );

  test.each([
    ["a security group", /networkSecurityGroups\/nsg0$/u],
    ["a load balancer", /loadBalancers\/kubernetes$/u],
    ["a public IP", /publicIPAddresses\/kubernetes-/u],
  ])(
    "an operation of another process that fails after %s was taken for done is noticed, and the resource written again",
    async (_noun, pattern) => {
      await using cluster = await openCluster(1);
      const { simulator } = cluster.world;
      await cluster.ensure(await cluster.start(), serviceOf("web"));
      change(cluster, found(cluster, pattern), { provisioningState: "Updating" });
      const next = await cluster.start({}, fast(200));
      await cluster.ensure(next, serviceOf("web"));
      simulator.clearLog();
      const readsOfIt = (): number =>
        simulator.log.filter(({ method, path: of }) => method === "GET" && pattern.test(of)).length;
      await eventually("it is read again by itself", () => readsOfIt() > 1);
      expect(cluster.writes()).toEqual([]);
      change(cluster, found(cluster, pattern), { provisioningState: "Failed" });
      await eventually("it is written", () => cluster.writes().length > 0);
      expect(stringAt(found(cluster, pattern).properties, "provisioningState")).toBe("Succeeded");
      const reads = readsOfIt();
      await Bun.sleep(1_500);
      expect(cluster.writes()).toHaveLength(1);
      expect(readsOfIt() - reads).toBeLessThan(2);
    },
    20_000,
  );

  describe("another deployment's operation on a public IP for which ARM refuses the load balancer", () => {
    const { metadata, ...others } = serviceOf("others");
    const marked = { ...others, metadata: { ...metadata, annotations: { [annotationKeys.servedBy]: "another" } } };

    async function updating(...options: Parameters<Cluster["start"]>) {
      const cluster = await openCluster(1);
      const generation = await cluster.start(...options);
      await cluster.ensure(generation, serviceOf("web"));
      const { id } = found(cluster, /publicIPAddresses\/kubernetes-/u);
      await cluster.ensure(generation, marked);
      const put = (provisioningState: string): void =>
        change(cluster, found(cluster, new RegExp(`${id}$`, "u")), { provisioningState });
      put("Updating");
      cluster.world.simulator.clearLog();
      return {
        cluster,
        generation,
        put,
        writes: () => cluster.writes().filter((one) => id.endsWith(one.split(" ")[1] ?? "")),
      };
    }

    /** A Service whose load balancer ARM has refused. */
    async function refused(scene: Awaited<ReturnType<typeof updating>>): Promise<{ readonly ensured: Promise<void> }> {
      const { cluster, generation } = scene;
      const ensured = cluster.ensure(generation, serviceOf("api"));
      await eventually("it is refused", () => cluster.world.simulator.log.some(({ status }) => status === 400));
      return { ensured };
    }

    test("is waited for, and not canceled", async () => {
      const scene = await updating();
      await using _ = scene.cluster;
      const { ensured } = await refused(scene);
      await Bun.sleep(200);
      scene.put("Succeeded");
      await ensured;
      expect(scene.writes()).toEqual([]);
    });

    test("is followed by a write of the public IP if it fails", async () => {
      const scene = await updating();
      await using _ = scene.cluster;
      const { ensured } = await refused(scene);
      scene.put("Failed");
      await ensured;
      expect(scene.writes()).toHaveLength(1);
    });

    test("is repeated at once where the public IP is that of the Service, as upstream does", async () => {
      const { cluster, generation, writes } = await updating();
      await using _ = cluster;
      const ports = [{ name: "https", protocol: "TCP", port: 443, nodePort: 30_443 }];
      await cluster.ensure(generation, serviceOf("web", { spec: { ports } }));
      expect(writes()).toHaveLength(1);
    });

    test("fails the Service if it lasts, and is not canceled", async () => {
      const { cluster, generation, put, writes } = await updating({}, fast(100));
      await using _ = cluster;
      expect(await errorOf(cluster.ensure(generation, serviceOf("api")))).toMatchObject({
        code: "ReferencedResourceNotProvisioned",
      });
      expect(writes()).toEqual([]);
      put("Succeeded");
      await cluster.ensure(generation, serviceOf("api"));
    });
  });

  test("what the last operation has left as failed and is changed by one Service is written for that Service alone", async () => {
    await using cluster = await openCluster(1);
    const first = await cluster.start();
    for (const name of ["a", "b"]) await cluster.ensure(first, serviceOf(name));
    change(cluster, balancer(cluster), { provisioningState: "Failed" });
    const next = await cluster.start();
    cluster.world.simulator.clearLog();
    const refusal = { status: 400, code: "BadRequest", times: 1 };
    cluster.world.simulator.failNext({ method: "PUT", path: "/loadBalancers/" }, refusal);
    const ports = [{ name: "http", protocol: "TCP", port: 81, nodePort: 30_081 }];
    const services = [serviceOf("a"), serviceOf("b", { spec: { ports } })];
    const errors = await Promise.all(services.map((service) => errorOf(cluster.ensure(next, service))));
    expect(errors.map((error) => error === undefined)).toEqual([true, false]);
  });

  test("is reported by all Services that use it, and costs one write per attempt, not one per Service", async () => {
    await using cluster = await openCluster(1, { operationPolls: 1 });
    const { simulator } = cluster.world;
    const generation = await cluster.start();
    const services = ["a", "b", "c", "d"].map((name) => serviceOf(name));
    for (const service of services) await cluster.ensure(generation, service);
    change(cluster, balancer(cluster), { provisioningState: "Failed" });
    const next = await cluster.start();
    simulator.clearLog();
    simulator.failNext({ method: "PUT", path: "/loadBalancers/" }, { status: 400, code: "BadRequest", times: 1 });
    const errors = await Promise.all(services.map((service) => errorOf(cluster.ensure(next, service))));
    expect(errors.map((error) => isObject(error) && error["code"])).toEqual(services.map(() => "RetryAfter"));
    expect(cluster.writes()).toEqual(["PUT loadBalancers/kubernetes"]);
  });
});

test("no write of a load balancer lists the interfaces in its pools as addresses", async () => {
  await using cluster = await openCluster(1);
  const generation = await cluster.start();
  for (const name of ["a", "b"]) await cluster.ensure(generation, serviceOf(name));
  const bodies = cluster.world.simulator.log.filter(
    ({ method, path: of }) => method === "PUT" && of.includes("/loadBalancers/"),
  );
  expect(bodies).toHaveLength(2);
  expect(JSON.stringify(bodies)).not.toContain("loadBalancerBackendAddresses");
  const [pool] = objectsAt(balancer(cluster).properties, "backendAddressPools");
  expect(objectsAt(objectAt(pool, "properties"), "backendIPConfigurations")).toHaveLength(1);
});

describe("a write of a load balancer corrects what is known of its public IPs", () => {
  const mine = `${group}/publicIPAddresses/mine`;

  test("a write of a load balancer corrects what is known of its public IPs: the next write of one meets no conflict", async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start();
    await cluster.ensure(generation, serviceOf("web"));
    await cluster.ensure(generation, serviceOf("web", { annotations: { "azure-pip-tags": "a=b" } }));
    const statuses = cluster.world.simulator.log.filter(({ method }) => method === "PUT").map(({ status }) => status);
    expect(statuses.filter((status) => status >= 400)).toEqual([]);
  });

  test("a write of a load balancer corrects what is known of its public IPs: a user's public IP is free once the load balancer is deleted", async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start();
    cluster.world.simulator.put(mine, { sku: { name: "Standard" }, properties: { ipAddress: "20.9.9.7" } });
    const named = { annotations: { "azure-pip-name": "mine" } };
    await cluster.ensure(generation, serviceOf("first", named));
    await cluster.remove(generation, serviceOf("first", named));
    await cluster.ensure(generation, serviceOf("second", named));
    expect(namesAt(balancer(cluster), "frontendIPConfigurations")).toHaveLength(1);
  });

  test("a public IP that ARM refuses because it is attached elsewhere is read again, and the load balancer is written if it is free", async () => {
    await using cluster = await openCluster(1);
    const { simulator } = cluster.world;
    const generation = await cluster.start();
    simulator.put(mine, { sku: { name: "Standard" }, properties: { ipAddress: "20.9.9.7" } });
    const gone = `${path}/frontendIPConfigurations/gone`;
    const message = `Resource ${path}/frontendIPConfigurations/a is referencing public IP address ${mine} that is already allocated to resource ${gone}.`;
    const refusal = { status: 400, code: "PublicIPAddressInUse", message };
    simulator.failNext({ method: "PUT", path: "/loadBalancers/" }, refusal);
    await cluster.ensure(generation, serviceOf("web", { annotations: { "azure-pip-name": "mine" } }));
    expect(namesAt(balancer(cluster), "frontendIPConfigurations")).toHaveLength(1);
    const reads = simulator.log.filter(({ method, path: of }) => method === "GET" && of === mine);
    expect(reads.length).toBeGreaterThan(0);
  });

  test("a public IP that something else has got since the last list is refused, with one write of the load balancer", async () => {
    await using cluster = await openCluster(1);
    const { simulator } = cluster.world;
    const generation = await cluster.start();
    simulator.put(mine, { sku: { name: "Standard" }, properties: { ipAddress: "20.9.9.7" } });
    await cluster.ensure(generation, serviceOf("first"));
    const properties = { subnet: { id: subnetPath }, publicIPAddress: { id: mine } };
    simulator.put(`${group}/networkInterfaces/theirs`, {
      properties: { ipConfigurations: [{ name: "c", properties }] },
    });
    simulator.clearLog();
    const error = await errorOf(
      cluster.ensure(generation, serviceOf("web", { annotations: { "azure-pip-name": "mine" } })),
    );
    expect(String(error)).toContain("PublicIPAddressInUse");
    const writes = simulator.log.filter(({ method, path: of }) => method === "PUT" && of.includes("/loadBalancers/"));
    expect(writes.map(({ status }) => status)).toEqual([400]);
  });

  test("a public IP is deleted although a process before is still moving its frontend to another one", async () => {
    await using cluster = await openCluster(1, { operationPolls: 1 });
    const { simulator } = cluster.world;
    const first = await cluster.start();
    simulator.put(mine, { sku: { name: "Standard" }, properties: { ipAddress: "20.9.9.7" } });
    await cluster.ensure(first, serviceOf("web"));
    const { id } = found(cluster, /publicIPAddresses\/kubernetes-a/u);
    simulator.clearLog();
    const named = serviceOf("web", { annotations: { "azure-pip-name": "mine" } });
    const work = errorOf(cluster.ensure(first, named));
    await eventually("the frontend is being moved", () => cluster.writes().includes("PUT loadBalancers/kubernetes"));
    first.crash();
    await work;
    await cluster.ensure(await cluster.start(), named);
    expect(simulator.get(id)).toBeUndefined();
    expect(objectAt(simulator.get(mine)?.properties, "ipConfiguration")).toBeDefined();
  });

  test("a write of a load balancer corrects what is known of its public IPs: one that was attached elsewhere meanwhile is left there after one attempt to delete it", async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start();
    await cluster.ensure(generation, serviceOf("web"));
    const { id } = found(cluster, /publicIPAddresses\/kubernetes-a/u);
    const hold = cluster.world.simulator.hold({ method: "DELETE", path: "/loadBalancers/" });
    const work = cluster.remove(generation, serviceOf("web"));
    await eventually("the load balancer is being deleted", () => hold.waiting() === 1);
    cluster.world.simulator.put(`${group}/networkInterfaces/theirs`, {
      properties: {
        ipConfigurations: [{ name: "c", properties: { subnet: { id: subnetPath }, publicIPAddress: { id } } }],
      },
    });
    hold.release();
    await work;
    expect(cluster.world.simulator.get(id)).toBeDefined();
    expect(cluster.world.simulator.log.filter(({ method, path: of }) => method === "DELETE" && of === id)).toHaveLength(
      1,
    );
    expect(generation.events).toContain("web DeletePublicIPAddress");
  });
});

test.each([
  "frontendIPConfigurations",
  "backendAddressPools",
  "loadBalancingRules",
  "probes",
  "inboundNatRules",
  "inboundNatPools",
  "outboundRules",
])("a load balancer is as planned only with the same names in %s, in whatever order and case", (list) => {
  const withNames = (...names: readonly string[]) => ({ [list]: names.map((name) => ({ name })) });
  expect(hasSameChildren(withNames("A", "b"), withNames("B", "a"))).toBe(true);
  expect(hasSameChildren(withNames("a", "b"), withNames("a"))).toBe(false);
  expect(hasSameChildren(withNames("a"), undefined)).toBe(false);
  expect(hasSameChildren({}, withNames())).toBe(true);
});

test("a public IP is as planned only with the same tags and IP tags", () => {
  const planned = { tags: { owner: "web" }, ipTags: [{ ipTagType: "RoutingPreference", tag: "Internet" }] };
  expect(hasSameOwners({ ...planned, ipAddress: "20.0.0.1" }, planned)).toBe(true);
  expect(hasSameOwners({ ...planned, tags: {} }, planned)).toBe(false);
  expect(hasSameOwners({ ...planned, ipTags: [] }, planned)).toBe(false);
  expect(hasSameOwners({}, undefined)).toBe(true);
});

test("a private link service is as planned only with the same tags and frontends, and with no further connection", () => {
  const planned = { tags: { owner: "web" }, loadBalancerFrontendIpConfigurations: [{ id: "/LB/One" }] };
  const connected = { ...planned, privateEndpointConnections: [{ name: "known" }] };
  expect(hasSameClaim({ ...planned, loadBalancerFrontendIpConfigurations: [{ id: "/lb/one" }] }, planned, [])).toBe(
    true,
  );
  expect(hasSameClaim({ ...planned, loadBalancerFrontendIpConfigurations: [{ id: "/lb/two" }] }, planned, [])).toBe(
    false,
  );
  expect(hasSameClaim({ ...planned, tags: {} }, planned, [])).toBe(false);
  expect([hasSameClaim(connected, planned, ["known"]), hasSameClaim(connected, planned, [])]).toEqual([true, false]);
});

test("replies that differ in nothing but etags, at whatever depth, are the same", () => {
  const reply = (etag: string, name = "one") => ({ etag, ipConfigurations: [{ name, etag }] });
  expect(isSameExceptEtags(reply("1"), reply("2"))).toBe(true);
  expect(isSameExceptEtags(reply("1"), reply("1", "two"))).toBe(false);
});

describe("a Service is new", () => {
  function watching({ isShared = false } = {}) {
    const services = new Map<string, Service>();
    const handlers: InformerHandler<Service>[] = [];
    let hasSynced = false;
    const news = new NewServices(() => isShared);
    news.watch({
      store: {
        get: (key) => services.get(key),
        list: () => [...services.values()],
        get size() {
          return services.size;
        },
      },
      handle: (handler) => (handlers.push(handler), { remove: () => undefined }),
      hasSynced: () => hasSynced,
    });
    const add = (service: Service): void => void services.set(keyOf(service), service);
    return { news, services, handlers, add, synced: () => void (hasSynced = true) };
  }
  const web = serviceOf("web");
  const creationOf = (service: Service, name = `kubernetes-${defaultLoadBalancerName(service)}`) =>
    ({ kind: "put-public-ip", id: name, name, resourceGroup: "rg0", services: [keyOf(service)], body: {} }) as const;

  test("a Service is new if it comes after the process has begun to lead with all others", () => {
    const { news, add, synced } = watching();
    const old = serviceOf("old");
    add(old);
    news.begin();
    expect([old, web].map((one) => news.has(one))).toEqual([false, false]);
    synced();
    news.begin();
    add(web);
    news.begin();
    expect([old, web].map((one) => news.has(one))).toEqual([false, true]);
  });

  test("a Service is new for no deployment that shares the Services", () => {
    const { news, add, synced } = watching({ isShared: true });
    synced();
    news.begin();
    add(web);
    expect([news.has(web), news.take(creationOf(web))]).toEqual([false, false]);
  });

  test("a Service is new for one creation, of a resource with its name, until it is deleted", () => {
    const { news, handlers, add, synced } = watching();
    synced();
    news.begin();
    const other = serviceOf("other");
    for (const one of [web, other]) add(one);
    expect(news.take({ ...creationOf(web), services: [web, other].map(keyOf) })).toBe(false);
    expect([news.take(creationOf(web)), news.take(creationOf(web))]).toEqual([true, false]);
    expect(news.take(creationOf(other, "theirs"))).toBe(false);
    for (const handler of handlers) handler.deleted?.(web);
    expect(news.take(creationOf(web))).toBe(true);
  });
});
