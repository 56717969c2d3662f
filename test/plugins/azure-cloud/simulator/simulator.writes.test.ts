import { describe, expect, test } from "bun:test";

import { type JsonObject, objectAt, objectsAt, stringAt } from "../../../../plugins/azure-cloud/json.ts";
import { errorOf } from "../../../kit/rejection.ts";
import { rawClient, type RawReply } from "../raw-client.ts";
import { openWorld } from "../world.ts";

const group = "/subscriptions/sub0/resourceGroups/rg0";
const network = `${group}/providers/Microsoft.Network`;
const compute = `${group}/providers/Microsoft.Compute`;
const vnet = `${network}/virtualNetworks/vnet0`;
const subnet = `${vnet}/subnets/subnet0`;
const table = `${network}/routeTables/table`;

const codeOf = ({ status, body }: RawReply): string =>
  `${status} ${stringAt(objectAt(body, "error"), "code") ?? ""}`.trim();
const stateOf = ({ body }: RawReply): unknown => objectAt(body, "properties")?.["provisioningState"];
const asyncUrl = ({ headers }: RawReply): string => headers.get("azure-asyncoperation") ?? "";

const routes = (...prefixes: readonly string[]): JsonObject => ({
  properties: {
    routes: prefixes.map((addressPrefix, index) => ({
      name: `r${index}`,
      properties: { addressPrefix, nextHopType: "None" },
    })),
  },
});

describe("a long-running operation", () => {
  test("a long-running operation of the Location style answers 202 until it has ended, and then the resource", async () => {
    await using world = await openWorld({ operationPolls: 2, operationStyle: "location" });
    const arm = await rawClient(world.simulator);
    const accepted = await arm("PUT", table, { body: routes() });
    expect(accepted.headers.has("azure-asyncoperation")).toBe(false);
    const location = accepted.headers.get("location") ?? "";
    expect((await arm("GET", location)).status).toBe(202);
    const ended = await arm("GET", location);
    expect(ended).toMatchObject({ status: 200, body: { id: table } });
    expect(stateOf(ended)).toBe("Succeeded");
  });

  test("an operation that is prolonged for a resource lasts until that stops, and those of others end at once", async () => {
    await using world = await openWorld({});
    const arm = await rawClient(world.simulator);
    let isLong = true;
    world.simulator.prolongOperations((id) => isLong && id.endsWith("/routetables/table"));
    const accepted = await arm("PUT", table, { body: routes("10.1.0.0/16") });
    await arm("PUT", `${table}2`, { body: routes("10.1.0.0/16") });
    expect(stateOf(await arm("GET", `${table}2`))).toBe("Succeeded");
    expect((await arm("GET", asyncUrl(accepted))).body).toEqual({ status: "InProgress" });
    expect(stateOf(await arm("GET", table))).toBe("Updating");
    expect(world.simulator.operations()).toEqual([table.toLowerCase()]);
    isLong = false;
    expect((await arm("GET", asyncUrl(accepted))).body).toEqual({ status: "Succeeded" });
    expect(world.simulator.operations()).toEqual([]);
    expect(stateOf(await arm("GET", table))).toBe("Succeeded");
    isLong = true;
    expect(stateOf(await arm("PUT", table, { body: routes("10.2.0.0/16") }))).toBe("Updating");
  });

  test("a long-running operation that fails late leaves the resource in state Failed, and its error at both places", async () => {
    await using world = await openWorld({ operationStyle: "both" });
    const arm = await rawClient(world.simulator);
    world.simulator.failNext({ method: "PUT" }, { status: 409, code: "Broken", message: "late", stage: "operation" });
    const accepted = await arm("PUT", table, { body: routes("10.1.0.0/16") });
    expect(accepted.status).toBe(201);
    expect((await arm("GET", asyncUrl(accepted))).body).toEqual({
      status: "Failed",
      error: { code: "Broken", message: "late" },
    });
    expect(codeOf(await arm("GET", accepted.headers.get("location") ?? ""))).toBe("409 Broken");
    expect(stateOf(await arm("GET", table))).toBe("Failed");
    await arm("PUT", table, { body: routes() });
    expect(stateOf(await arm("GET", table))).toBe("Succeeded");
  });

  test("a long-running operation answers each creation with 201 and each instance with 202, however soon it ends", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    const arm = await rawClient(world.simulator);
    const created = await arm("PUT", table, { body: routes() });
    expect([created.status, stateOf(created)]).toEqual([201, "Updating"]);
    expect(stateOf(await arm("GET", table))).toBe("Succeeded");
    expect((await arm("GET", asyncUrl(created))).body).toEqual({ status: "Succeeded" });
    const changed = await arm("PUT", table, { body: routes() });
    expect([changed.status, stateOf(changed), changed.headers.has("azure-asyncoperation")]).toEqual([
      200,
      "Succeeded",
      false,
    ]);
    const instance = await arm("PUT", `${compute}/virtualMachineScaleSets/vmss0/virtualMachines/0`, {
      body: { location: "eastus", properties: {} },
    });
    expect([instance.status, instance.body]).toEqual([202, {}]);
    expect((await arm("GET", asyncUrl(instance))).body).toEqual({ status: "Succeeded" });
  });

  test("a long-running operation that ends at once is left out on request", async () => {
    await using world = await openWorld({ operationStyle: "none" });
    const arm = await rawClient(world.simulator);
    const created = await arm("PUT", table, { body: routes() });
    expect([created.status, stateOf(created), created.headers.has("azure-asyncoperation")]).toEqual([
      201,
      "Succeeded",
      false,
    ]);
  });

  test("is superseded by a later write of the resource, whose state stays", async () => {
    await using world = await openWorld({ operationPolls: 1 });
    const arm = await rawClient(world.simulator);
    const first = await arm("PUT", table, { body: routes("10.1.0.0/16") });
    const second = await arm("PUT", table, { body: routes("10.2.0.0/16") });
    expect((await arm("GET", asyncUrl(second))).body).toEqual({ status: "Succeeded" });
    expect((await arm("GET", asyncUrl(first))).body).toMatchObject({
      status: "Canceled",
      error: { code: "CanceledAndSupersededDueToAnotherOperation" },
    });
    const [route] = objectsAt(objectAt((await arm("GET", table)).body, "properties"), "routes");
    expect(route).toMatchObject({ properties: { addressPrefix: "10.2.0.0/16" } });
  });

  test("a resource is shown as being deleted until its deletion has ended", async () => {
    await using world = await openWorld({ operationPolls: 1 });
    world.simulator.put(table, routes());
    const arm = await rawClient(world.simulator);
    const before = await arm("GET", table);
    const deletion = await arm("DELETE", table);
    const during = await arm("GET", table);
    expect([deletion.status, stateOf(before), stateOf(during)]).toEqual([202, "Succeeded", "Deleting"]);
    expect(during.body["etag"]).not.toBe(before.body["etag"]);
    await arm("GET", asyncUrl(deletion));
    expect((await arm("GET", table)).status).toBe(404);
  });

  test("the deletion of a load balancer frees an address whose frontend a superseded write was taking away", async () => {
    await using world = await openWorld({ operationPolls: 1 });
    const [balancer, address] = [`${network}/loadBalancers/lb`, `${network}/publicIPAddresses/ip`];
    world.simulator.put(address, { properties: {} });
    const frontend = { name: "f", properties: { publicIPAddress: { id: address } } };
    world.simulator.put(balancer, { properties: { frontendIPConfigurations: [frontend] } });
    const arm = await rawClient(world.simulator);
    await arm("PUT", balancer, { body: { properties: {} } });
    expect(codeOf(await arm("DELETE", address))).toBe("400 PublicIPAddressCannotBeDeleted");
    await arm("GET", asyncUrl(await arm("DELETE", balancer)));
    expect(objectAt((await arm("GET", address)).body, "properties")).not.toHaveProperty("ipConfiguration");
    expect((await arm("DELETE", address)).status).toBe(202);
  });

  test.each([
    ["that succeeds", [], "Succeeded"],
    ["that fails", [{ status: 409, stage: "operation" }], "Failed"],
    [
      "that is superseded",
      [{ status: 409, stage: "operation", code: "CanceledAndSupersededDueToAnotherOperation" }],
      "Failed",
    ],
  ] as const)(
    "a public IP shows which frontend has it after a write %s, begun while its load balancer was written",
    async (_, failures, end) => {
      await using world = await openWorld({ operationPolls: 1 });
      const [balancer, address] = [`${network}/loadBalancers/lb`, `${network}/publicIPAddresses/ip`];
      world.simulator.put(address, { properties: {} });
      const arm = await rawClient(world.simulator);
      const shown = async () => objectAt((await arm("GET", address)).body, "properties");
      for (const names of [["f"], []]) {
        const frontends = names.map((name) => ({ name, properties: { publicIPAddress: { id: address } } }));
        const body = { properties: { frontendIPConfigurations: frontends } };
        const before = await arm("PUT", balancer, { body });
        for (const failure of failures) world.simulator.failNext({ method: "PUT" }, failure);
        const tagged = await arm("PUT", address, { body: { tags: { team: "a" }, properties: {} } });
        await arm("GET", asyncUrl(before));
        expect((await arm("GET", asyncUrl(tagged))).body["status"]).toBe(end);
        expect(stringAt(objectAt(await shown(), "ipConfiguration"), "id")).toBe(
          names.length === 0 ? undefined : `${balancer}/frontendIPConfigurations/f`,
        );
      }
    },
  );

  test("an operation on a network interface that has been deleted does not change the next one of its name", async () => {
    await using world = await openWorld({ operationPolls: 1 });
    const id = `${network}/networkInterfaces/nic`;
    const withAddress = (privateIPAddress: string) => ({
      properties: { ipConfigurations: [{ name: "c", properties: { privateIPAddress } }] },
    });
    world.simulator.put(id, withAddress("10.240.0.9"));
    const arm = await rawClient(world.simulator);
    const accepted = await arm("PUT", id, { body: { location: "eastus", ...withAddress("10.240.0.9") } });
    world.simulator.delete(id);
    world.simulator.put(id, withAddress("10.240.0.77"));
    expect((await arm("GET", asyncUrl(accepted))).body).toMatchObject({ status: "Canceled" });
    const [configuration] = objectsAt(objectAt((await arm("GET", id)).body, "properties"), "ipConfigurations");
    expect(configuration).toMatchObject({ properties: { privateIPAddress: "10.240.0.77" } });
  });

  test.each([
    ["as it is", false, [1, 0, 0]],
    ["as it was before, if members are shown late", true, [1, 1, 0]],
  ])(
    "a network interface that is being written is shown in the pools of load balancers %s",
    async (_how, late, shown) => {
      await using world = await openWorld({ operationPolls: 1, showsMembersLate: late });
      const properties = { backendAddressPools: [{ name: "p" }] };
      world.simulator.put("/providers/Microsoft.Network/loadBalancers/lb", { properties });
      const arm = await rawClient(world.simulator);
      const pool = `${network}/loadBalancers/lb/backendAddressPools/p`;
      const id = `${network}/networkInterfaces/nic`;
      const inPools = (...pools: readonly string[]) => ({
        location: "eastus",
        properties: {
          ipConfigurations: [
            {
              name: "c",
              properties: {
                subnet: { id: subnet },
                loadBalancerBackendAddressPools: pools.map((one) => ({ id: one })),
              },
            },
          ],
        },
      });
      const members = async (): Promise<number> =>
        objectsAt(objectAt((await arm("GET", pool)).body, "properties"), "backendIPConfigurations").length;
      world.simulator.put(id, inPools(pool));
      const before = await members();
      // The second one supersedes the first.
      await arm("PUT", id, { body: inPools() });
      const accepted = await arm("PUT", id, { body: inPools() });
      const during = await members();
      await arm("GET", asyncUrl(accepted));
      expect([before, during, await members()]).toEqual(shown);
      await arm("GET", asyncUrl(await arm("PUT", id, { body: inPools(pool) })));
      await arm("PUT", id, { body: inPools() });
      expect(await members()).toBe(late ? 1 : 0);
    },
  );

  test("a long-running operation of an instance of a scale set changes its pools at the end only", async () => {
    await using world = await openWorld({ operationPolls: 1 });
    await world.simulator.addInstances(1);
    const properties = { backendAddressPools: [{ name: "p" }] };
    world.simulator.put("/providers/Microsoft.Network/loadBalancers/lb", { properties });
    const arm = await rawClient(world.simulator);
    const pool = `${network}/loadBalancers/lb/backendAddressPools/p`;
    const path = `${compute}/virtualMachineScaleSets/vmss0/virtualMachines/0`;
    const ipConfigurations = [{ name: "c", properties: { loadBalancerBackendAddressPools: [{ id: pool }] } }];
    const networkInterfaceConfigurations = [{ name: "nic0", properties: { ipConfigurations } }];
    const body = {
      location: "eastus",
      properties: { networkProfileConfiguration: { networkInterfaceConfigurations } },
    };
    const members = async (): Promise<number> =>
      objectsAt(objectAt((await arm("GET", pool)).body, "properties"), "backendIPConfigurations").length;
    const accepted = await arm("PUT", path, { body });
    expect([accepted.status, stateOf(await arm("GET", path)), await members()]).toEqual([202, "Updating", 0]);
    await arm("GET", asyncUrl(accepted));
    expect([stateOf(await arm("GET", path)), await members()]).toEqual(["Succeeded", 1]);
  });
});

test("a rotated client secret is accepted, and neither the former one nor its tokens", async () => {
  await using world = await openWorld({});
  const former = world.simulator.configWith({});
  const arm = await rawClient(world.simulator);
  expect((await arm("GET", vnet)).status).toBe(200);
  world.simulator.rotateSecret("another");
  expect((await arm("GET", vnet)).status).toBe(401);
  const login = (config: string) => rawClient({ ...world.simulator, configWith: () => config });
  expect((await (await login(former))("GET", vnet)).status).toBe(401);
  const rotated = world.simulator.configWith({ aadClientSecret: "another" });
  expect((await (await login(rotated))("GET", vnet)).status).toBe(200);
});

describe("a reply that is lost", () => {
  test("a reply that is lost as an error of a gateway was a write nevertheless", async () => {
    await using world = await openWorld();
    const arm = await rawClient(world.simulator);
    world.simulator.failNext({ method: "PUT" }, { status: 504, code: "GatewayTimeout", stage: "response" });
    expect(codeOf(await arm("PUT", table, { body: routes() }))).toBe("504 GatewayTimeout");
    expect((await arm("GET", table)).status).toBe(200);
  });

  test("a reply that is lost with its connection was a write nevertheless", async () => {
    await using world = await openWorld();
    const arm = await rawClient(world.simulator);
    world.simulator.failNext({ method: "PUT" }, { status: 0, stage: "connection" });
    expect(await errorOf(arm("PUT", table, { body: routes() }))).toBeInstanceOf(Error);
    expect((await arm("GET", table)).status).toBe(200);
  });
});

describe("reads that lag", () => {
  test("show neither what was written nor what was deleted a moment ago, while writes see both", async () => {
    await using world = await openWorld();
    const { simulator } = world;
    const arm = await rawClient(simulator);
    await arm("PUT", table, { body: routes("10.1.0.0/16") });
    simulator.setReadLag(60_000);
    await arm("PUT", `${table}2`, { body: routes() });
    expect((await arm("GET", `${table}2`)).status).toBe(404);
    expect((await arm("PUT", `${table}2`, { body: routes() })).status).toBe(200);
    await arm("DELETE", table);
    expect((await arm("GET", table)).status).toBe(200);
    const names = async (): Promise<readonly unknown[]> =>
      objectsAt((await arm("GET", `${network}/routeTables`)).body, "value").map(({ name }) => name);
    expect(await names()).toEqual(["rt0", "table"]);
    expect((await arm("DELETE", table)).status).toBe(204);
    simulator.setReadLag(0);
    expect(await names()).toEqual(["rt0", "table2"]);
  });

  test("catch up in time", async () => {
    await using world = await openWorld();
    const arm = await rawClient(world.simulator);
    world.simulator.setReadLag(2_000);
    await arm("PUT", table, { body: routes() });
    expect((await arm("GET", table)).status).toBe(404);
    await Bun.sleep(2_010);
    expect((await arm("GET", table)).status).toBe(200);
  });
});

describe("networks", () => {
  const frontend = { name: "f", properties: { subnet: { id: subnet } } };

  test("a subnet shows what uses it and cannot be taken away from it, by either path", async () => {
    await using world = await openWorld();
    const arm = await rawClient(world.simulator);
    const lb = `${network}/loadBalancers/lb`;
    await arm("PUT", lb, { body: { properties: { frontendIPConfigurations: [frontend] } } });
    expect((await arm("GET", subnet)).body).toMatchObject({
      properties: { ipConfigurations: [{ id: `${lb}/frontendIPConfigurations/f` }] },
    });
    expect(codeOf(await arm("DELETE", subnet))).toBe("400 InUseSubnetCannotBeDeleted");
    expect(codeOf(await arm("DELETE", vnet))).toBe("400 InUseSubnetCannotBeDeleted");
    const network0 = await arm("GET", vnet);
    const emptied = { ...network0.body, properties: { ...objectAt(network0.body, "properties"), subnets: [] } };
    expect(codeOf(await arm("PUT", vnet, { body: emptied }))).toBe("400 InUseSubnetCannotBeDeleted");
    await arm("DELETE", lb);
    expect((await arm("DELETE", subnet)).status).toBe(200);
  });

  test("a route table and a security group that a subnet uses cannot be deleted", async () => {
    await using world = await openWorld();
    const arm = await rawClient(world.simulator);
    const read = await arm("GET", subnet);
    const routeTable = { id: `${network}/routeTables/rt0` };
    const networkSecurityGroup = { id: `${network}/networkSecurityGroups/nsg0` };
    const properties = { ...objectAt(read.body, "properties"), routeTable, networkSecurityGroup };
    await arm("PUT", subnet, { body: { ...read.body, properties } });
    expect(codeOf(await arm("DELETE", routeTable.id))).toBe("400 InUseRouteTableCannotBeDeleted");
    expect(codeOf(await arm("DELETE", networkSecurityGroup.id))).toBe("400 InUseNetworkSecurityGroupCannotBeDeleted");
    expect((await arm("GET", routeTable.id)).body).toMatchObject({ properties: { subnets: [{ id: subnet }] } });
  });

  test("security rules have a name of their own, and a priority in each direction, within the range and the limit", async () => {
    await using world = await openWorld({ limits: { securityRules: 2 } });
    const arm = await rawClient(world.simulator);
    const rule = (name: string, priority: number, direction = "Inbound"): JsonObject => ({
      name,
      properties: { priority, direction, access: "Allow", protocol: "*" },
    });
    const put = (...securityRules: readonly JsonObject[]): Promise<RawReply> =>
      arm("PUT", `${network}/networkSecurityGroups/nsg0`, { body: { properties: { securityRules } } });
    expect(codeOf(await put(rule("a", 500), rule("b", 500)))).toBe("400 SecurityRuleConflict");
    expect(codeOf(await put(rule("a", 500), rule("A", 501)))).toBe("400 DuplicateResourceName");
    expect(codeOf(await put(rule("a", 4097)))).toBe("400 SecurityRuleInvalidPriority");
    expect((await put(rule("a", 500), rule("b", 500, "Outbound"))).status).toBe(200);
    expect(codeOf(await put(rule("a", 500), rule("b", 501), rule("c", 502)))).toBe("400 SecurityRuleCountLimitReached");
  });

  test("routes of one table have different prefixes, within the limit", async () => {
    await using world = await openWorld({ limits: { routes: 2 } });
    const arm = await rawClient(world.simulator);
    const put = (...prefixes: readonly string[]): Promise<RawReply> => arm("PUT", table, { body: routes(...prefixes) });
    expect(codeOf(await put("10.1.0.0/16", "10.1.0.0/16"))).toBe("400 RouteConflict");
    expect(codeOf(await put("10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"))).toBe("400 RouteCountLimitReached");
    expect((await put("10.1.0.0/16", "10.2.0.0/16")).status).toBe(201);
  });
});

describe("a private link service", () => {
  test("needs a subnet without policies, has an alias for life, and holds its load balancer", async () => {
    await using world = await openWorld();
    const arm = await rawClient(world.simulator);
    const lb = `${network}/loadBalancers/lb`;
    const frontends = [{ name: "f", properties: { subnet: { id: subnet } } }];
    const balancer = await arm("PUT", lb, { body: { properties: { frontendIPConfigurations: frontends } } });
    const frontend = `${lb}/frontendIPConfigurations/f`;
    const pls = `${network}/privateLinkServices/pls`;
    const put = (id = frontend): Promise<RawReply> =>
      arm("PUT", pls, {
        body: {
          properties: {
            loadBalancerFrontendIpConfigurations: [{ id }],
            ipConfigurations: [{ name: "c", properties: { subnet: { id: subnet } } }],
          },
        },
      });
    expect(codeOf(await put(`${frontend}x`))).toBe("400 InvalidResourceReference");
    expect(codeOf(await put())).toBe("400 PrivateLinkServiceCannotBeCreatedInSubnetThatHasNetworkPoliciesEnabled");
    const read = await arm("GET", subnet);
    const properties = { ...objectAt(read.body, "properties"), privateLinkServiceNetworkPolicies: "Disabled" };
    await arm("PUT", subnet, { body: { ...read.body, properties } });
    const made = await put();
    const alias = objectAt(made.body, "properties")?.["alias"];
    expect(alias).toMatch(/^pls\.[0-9a-f-]{36}\.eastus\.azure\.privatelinkservice$/u);
    expect(made.body).toMatchObject({ properties: { ipConfigurations: [{ id: `${pls}/ipConfigurations/c` }] } });
    expect(objectAt((await put()).body, "properties")?.["alias"]).toBe(alias);
    const held = await arm("GET", lb);
    expect(held.body["etag"]).not.toBe(balancer.body["etag"]);
    expect(codeOf(await arm("DELETE", lb))).toBe("400 CannotDeleteLoadBalancerWithPrivateLinkService");
    expect((await arm("DELETE", pls)).status).toBe(200);
    expect((await arm("DELETE", lb)).status).toBe(200);
  });

  test("a private link service with a private endpoint connection is deleted after it", async () => {
    await using world = await openWorld();
    const arm = await rawClient(world.simulator);
    const pls = `${network}/privateLinkServices/pls`;
    world.simulator.put(pls, { properties: { privateEndpointConnections: [{ name: "peer" }] } });
    expect(codeOf(await arm("DELETE", pls))).toBe(
      "400 PrivateLinkServiceWithPrivateEndpointConnectionsCannotBeDeleted",
    );
    expect((await arm("DELETE", `${pls}/privateEndpointConnections/peer`)).status).toBe(200);
    expect((await arm("DELETE", pls)).status).toBe(200);
  });
});

describe("virtual machines", () => {
  test("are attached to interfaces, which cannot be deleted before them", async () => {
    await using world = await openWorld();
    const arm = await rawClient(world.simulator);
    const nic = `${network}/networkInterfaces/nic`;
    const vm = `${compute}/virtualMachines/vm`;
    const set = `${compute}/availabilitySets/set`;
    await arm("PUT", nic, {
      body: { properties: { ipConfigurations: [{ name: "c", properties: { subnet: { id: subnet } } }] } },
    });
    const created = await arm("PUT", set, { body: { location: "eastus" } });
    expect(created.status).toBe(200);
    expect(created.body).not.toHaveProperty("etag");
    expect(created.body["properties"]).not.toHaveProperty("provisioningState");
    const networkProfile = { networkInterfaces: [{ id: nic }] };
    const body = { location: "eastus", properties: { networkProfile, availabilitySet: { id: set } } };
    await arm("PUT", vm, { body });
    expect((await arm("GET", nic)).body).toMatchObject({ properties: { virtualMachine: { id: vm } } });
    expect((await arm("GET", set)).body).toMatchObject({ properties: { virtualMachines: [{ id: vm }] } });
    expect(codeOf(await arm("DELETE", nic))).toBe("400 NicInUse");
    await arm("DELETE", vm);
    expect((await arm("GET", nic)).body["properties"]).not.toHaveProperty("virtualMachine");
    expect((await arm("DELETE", nic)).status).toBe(200);
  });

  test("a PATCH lays its body over a scale set, and over the tags alone of a public IP", async () => {
    await using world = await openWorld();
    const arm = await rawClient(world.simulator);
    const scaleSet = await arm("PATCH", `${compute}/virtualMachineScaleSets/vmss0`, { body: { tags: { a: "b" } } });
    expect(scaleSet.body).toMatchObject({ tags: { a: "b" }, sku: { name: "Standard_D2s_v3" } });
    const ip = `${network}/publicIPAddresses/ip`;
    await arm("PUT", ip, { body: { tags: { old: "1" }, properties: { idleTimeoutInMinutes: 7 } } });
    const patched = await arm("PATCH", ip, { body: { tags: { new: "1" }, properties: { idleTimeoutInMinutes: 9 } } });
    expect(patched.body).toMatchObject({ tags: { new: "1" }, properties: { idleTimeoutInMinutes: 7 } });
    expect(patched.body["tags"]).toEqual({ new: "1" });
  });

  const unknown = [
    ["POST", `${network}/loadBalancers/lb`],
    ["PUT", `${network}/loadBalancers`],
    ["DELETE", `${network}/publicIPAddresses`],
    ["PATCH", subnet],
    ["PATCH", `${compute}/virtualMachineScaleSets/vmss0/virtualMachines/0`],
    ["PUT", `${compute}/virtualMachineScaleSets/vmss0/virtualMachines`],
    ["PUT", `${compute}/virtualMachineScaleSets/vmss0/virtualMachines/0/networkInterfaces/nic0`],
    ["PUT", "/subscriptions/sub0/providers/Microsoft.Compute"],
  ] as const;
  for (const [method, path] of unknown)
    test(`${method} ${path.slice(path.lastIndexOf("providers/"))} is refused with 405`, async () => {
      await using world = await openWorld();
      await world.simulator.addInstances(1);
      const arm = await rawClient(world.simulator);
      expect(codeOf(await arm(method, path, { body: {} }))).toBe("405 MethodNotAllowed");
    });
});
