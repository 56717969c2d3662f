import { describe, expect, test } from "bun:test";

import { isObject } from "cloud-controller-host/sdk";

import { type JsonObject, objectAt, objectsAt, stringAt } from "../../../../plugins/azure-cloud/json.ts";
import type { SimulatorOptions } from "../../../../plugins/azure-cloud/simulator/simulator.ts";
import { type RawClient, rawClient, type RawReply } from "../raw-client.ts";
import { openWorld, type World } from "../world.ts";

const group = "/subscriptions/sub0/resourceGroups/rg0";
const network = `${group}/providers/Microsoft.Network`;
const compute = `${group}/providers/Microsoft.Compute`;
const subnet = `${network}/virtualNetworks/vnet0/subnets/subnet0`;
const lb = `${network}/loadBalancers/lb`;
const pool = `${lb}/backendAddressPools/kubernetes`;
const address = `${network}/publicIPAddresses/ip`;
const standard = { name: "Standard" };

interface Lab extends AsyncDisposable {
  readonly world: World;
  readonly arm: RawClient;
}

async function openLab(options: Partial<SimulatorOptions> = {}): Promise<Lab> {
  const world = await openWorld(options);
  const arm = await rawClient(world.simulator);
  return { world, arm, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() };
}

const external = (name: string, publicIPAddress = address): JsonObject => ({
  name,
  properties: { publicIPAddress: { id: publicIPAddress } },
});
const internal = (name: string, more: JsonObject = {}): JsonObject => ({
  name,
  properties: { subnet: { id: subnet }, ...more },
});

const rule = (name: string, frontend: string, more: JsonObject = {}): JsonObject => ({
  name,
  properties: {
    frontendIPConfiguration: { id: `${lb}/frontendIPConfigurations/${frontend}` },
    backendAddressPool: { id: pool },
    probe: { id: `${lb}/probes/${name}` },
    protocol: "Tcp",
    frontendPort: 80,
    backendPort: 80,
    enableFloatingIP: true,
    ...more,
  },
});

const balancer = (more: JsonObject = {}): JsonObject => ({
  location: "eastus",
  sku: standard,
  properties: {
    frontendIPConfigurations: [external("f")],
    backendAddressPools: [{ name: "kubernetes" }],
    probes: [{ name: "r", properties: { protocol: "Tcp", port: 30_000 } }],
    loadBalancingRules: [rule("r", "f")],
    ...more,
  },
});

const putAddress = (arm: RawClient, name = "ip", properties: JsonObject = {}): Promise<RawReply> =>
  arm("PUT", `${network}/publicIPAddresses/${name}`, { body: { location: "eastus", sku: standard, properties } });

const withBalancer = async ({ arm }: Lab): Promise<RawReply> => {
  await putAddress(arm);
  return arm("PUT", lb, { body: balancer() });
};

const interfaces = (pools: readonly string[]): readonly JsonObject[] => [
  {
    name: "nic0",
    properties: {
      primary: true,
      ipConfigurations: [
        {
          name: "ipconfig0",
          properties: { primary: true, loadBalancerBackendAddressPools: pools.map((id) => ({ id })) },
        },
      ],
    },
  },
];

const putInstance = (arm: RawClient, instance: number, pools: readonly string[]): Promise<RawReply> =>
  arm("PUT", `${compute}/virtualMachineScaleSets/vmss0/virtualMachines/${instance}`, {
    body: {
      location: "eastus",
      properties: { networkProfileConfiguration: { networkInterfaceConfigurations: interfaces(pools) } },
    },
  });

const putModel = (arm: RawClient, pools: readonly string[]): Promise<RawReply> =>
  arm("PUT", `${compute}/virtualMachineScaleSets/vmss0`, {
    body: {
      location: "eastus",
      properties: {
        virtualMachineProfile: { networkProfile: { networkInterfaceConfigurations: interfaces(pools) } },
      },
    },
  });

const nic = (pools: readonly string[], more: JsonObject = {}): JsonObject => ({
  properties: {
    ipConfigurations: [
      {
        name: "ipconfig0",
        properties: { subnet: { id: subnet }, loadBalancerBackendAddressPools: pools.map((id) => ({ id })), ...more },
      },
    ],
  },
});

const child = (reply: RawReply, property: string, name: string): JsonObject =>
  objectsAt(objectAt(reply.body, "properties"), property).find((item) => item["name"] === name) ?? {};

const codeOf = ({ status, body }: RawReply): string =>
  `${status} ${stringAt(objectAt(body, "error"), "code") ?? ""}`.trim();

describe("a load balancer", () => {
  test("shows what refers to its frontends, pools and probes, and ignores what a client sends of that", async () => {
    await using lab = await openLab();
    const made = await withBalancer(lab);
    const rules = [{ id: `${lb}/loadBalancingRules/r` }];
    expect(made.status).toBe(201);
    for (const [property, name] of [
      ["frontendIPConfigurations", "f"],
      ["backendAddressPools", "kubernetes"],
      ["probes", "r"],
    ] as const)
      expect(child(made, property, name)).toMatchObject({
        id: `${lb}/${property}/${name}`,
        etag: made.body["etag"],
        properties: { provisioningState: "Succeeded", loadBalancingRules: rules },
      });
    const stale = isObject(made.body["properties"]) ? made.body["properties"] : {};
    const emptied = await lab.arm("PUT", lb, {
      body: { ...made.body, properties: { ...stale, loadBalancingRules: [] } },
    });
    expect(child(emptied, "probes", "r")["properties"]).not.toHaveProperty("loadBalancingRules");
    expect(child(emptied, "frontendIPConfigurations", "f")["properties"]).not.toHaveProperty("loadBalancingRules");
  });

  test("an outbound rule is shown on its frontends and its pool, beside load-balancing rules", async () => {
    await using lab = await openLab();
    await putAddress(lab.arm);
    const frontend = { id: `${lb}/frontendIPConfigurations/f` };
    const properties = { protocol: "All", frontendIPConfigurations: [frontend], backendAddressPool: { id: pool } };
    const apart = [rule("r", "f", { disableOutboundSnat: true })];
    const body = balancer({ loadBalancingRules: apart, outboundRules: [{ name: "egress", properties }] });
    const made = await lab.arm("PUT", lb, { body });
    for (const [property, name] of [
      ["frontendIPConfigurations", "f"],
      ["backendAddressPools", "kubernetes"],
    ] as const)
      expect(child(made, property, name)).toMatchObject({
        properties: {
          loadBalancingRules: [{ id: `${lb}/loadBalancingRules/r` }],
          outboundRules: [{ id: `${lb}/outboundRules/egress` }],
        },
      });
  });

  test("a public IP shows the frontend that uses it and cannot be deleted until it is released", async () => {
    await using lab = await openLab();
    const before = await putAddress(lab.arm);
    await lab.arm("PUT", lb, { body: balancer() });
    const used = await lab.arm("GET", address);
    expect(used.body).toMatchObject({ properties: { ipConfiguration: { id: `${lb}/frontendIPConfigurations/f` } } });
    expect(used.body["etag"]).not.toBe(before.body["etag"]);
    expect(codeOf(await lab.arm("DELETE", address))).toBe("400 PublicIPAddressCannotBeDeleted");
    const kept = await putAddress(lab.arm, "ip", { ipConfiguration: undefined });
    expect(kept.body).toMatchObject({ properties: { ipConfiguration: { id: `${lb}/frontendIPConfigurations/f` } } });
    await lab.arm("DELETE", lb);
    expect((await lab.arm("GET", address)).body["properties"]).not.toHaveProperty("ipConfiguration");
    expect((await lab.arm("DELETE", address)).status).toBe(200);
  });

  test("an internal frontend gets a free address of its subnet and keeps it", async () => {
    await using lab = await openLab();
    await lab.world.simulator.addInstances(2);
    const put = (frontends: readonly JsonObject[]): Promise<RawReply> =>
      lab.arm("PUT", lb, { body: { properties: { frontendIPConfigurations: frontends } } });
    const first = await put([internal("a"), internal("b", { privateIPAddressVersion: "IPv6" })]);
    const at = (reply: RawReply, name: string): unknown =>
      objectAt(child(reply, "frontendIPConfigurations", name), "properties")?.["privateIPAddress"];
    expect([at(first, "a"), at(first, "b")]).toEqual(["10.240.0.6", "fd12:3456::4"]);
    const fixed = { privateIPAllocationMethod: "Static", privateIPAddress: "10.240.9.9" };
    const second = await put([internal("c"), internal("a"), internal("d", fixed)]);
    expect([at(second, "a"), at(second, "c"), at(second, "d")]).toEqual(["10.240.0.6", "10.240.0.7", "10.240.9.9"]);
    const [machine] = await lab.world.simulator.addInstances(1);
    expect(machine?.internalIP).toBe("10.240.0.8");
  });

  const refusals: readonly (readonly [string, string, JsonObject])[] = [
    ["an address outside of the subnet", "PrivateIPAddressNotInSubnet", fixedFrontend("10.1.2.3")],
    ["an address of the other family", "PrivateIPAddressNotInSubnet", fixedFrontend("fd00::1")],
    ["an address that Azure keeps", "PrivateIPAddressInReservedRange", fixedFrontend("10.240.0.1")],
    ["an address that an instance has", "PrivateIPAddressIsAllocated", fixedFrontend("10.240.0.4")],
    ["a public IP that does not exist", "InvalidResourceReference", withFrontends([external("f", `${address}x`)])],
    ["a public IP of another load balancer", "PublicIPAddressInUse", withFrontends([external("f", `${address}-used`)])],
    [
      "a public IP of another SKU",
      "DifferentSkuLoadBalancersAndPublicIPAddressNotAllowed",
      withFrontends([external("f", `${address}-basic`)]),
    ],
    [
      "a public IP that failed",
      "ReferencedResourceNotProvisioned",
      withFrontends([external("f", `${address}-failed`)]),
    ],
    ["a subnet that does not exist", "InvalidResourceReference", withFrontends([internalIn(`${subnet}x`)])],
    ["a rule with an unknown frontend", "InvalidResourceReference", { loadBalancingRules: [rule("r", "g")] }],
    ["a rule with an unknown probe", "InvalidResourceReference", { probes: [] }],
    [
      "a probe of port 0",
      "InvalidRequestFormat",
      { probes: [{ name: "p", properties: { protocol: "Tcp", port: 0 } }], loadBalancingRules: [] },
    ],
    [
      "a backend address that has neither an address nor a reference",
      "InvalidRequestFormat",
      { backendAddressPools: [{ name: "kubernetes", properties: { loadBalancerBackendAddresses: [{ name: "a" }] } }] },
    ],
    ["two children of one name", "DuplicateResourceName", { backendAddressPools: [{ name: "p" }, { name: "P" }] }],
    ["a child without a name", "DuplicateResourceName", { backendAddressPools: [{}] }],
    [
      "children without a frontend",
      "LoadBalancerWithoutFrontendIPCantHaveChildResources",
      { frontendIPConfigurations: [], loadBalancingRules: [] },
    ],
    [
      "two rules on one frontend port",
      "RulesUseSameFrontendPortAndProtocol",
      { loadBalancingRules: [bare("r"), bare("s")] },
    ],
    [
      "two rules on one backend port without floating IP",
      "RulesOfSameLoadBalancerTypeUseSameBackendPortProtocolAndIPConfig",
      {
        loadBalancingRules: [
          bare("r", { enableFloatingIP: false }),
          bare("s", { enableFloatingIP: false, frontendPort: 81 }),
        ],
      },
    ],
  ];
  for (const [name, code, properties] of refusals)
    test(`a load balancer with ${name} is refused with ${code}`, async () => {
      await using lab = await openLab();
      const { simulator } = lab.world;
      await simulator.addInstances(1);
      for (const suffix of ["ip", "ip-used", "ip-failed"]) await putAddress(lab.arm, suffix);
      simulator.put("/providers/Microsoft.Network/publicIPAddresses/ip-basic", { sku: { name: "Basic" } });
      const other = `${network}/loadBalancers/other`;
      await lab.arm("PUT", other, {
        body: { sku: standard, properties: { frontendIPConfigurations: [external("f", `${address}-used`)] } },
      });
      simulator.failNext({ method: "PUT", path: "ip-failed" }, { status: 500, stage: "operation" });
      const failing = await putAddress(lab.arm, "ip-failed");
      await lab.arm("GET", failing.headers.get("azure-asyncoperation") ?? "");
      expect(codeOf(await lab.arm("PUT", lb, { body: balancer(properties) }))).toBe(`400 ${code}`);
      expect((await lab.arm("GET", lb)).status).toBe(404);
    });
});

function withFrontends(frontendIPConfigurations: readonly JsonObject[]): JsonObject {
  return { frontendIPConfigurations };
}

function internalIn(id: string): JsonObject {
  return { name: "f", properties: { subnet: { id } } };
}

function fixedFrontend(privateIPAddress: string): JsonObject {
  return withFrontends([internal("f", { privateIPAllocationMethod: "Static", privateIPAddress })]);
}

function bare(name: string, more: JsonObject = {}): JsonObject {
  return rule(name, "f", { probe: undefined, ...more });
}

test("rules with floating IP share a backend port", async () => {
  await using lab = await openLab();
  await putAddress(lab.arm);
  const loadBalancingRules = [bare("r"), bare("s", { frontendPort: 81 })];
  expect((await lab.arm("PUT", lb, { body: balancer({ loadBalancingRules }) })).status).toBe(201);
});

test("an interface keeps its address when a lower one becomes free", async () => {
  await using lab = await openLab();
  const put = (name: string): Promise<RawReply> =>
    lab.arm("PUT", `${network}/networkInterfaces/${name}`, { body: nic([]) });
  const addressOf = ({ body }: RawReply): unknown =>
    objectAt(objectsAt(objectAt(body, "properties"), "ipConfigurations")[0], "properties")?.["privateIPAddress"];
  expect([addressOf(await put("a")), addressOf(await put("b"))]).toEqual(["10.240.0.4", "10.240.0.5"]);
  await lab.arm("DELETE", `${network}/networkInterfaces/a`);
  expect(addressOf(await put("b"))).toBe("10.240.0.5");
  expect(addressOf(await put("c"))).toBe("10.240.0.4");
});

describe("members of a pool", () => {
  test("members of a pool of a scale set are shown in the pool, and change the load balancer's etag", async () => {
    await using lab = await openLab();
    await lab.world.simulator.addInstances(2);
    const made = await withBalancer(lab);
    expect((await putInstance(lab.arm, 1, [pool])).status).toBe(202);
    const shown = await lab.arm("GET", lb);
    const configuration = `${compute}/virtualMachineScaleSets/vmss0/virtualMachines/1/networkInterfaces/nic0/ipConfigurations/ipconfig0`;
    expect(child(shown, "backendAddressPools", "kubernetes")).toMatchObject({
      properties: { backendIPConfigurations: [{ id: configuration }] },
    });
    expect(shown.body["etag"]).not.toBe(made.body["etag"]);
    await putInstance(lab.arm, 1, []);
    const left = await lab.arm("GET", lb);
    expect(left.body["etag"]).not.toBe(shown.body["etag"]);
    expect(child(left, "backendAddressPools", "kubernetes")["properties"]).not.toHaveProperty(
      "backendIPConfigurations",
    );
    const stale = { body: balancer(), headers: { "if-match": stringAt(made.body, "etag") ?? "" } };
    expect(codeOf(await lab.arm("PUT", lb, stale))).toBe("412 PreconditionFailed");
  });

  test("members of a pool on the interface side are addresses without an ipAddress, beside those of nodes by IP", async () => {
    await using lab = await openLab();
    await lab.world.simulator.addInstances(1);
    await putAddress(lab.arm);
    const loadBalancerBackendAddresses = [{ name: "node", properties: { ipAddress: "10.240.0.9" } }];
    const backendAddressPools = [{ name: "kubernetes", properties: { loadBalancerBackendAddresses } }];
    await lab.arm("PUT", lb, { body: balancer({ backendAddressPools }) });
    await putInstance(lab.arm, 0, [pool]);
    const shown = await lab.arm("GET", pool);
    const addresses = objectsAt(objectAt(shown.body, "properties"), "loadBalancerBackendAddresses");
    expect(addresses.map((item) => objectAt(item, "properties")?.["ipAddress"])).toEqual(["10.240.0.9", undefined]);
    const again = await lab.arm("PUT", pool, { body: shown.body });
    expect(objectsAt(objectAt(again.body, "properties"), "loadBalancerBackendAddresses")).toHaveLength(2);
  });

  test("a write of the model reaches new instances only, and others where the upgrade policy is automatic", async () => {
    await using lab = await openLab();
    await lab.world.simulator.addInstances(1);
    await withBalancer(lab);
    await putModel(lab.arm, [pool]);
    const members = async (): Promise<number> =>
      objectsAt(objectAt((await lab.arm("GET", pool)).body, "properties"), "backendIPConfigurations").length;
    expect(await members()).toBe(0);
    await lab.world.simulator.addInstances(1);
    expect(await members()).toBe(1);
    await lab.arm("PATCH", `${compute}/virtualMachineScaleSets/vmss0`, {
      body: { properties: { upgradePolicy: { mode: "Automatic" } } },
    });
    expect(await members()).toBe(2);
  });

  test("keep a load balancer from being deleted while the scale set's model or an instance refers to it", async () => {
    await using lab = await openLab();
    await lab.world.simulator.addInstances(1);
    await withBalancer(lab);
    await putModel(lab.arm, [pool]);
    const inUse = "400 LoadBalancerInUseByVirtualMachineScaleSet";
    const refused = await lab.arm("DELETE", lb);
    expect(codeOf(refused)).toBe(inUse);
    expect(stringAt(objectAt(refused.body, "error"), "message")).toEndWith(
      `virtual machine scale set ${compute}/virtualMachineScaleSets/vmss0.`,
    );
    await putModel(lab.arm, []);
    await putInstance(lab.arm, 0, [pool]);
    expect(codeOf(await lab.arm("DELETE", lb))).toBe(inUse);
    const withoutPool = balancer({ backendAddressPools: [], loadBalancingRules: [] });
    expect(codeOf(await lab.arm("PUT", lb, { body: withoutPool }))).toBe(inUse);
    await putInstance(lab.arm, 0, []);
    expect((await lab.arm("DELETE", lb)).status).toBe(200);
  });

  test("members of a pool that are standalone interfaces are released when the load balancer is deleted", async () => {
    await using lab = await openLab();
    await withBalancer(lab);
    const path = `${network}/networkInterfaces/vm-0-nic`;
    const made = await lab.arm("PUT", path, { body: nic([pool]) });
    expect(made.body).toMatchObject({
      properties: { ipConfigurations: [{ properties: { privateIPAddress: "10.240.0.4" } }] },
    });
    expect((await lab.arm("DELETE", lb)).status).toBe(200);
    expect((await lab.arm("GET", path)).body).toMatchObject({
      properties: {
        ipConfigurations: [{ properties: { privateIPAddress: "10.240.0.4", loadBalancerBackendAddressPools: [] } }],
      },
    });
  });

  test("cannot be in a pool that does not exist, nor in two load balancers of one kind", async () => {
    await using lab = await openLab();
    await lab.world.simulator.addInstances(1);
    await withBalancer(lab);
    await putAddress(lab.arm, "second");
    const other = `${network}/loadBalancers/other`;
    const inner = `${network}/loadBalancers/inner`;
    const backendAddressPools = [{ name: "p" }];
    for (const [id, frontend] of [
      [other, external("f", `${network}/publicIPAddresses/second`)],
      [inner, internal("f")],
    ] as const)
      await lab.arm("PUT", id, {
        body: { sku: standard, properties: { frontendIPConfigurations: [frontend], backendAddressPools } },
      });
    const second = `${other}/backendAddressPools/p`;
    const path = `${network}/networkInterfaces/n`;
    expect(codeOf(await putInstance(lab.arm, 0, [`${pool}x`]))).toBe("400 InvalidResourceReference");
    expect(codeOf(await putInstance(lab.arm, 0, [pool, second]))).toBe(
      "400 VMScaleSetCannotUseMultipleLoadBalancersOfSameType",
    );
    expect(codeOf(await lab.arm("PUT", path, { body: nic([pool, second]) }))).toBe(
      "400 NetworkInterfaceUsesMultipleLoadBalancersOfSameType",
    );
    expect((await lab.arm("PUT", path, { body: nic([pool, `${inner}/backendAddressPools/p`]) })).status).toBe(201);
  });
});

describe("public IPs", () => {
  test("get the DNS name of their label, which one of each family may have", async () => {
    await using lab = await openLab();
    const dnsSettings = { domainNameLabel: "My-Web" };
    const made = await putAddress(lab.arm, "a", { dnsSettings });
    expect(made.body).toMatchObject({ properties: { dnsSettings: { fqdn: "my-web.eastus.cloudapp.azure.com" } } });
    expect(codeOf(await putAddress(lab.arm, "b", { dnsSettings }))).toBe("400 DnsRecordInUse");
    expect((await putAddress(lab.arm, "a", { dnsSettings })).status).toBe(200);
    const ofIPv6 = { dnsSettings, publicIPAddressVersion: "IPv6" };
    expect((await putAddress(lab.arm, "a-IPv6", ofIPv6)).status).toBe(201);
    expect(codeOf(await putAddress(lab.arm, "b-IPv6", ofIPv6))).toBe("400 DnsRecordInUse");
  });

  test("take the addresses of their prefix, which cannot be deleted under them", async () => {
    await using lab = await openLab();
    const prefix = `${network}/publicIPPrefixes/p`;
    lab.world.simulator.put(prefix, { properties: { ipPrefix: "20.8.8.0/31" } });
    const publicIPPrefix = { id: prefix };
    const addresses: unknown[] = [];
    for (const name of ["a", "b"])
      addresses.push(objectAt((await putAddress(lab.arm, name, { publicIPPrefix })).body, "properties")?.["ipAddress"]);
    expect(addresses).toEqual(["20.8.8.0", "20.8.8.1"]);
    expect(codeOf(await putAddress(lab.arm, "c", { publicIPPrefix }))).toBe("400 PublicIPPrefixOutOfIPAddresses");
    expect(codeOf(await lab.arm("DELETE", prefix))).toBe("400 PublicIpPrefixInUse");
  });

  test("keep family, prefix and zones for life, and the address that they were given", async () => {
    await using lab = await openLab();
    const made = await putAddress(lab.arm);
    expect(codeOf(await putAddress(lab.arm, "ip", { publicIPAddressVersion: "IPv6" }))).toBe(
      "400 PropertyChangeNotAllowed",
    );
    expect(codeOf(await lab.arm("PUT", address, { body: { ...made.body, zones: ["1"] } }))).toBe(
      "400 ResourceAvailabilityZonesCannotBeModified",
    );
    const moved = await putAddress(lab.arm, "ip", { ipAddress: "1.2.3.4" });
    expect(moved.body).toMatchObject({ properties: { ipAddress: "20.0.0.1" } });
  });

  test("are limited in number", async () => {
    await using lab = await openLab({ limits: { publicIPAddresses: 1 } });
    await putAddress(lab.arm, "a");
    expect(codeOf(await putAddress(lab.arm, "b"))).toBe("400 PublicIPCountLimitReached");
    expect((await putAddress(lab.arm, "a")).status).toBe(200);
  });
});
