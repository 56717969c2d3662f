import { describe, expect, test } from "bun:test";

import { objectAt, objectsAt, stringAt } from "../../../../../plugins/azure-cloud/json.ts";
import { rawClient, type RawReply } from "../../raw-client.ts";
import { openWorld } from "../../world.ts";

const group = "/subscriptions/sub0/resourceGroups/rg0/providers";
const pip = `${group}/Microsoft.Network/publicIPAddresses/pip`;
const balancer = `${group}/Microsoft.Network/loadBalancers/lb`;
const scaleSet = `${group}/Microsoft.Compute/virtualMachineScaleSets/vmss0`;

const errorIn = ({ status, body }: RawReply): string => {
  const error = objectAt(body, "error");
  return `${status} ${stringAt(error, "code")}: ${stringAt(error, "message")}`;
};

describe("a PUT is refused as ARM's parsers refuse it", () => {
  const json = "400 InvalidRequestFormat: Cannot parse the request. InvalidJson:";
  test.each<[string, string, object, string]>([
    [
      "an unknown member",
      pip,
      { publicIPAllocationMethod: "Static" },
      `${json} Could not find member 'publicIPAllocationMethod' on object of type 'PublicIPAddress'. Path 'publicIPAllocationMethod'.`,
    ],
    [
      "an unknown member of a sub-resource",
      balancer,
      { properties: { probes: [{ name: "a", properties: { protocol: "Tcp", port: 80, path: "/" } }] } },
      `${json} Could not find member 'path' on object of type 'ProbePropertiesFormat'. Path 'properties.probes[0].properties.path'.`,
    ],
    [
      "a value of another type",
      pip,
      { properties: { idleTimeoutInMinutes: "4" } },
      `${json} Error converting value "4" to type 'integer'. Path 'properties.idleTimeoutInMinutes'.`,
    ],
    [
      "a word that is not one of its enum",
      pip,
      { properties: { publicIPAddressVersion: "IPv5" } },
      `${json} Error converting value "IPv5" to type 'enum'. Path 'properties.publicIPAddressVersion'.`,
    ],
    [
      "a required member that is missing",
      balancer,
      { properties: { probes: [{ name: "a", properties: { protocol: "Tcp" } }] } },
      `${json} Required property 'port' not found in JSON. Path 'properties.probes[0].properties'.`,
    ],
    [
      "a tag that is not a string",
      pip,
      { tags: { a: 1 } },
      `${json} Error converting value 1 to type 'string'. Path 'tags.a'.`,
    ],
    [
      "an unknown member of a Compute resource",
      scaleSet,
      { location: "eastus", properties: { overProvision: true } },
      "400 BadRequest: Could not find member 'overProvision' on object of type 'VirtualMachineScaleSetProperties'. Path 'properties.overProvision'.",
    ],
  ])("%s", async (_what, path, body, refusal) => {
    await using world = await openWorld();
    const arm = await rawClient(world.simulator);
    expect(errorIn(await arm("PUT", path, { body }))).toBe(refusal);
  });

  test("a PUT is refused as ARM's parsers refuse it: no body at all", async () => {
    await using world = await openWorld();
    const arm = await rawClient(world.simulator);
    expect(errorIn(await arm("PUT", pip))).toBe(`${json} Unexpected end of content.`);
  });
});

test("a read-only member is accepted in a PUT, and null is as good as nothing", async () => {
  await using world = await openWorld();
  const arm = await rawClient(world.simulator);
  const properties = { publicIPAddressVersion: "IPv4", publicIPAllocationMethod: "Static", provisioningState: "X" };
  const made = await arm("PUT", pip, { body: { etag: "x", zones: null, sku: { name: "Standard" }, properties } });
  expect(made.status).toBe(201);
});

describe("ARM shows", () => {
  test("ARM shows on a rule its pool twice, and refuses a rule with two different ones", async () => {
    await using world = await openWorld();
    const arm = await rawClient(world.simulator);
    const frontend = `${balancer}/frontendIPConfigurations/f`;
    const subnet = { id: `${group}/Microsoft.Network/virtualNetworks/vnet0/subnets/subnet0` };
    const pools = ["p", "q"].map((name) => ({ id: `${balancer}/backendAddressPools/${name}` }));
    const body = (more: object) => ({
      sku: { name: "Standard" },
      properties: {
        frontendIPConfigurations: [{ name: "f", properties: { subnet } }],
        backendAddressPools: [{ name: "p" }, { name: "q" }],
        inboundNatPools: [
          {
            name: "n",
            properties: {
              frontendIPConfiguration: { id: frontend },
              protocol: "Tcp",
              frontendPortRangeStart: 1000,
              frontendPortRangeEnd: 1010,
              backendPort: 22,
            },
          },
        ],
        loadBalancingRules: [
          {
            name: "r",
            properties: {
              frontendIPConfiguration: { id: frontend },
              backendAddressPool: pools[0],
              protocol: "Tcp",
              frontendPort: 80,
              backendPort: 80,
              ...more,
            },
          },
        ],
      },
    });
    const made = await arm("PUT", balancer, { body: body({}) });
    const [rule] = objectsAt(objectAt(made.body, "properties"), "loadBalancingRules");
    expect(objectAt(rule, "properties")).toMatchObject({ backendAddressPools: [pools[0]] });
    const [shown] = objectsAt(objectAt(made.body, "properties"), "frontendIPConfigurations");
    expect(objectAt(shown, "properties")).toMatchObject({ inboundNatPools: [{ id: `${balancer}/inboundNatPools/n` }] });
    expect(made.body["sku"]).toEqual({ name: "Standard", tier: "Regional" });
    expect((await arm("PUT", balancer, { body: made.body })).status).toBe(200);
    const refused = await arm("PUT", balancer, { body: body({ backendAddressPools: [pools[1]] }) });
    expect(errorIn(refused)).toStartWith(
      "400 LoadBalancingRuleBackendAdressPoolAndBackendAddressPoolsCannotBeSetAtTheSameTimeWithDifferentValue",
    );
  });

  test("the rules that every security group has, and those of its owner beside them", async () => {
    await using world = await openWorld();
    const arm = await rawClient(world.simulator);
    const shown = await arm("GET", `${group}/Microsoft.Network/networkSecurityGroups/nsg0`);
    const rules = objectsAt(objectAt(shown.body, "properties"), "defaultSecurityRules");
    expect(rules.map((rule) => objectAt(rule, "properties")?.["priority"])).toEqual([
      65_000, 65_001, 65_500, 65_000, 65_001, 65_500,
    ]);
    const again = await arm("PUT", stringAt(shown.body, "id") ?? "", { body: shown.body });
    expect(objectsAt(objectAt(again.body, "properties"), "defaultSecurityRules")).toHaveLength(6);
  });

  test("the single prefix of a subnet under the name that it was written with", async () => {
    await using world = await openWorld();
    const arm = await rawClient(world.simulator);
    const network = `${group}/Microsoft.Network/virtualNetworks/vnet1`;
    const subnets = [{ name: "one", properties: { addressPrefix: "10.9.0.0/24" } }];
    const body = { location: "eastus", properties: { addressSpace: { addressPrefixes: ["10.9.0.0/16"] }, subnets } };
    await arm("PUT", network, { body });
    const shown = await arm("GET", `${network}/subnets/one`);
    expect(objectAt(shown.body, "properties")).toMatchObject({ addressPrefix: "10.9.0.0/24" });
    expect(objectAt(shown.body, "properties")).not.toHaveProperty("addressPrefixes");
  });
});

test("a resource that ARM could not hold fails the read of it, with its name", async () => {
  await using world = await openWorld();
  world.simulator.put(pip, { publicIPAllocationMethod: "Static", properties: {} });
  const arm = await rawClient(world.simulator);
  expect(errorIn(await arm("GET", pip))).toBe(
    `400 InvalidSimulatorReply: ${pip}: Could not find member 'publicIPAllocationMethod' on object of type 'PublicIPAddress'. Path 'publicIPAllocationMethod'.`,
  );
});
