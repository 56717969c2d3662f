import { describe, expect, test } from "bun:test";

import { ProblemsError } from "cloud-controller-host/sdk";

import { systemClock } from "../../../../host/async/clock.ts";
import { createLogger } from "../../../../host/process/log/log.ts";
import { decodeConfig } from "../../../../plugins/azure-cloud/config/decode.ts";
import { checkReferencedResources } from "../../../../plugins/azure-cloud/instances/referenced-resources.ts";
import { ScaleSetCatalog } from "../../../../plugins/azure-cloud/instances/scale-set-reads.ts";
import { objectAt, objectsAt } from "../../../../plugins/azure-cloud/json.ts";
import { errorOf } from "../../../kit/rejection.ts";
import { openWorld } from "../world.ts";

const reload = { generation: 2 };
const rows: readonly (readonly [string, Readonly<Record<string, string>>, string])[] = [
  ["subscription", { subscriptionId: "other" }, "subscriptionId: subscription other does not exist"],
  ["resource group", { resourceGroup: "other" }, "resourceGroup: other does not exist in subscription sub0"],
  [
    "primary scale set",
    { primaryScaleSetName: "other" },
    "primaryScaleSetName: scale set other does not exist in resource group rg0",
  ],
  [
    "subnet",
    { subnetName: "other" },
    "subnetName: subnet other of virtual network vnet0 does not exist in resource group rg0",
  ],
  ["virtual network", { vnetName: "other" }, "subnetName: subnet subnet0 of virtual network other does not exist"],
  ["resource group of the virtual network", { vnetResourceGroup: "other" }, "vnetResourceGroup: other does not exist"],
];

describe("a config whose %s does not exist", () => {
  test.each(rows)("refuses a reload: %s", async (_what, change, problem) => {
    await using world = await openWorld();
    const error = await errorOf(world.create(change, reload));
    expect(error).toBeInstanceOf(ProblemsError);
    expect(String(error)).toContain(problem);
    expect(world.simulator.log.filter(({ method, path }) => method !== "GET" && path.startsWith("/sub"))).toEqual([]);
  });

  test.each(rows)("is logged at the start of the process: %s", async (_what, change, problem) => {
    await using world = await openWorld();
    await using cloud = await world.create(change);
    expect(cloud.name).toBe("azure");
    const errors = world.logged.filter(({ level }) => level === "error").map(({ message }) => message);
    expect(errors.join("; ")).toContain(`The cloud config names a resource that does not exist: ${problem}`);
  });
});

describe("a reload", () => {
  test("reports all missing resources at once", async () => {
    await using world = await openWorld();
    const error = await errorOf(world.create({ primaryScaleSetName: "a", subnetName: "b" }, reload));
    expect(String(error)).toContain("primaryScaleSetName");
    expect(String(error)).toContain("subnetName");
  });

  test("is refused for a missing scale set or subnet only if it changes a key that leads there, in any case", async () => {
    await using world = await openWorld();
    const refusal = (changedKeys: readonly string[], change: Readonly<Record<string, string>>): Promise<unknown> =>
      errorOf(world.create(change, { ...reload, context: { changedKeys } }));
    const scaleSet = { primaryScaleSetName: "other" };
    const subnet = { subnetName: "other" };
    for (const keys of [["PrimaryScaleSetName"], ["tagsMap.a", "vmType"], ["resourceGroup"]])
      expect(await refusal(keys, scaleSet)).toBeInstanceOf(ProblemsError);
    for (const keys of [["subnetname"], ["vnetName"], ["vnetResourceGroup"], ["networkResourceSubscriptionID"]])
      expect(await refusal(keys, subnet)).toBeInstanceOf(ProblemsError);
    const keep = async (changedKeys: readonly string[], change: Readonly<Record<string, string>>): Promise<void> => {
      await using cloud = await world.create(change, { ...reload, context: { changedKeys } });
      expect(cloud.name).toBe("azure");
    };
    for (const keys of [[], ["aadClientSecret", "subnetName"]]) await keep(keys, scaleSet);
    await keep(["aadClientSecret"], subnet);
    const errors = world.logged.filter(({ level }) => level === "error").map(({ message }) => message);
    expect(errors.filter((message) => message.includes("primaryScaleSetName: scale set other"))).toHaveLength(2);
    expect(errors.filter((message) => message.includes("subnetName: subnet other"))).toHaveLength(1);
    const gone = { resourceGroup: "other" };
    expect(await refusal(["aadClientSecret"], gone)).toBeInstanceOf(ProblemsError);
  });

  test.each([403, 429, 500])("is not refused because ARM answers %d", async (status) => {
    await using world = await openWorld();
    world.simulator.failNext({ path: "/subscriptions/" }, { status, times: 99 });
    await using cloud = await world.create({ primaryScaleSetName: "other" }, reload);
    expect(cloud.name).toBe("azure");
    const logged = world.logged.map(({ message }) => message);
    expect(logged.filter((message) => message !== "Request to Azure failed; retrying")).toEqual([
      "Unable to check that all resources of the cloud config exist",
    ]);
  });

  test("does not check the scale set of standalone VMs, nor a subnet that is not configured", async () => {
    await using world = await openWorld();
    const change = { vmType: "standard", primaryScaleSetName: "other", subnetName: "" };
    await using cloud = await world.create(change, reload);
    expect(cloud.name).toBe("azure");
  });

  test("costs two reads, one of which serves the first lookups of nodes", async () => {
    await using world = await openWorld();
    await using cloud = await world.create({}, reload);
    const paths = (): readonly string[] =>
      world.simulator.log.filter(({ path }) => path.startsWith("/sub")).map(({ path }) => path.split("/").at(-1) ?? "");
    expect(paths().toSorted()).toEqual(["subnet0", "virtualMachineScaleSets"]);
    await cloud.instances.instanceShutdown({ metadata: { name: "vmss0000000" } });
    expect(paths().filter((path) => path === "virtualMachineScaleSets")).toHaveLength(1);
  });

  test("a reload that is canceled by then checks nothing", async () => {
    await using world = await openWorld();
    const clients = await world.clients();
    const decoded = decodeConfig(JSON.parse(world.simulator.configWith({})), {});
    if (!decoded.ok) throw new Error(decoded.problems.join("; "));
    const scaleSets = new ScaleSetCatalog(clients, decoded.value, systemClock);
    const before = world.simulator.log.length;
    const log = createLogger({ format: "json", verbosity: 0, write: () => undefined });
    const canceled = { generation: 2, log, signal: AbortSignal.abort() };
    const error = await errorOf(checkReferencedResources(decoded.value, { clients, scaleSets }, canceled));
    expect(error).toHaveProperty("name", "AbortError");
    expect(world.simulator.log.slice(before)).toEqual([]);
  });
});

describe("a subnet without default outbound access", () => {
  const balancerOf = (properties: object) => ({ sku: { name: "Standard" }, properties });
  const frontend = { name: "f", properties: { publicIPAddress: { id: "/pip" } } };
  const inner = { name: "f", properties: { privateIPAllocationMethod: "Dynamic" } };
  const rule = (disableOutboundSnat: boolean) => ({
    name: "r",
    properties: { protocol: "Tcp", frontendPort: 80, disableOutboundSnat },
  });
  const outbound = {
    name: "o",
    properties: { protocol: "All", backendAddressPool: { id: "/pool" }, frontendIPConfigurations: [{ id: "/f" }] },
  };
  test.each([
    ["nothing else", { defaultOutboundAccess: false }, {}, true],
    ["default outbound access", { defaultOutboundAccess: true }, {}, false],
    ["an answer without that property", {}, {}, false],
    ["a NAT gateway", { defaultOutboundAccess: false, natGateway: { id: "/nat" } }, {}, false],
    ["an outbound rule", { defaultOutboundAccess: false }, { outboundRules: [outbound] }, false],
    [
      "a public rule with SNAT",
      { defaultOutboundAccess: false },
      { frontendIPConfigurations: [frontend], loadBalancingRules: [rule(false)] },
      false,
    ],
    [
      "a public rule without SNAT",
      { defaultOutboundAccess: false },
      { frontendIPConfigurations: [frontend], loadBalancingRules: [rule(true)] },
      true,
    ],
    [
      "an internal rule",
      { defaultOutboundAccess: false },
      { frontendIPConfigurations: [inner], loadBalancingRules: [rule(false)] },
      true,
    ],
  ] as const)("gives a warning if nodes have no other way out: %s", async (_what, subnet, balancer, warned) => {
    await using world = await openWorld();
    const id = "/providers/Microsoft.Network/virtualNetworks/vnet0";
    const network = world.simulator.get(id);
    const subnets = objectsAt(network?.properties, "subnets").map((one) => ({
      ...one,
      properties: { ...objectAt(one, "properties"), ...subnet },
    }));
    world.simulator.put(id, { ...network, properties: { ...network?.properties, subnets } });
    world.simulator.put("/providers/Microsoft.Network/loadBalancers/kubernetes", balancerOf(balancer));
    await using cloud = await world.create();
    expect(cloud.name).toBe("azure");
    const lines = world.logged.filter(({ message }) => message.startsWith("Nodes may not reach the internet"));
    expect(world.logged.filter(({ message }) => message.startsWith("Unable"))).toEqual([]);
    expect(lines.map(({ level, fields }) => [level, fields["subnet"]])).toEqual(warned ? [["warn", "subnet0"]] : []);
  });

  test("gives no warning if a load balancer in loadBalancerResourceGroup has an outbound rule", async () => {
    await using world = await openWorld();
    const id = "/providers/Microsoft.Network/virtualNetworks/vnet0";
    const network = world.simulator.get(id);
    const subnets = objectsAt(network?.properties, "subnets").map((one) => ({
      ...one,
      properties: { ...objectAt(one, "properties"), defaultOutboundAccess: false },
    }));
    world.simulator.put(id, { ...network, properties: { ...network?.properties, subnets } });
    world.simulator.addResourceGroup("balancers");
    const group = "/subscriptions/sub0/resourceGroups/balancers";
    const balancer = balancerOf({ outboundRules: [outbound] });
    world.simulator.put(`${group}/providers/Microsoft.Network/loadBalancers/kubernetes`, balancer);
    await using cloud = await world.create({ loadBalancerResourceGroup: "balancers" });
    expect(cloud.name).toBe("azure");
    expect(world.logged.filter(({ message }) => /^(?:Nodes may not|Unable)/u.test(message))).toEqual([]);
  });
});
