import { describe, expect, test } from "bun:test";

import { objectsAt, stringAt } from "../../../../plugins/azure-cloud/json.ts";
import { rawClient } from "../raw-client.ts";
import { openWorld } from "../world.ts";

const group = "/subscriptions/sub0/resourceGroups/rg0";
const network = `${group}/providers/Microsoft.Network`;
const scaleSet = `${group}/providers/Microsoft.Compute/virtualMachineScaleSets/vmss0`;

describe("resources", () => {
  test("have ids that do not mind case, an etag that changes with every write, and a state", async () => {
    await using world = await openWorld();
    const arm = await rawClient(world.simulator);
    const made = await arm("PUT", `${network}/loadBalancers/lb`, { body: { location: "eastus", properties: {} } });
    expect(made).toMatchObject({
      status: 201,
      body: {
        id: `${network}/loadBalancers/lb`,
        name: "lb",
        type: "Microsoft.Network/loadBalancers",
        properties: { provisioningState: "Updating", backendAddressPools: [] },
      },
    });
    const again = await arm("PUT", `${network.toUpperCase()}/LOADBALANCERS/LB`, { body: { properties: {} } });
    expect(again).toMatchObject({ status: 200, body: { id: `${network}/loadBalancers/lb`, location: "eastus" } });
    expect(again.body["etag"]).not.toBe(made.body["etag"]);
    const stale = { body: {}, headers: { "if-match": stringAt(made.body, "etag") ?? "" } };
    expect(await arm("PUT", `${network}/loadBalancers/lb`, stale)).toMatchObject({
      status: 412,
      body: { error: { code: "PreconditionFailed" } },
    });
    expect((await arm("DELETE", `${network}/loadBalancers/lb`)).status).toBe(200);
    expect((await arm("DELETE", `${network}/loadBalancers/lb`)).status).toBe(204);
    const gone = await arm("GET", `${network}/loadBalancers/lb`);
    expect(gone).toMatchObject({ status: 404, body: { error: { code: "ResourceNotFound" } } });
    expect(gone.headers.get("x-ms-error-code")).toBe("ResourceNotFound");
  });

  test("name their children, which have paths of their own", async () => {
    await using world = await openWorld();
    const arm = await rawClient(world.simulator);
    world.simulator.put("/providers/Microsoft.Network/publicIPAddresses/ip", {});
    const publicIPAddress = { id: `${network}/publicIPAddresses/ip` };
    const properties = {
      frontendIPConfigurations: [{ name: "f", properties: { publicIPAddress } }],
      backendAddressPools: [{ name: "kubernetes" }],
    };
    await arm("PUT", `${network}/loadBalancers/lb`, { body: { properties } });
    const pool = `${network}/loadBalancers/lb/backendAddressPools`;
    expect(await arm("GET", `${pool}/Kubernetes`)).toMatchObject({
      status: 200,
      body: { id: `${pool}/kubernetes`, name: "kubernetes", properties: { provisioningState: "Succeeded" } },
    });
    expect((await arm("PUT", `${pool}/second`, { body: { properties: {} } })).status).toBe(201);
    const parent = await arm("GET", `${network}/loadBalancers/lb`);
    expect(parent).toMatchObject({
      body: { properties: { backendAddressPools: [{ name: "kubernetes" }, { name: "second" }] } },
    });
    expect((await arm("DELETE", `${pool}/kubernetes`)).status).toBe(200);
    expect((await arm("GET", `${pool}/kubernetes`)).status).toBe(404);
    expect(objectsAt((await arm("GET", pool)).body, "value").map((item) => item["name"])).toEqual(["second"]);
  });

  test("are listed page by page, in a group and in the whole subscription", async () => {
    await using world = await openWorld({ pageSize: 2 });
    const arm = await rawClient(world.simulator);
    for (const name of ["a", "b", "c"])
      world.simulator.put(`/providers/Microsoft.Network/publicIPAddresses/${name}`, {});
    const list = async (path: string): Promise<readonly unknown[]> => {
      const names: unknown[] = [];
      for (let next: string | undefined = path; next !== undefined;) {
        const { body }: { body: Readonly<Record<string, unknown>> } = await arm("GET", next);
        names.push(...objectsAt(body, "value").map((item) => item["name"]));
        next = stringAt(body, "nextLink");
      }
      return names;
    };
    expect(await list(`${network}/publicIPAddresses`)).toEqual(["a", "b", "c"]);
    expect(await list("/subscriptions/sub0/providers/Microsoft.Network/publicIPAddresses")).toEqual(["a", "b", "c"]);
  });

  test("take an address each and keep it", async () => {
    await using world = await openWorld();
    const arm = await rawClient(world.simulator);
    const addressOf = async (name: string, body: unknown): Promise<unknown> => {
      const reply = await arm("PUT", `${network}/publicIPAddresses/${name}`, { body });
      return reply.body["properties"];
    };
    expect(await addressOf("a", {})).toMatchObject({ ipAddress: "20.0.0.1", publicIPAddressVersion: "IPv4" });
    expect(await addressOf("b", { properties: { publicIPAddressVersion: "IPv6" } })).toMatchObject({
      ipAddress: "2603:1030::2",
    });
    expect(await addressOf("a", { tags: { owner: "me" } })).toMatchObject({ ipAddress: "20.0.0.1" });
  });

  const refusals: readonly (readonly [string, string, string])[] = [
    ["an unknown subscription", group.replace("sub0", "sub9"), "SubscriptionNotFound"],
    ["an unknown resource group", `${group}x/providers/Microsoft.Network/loadBalancers`, "ResourceGroupNotFound"],
    ["an unknown type", `${network}/applicationGateways`, "InvalidResourceType"],
    ["instances of an unknown scale set", `${scaleSet}x/virtualMachines`, "ParentResourceNotFound"],
    ["an unknown instance", `${scaleSet}/virtualMachines/7`, "ResourceNotFound"],
  ];
  for (const [name, path, code] of refusals)
    test(`${name} is refused with ${code}`, async () => {
      await using world = await openWorld();
      const arm = await rawClient(world.simulator);
      expect(await arm("GET", path)).toMatchObject({ status: 404, body: { error: { code } } });
    });
});

describe("scale sets", () => {
  test("a write to an instance changes its pools, its etag and the scale set's", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(2);
    const arm = await rawClient(world.simulator);
    const before = await arm("GET", scaleSet);
    const pools = [{ id: `${network}/loadBalancers/lb/backendAddressPools/kubernetes` }];
    const properties = { backendAddressPools: [{ name: "kubernetes" }] };
    world.simulator.put("/providers/Microsoft.Network/loadBalancers/lb", { properties });
    const networkProfileConfiguration = {
      networkInterfaceConfigurations: [
        {
          name: "nic0",
          properties: {
            primary: true,
            ipConfigurations: [
              { name: "ipconfig0", properties: { primary: true, loadBalancerBackendAddressPools: pools } },
            ],
          },
        },
      ],
    };
    const written = await arm("PUT", `${scaleSet}/virtualMachines/1`, {
      body: { location: "eastus", properties: { networkProfileConfiguration } },
    });
    expect(written.status).toBe(202);
    const nic = await arm("GET", `${scaleSet}/virtualMachines/1/networkInterfaces/nic0`);
    expect(nic).toMatchObject({
      body: {
        properties: {
          virtualMachine: { id: `${scaleSet}/virtualMachines/1` },
          ipConfigurations: [
            { properties: { privateIPAddress: "10.240.0.5", loadBalancerBackendAddressPools: pools } },
          ],
        },
      },
    });
    expect((await arm("GET", scaleSet)).body["etag"]).not.toBe(before.body["etag"]);
    const stale = { body: { location: "eastus" }, headers: { "if-match": stringAt(before.body, "etag") ?? "" } };
    expect((await arm("PUT", `${scaleSet}/virtualMachines/1`, stale)).status).toBe(412);
  });

  test("a write to the model is merged into the existing one", async () => {
    await using world = await openWorld();
    const arm = await rawClient(world.simulator);
    const written = await arm("PUT", scaleSet, { body: { location: "eastus", tags: { a: "b" } } });
    expect(written).toMatchObject({
      status: 200,
      body: {
        tags: { a: "b" },
        sku: { name: "Standard_D2s_v3" },
        properties: { virtualMachineProfile: { osProfile: { computerNamePrefix: "vmss0" } } },
      },
    });
  });

  test("the public address of an instance is read at the path that other programs use", async () => {
    await using world = await openWorld();
    world.simulator.addScaleSetInstances("vmss0", 1, { publicIP: "52.0.0.7" });
    const arm = await rawClient(world.simulator);
    const path = `${scaleSet}/virtualMachines/0/networkInterfaces/nic0/ipconfigurations/ipconfig0/publicipaddresses/publicip0`;
    expect(await arm("GET", path)).toMatchObject({ status: 200, body: { properties: { ipAddress: "52.0.0.7" } } });
  });

  test("VMs have the addresses and names returned at their creation", async () => {
    await using world = await openWorld();
    const machines = await world.simulator.addInstances(300);
    expect(machines[35]).toEqual({ nodeName: "vmss000000z", internalIP: "10.240.0.39" });
    expect(machines[255]).toEqual({ nodeName: "vmss0000073", internalIP: "10.240.1.3" });
    expect(new Set(machines.map(({ internalIP }) => internalIP)).size).toBe(300);
  });
});

describe("the service", () => {
  test("refuses a request without a token of its own", async () => {
    await using world = await openWorld();
    const arm = await rawClient(world.simulator);
    const headers = { authorization: "Bearer stolen" };
    const reply = await arm("GET", scaleSet, { headers });
    expect(reply).toMatchObject({ status: 401, body: { error: { code: "InvalidAuthenticationToken" } } });
    expect(reply.headers.get("www-authenticate")).toStartWith("Bearer ");
  });

  test("returns the zones of its region like the resource provider", async () => {
    await using world = await openWorld({ location: "westeurope" });
    const arm = await rawClient(world.simulator);
    const { body } = await arm("GET", "/subscriptions/sub0/providers/Microsoft.Compute");
    const machines = objectsAt(body, "resourceTypes").find((type) => type["resourceType"] === "virtualMachines");
    expect(machines?.["zoneMappings"]).toEqual([{ location: "westeurope", zones: ["1", "2", "3"] }]);
  });

  test("answers a long-running write with a URL to poll", async () => {
    await using world = await openWorld({ operationPolls: 2 });
    const arm = await rawClient(world.simulator);
    const path = `${network}/routeTables/new`;
    const accepted = await arm("PUT", path, { body: {} });
    expect(accepted).toMatchObject({ status: 201, body: { properties: { provisioningState: "Updating" } } });
    const status = accepted.headers.get("azure-asyncoperation") ?? "";
    expect((await arm("GET", status)).body).toEqual({ status: "InProgress" });
    expect((await arm("GET", status)).body).toEqual({ status: "Succeeded" });
    expect(await arm("GET", path)).toMatchObject({ body: { properties: { provisioningState: "Succeeded" } } });
    const removal = await arm("DELETE", path);
    expect(removal.status).toBe(202);
    const result = removal.headers.get("location") ?? "";
    expect((await arm("GET", result)).status).toBe(202);
    expect((await arm("GET", result)).status).toBe(200);
    expect((await arm("GET", path)).status).toBe(404);
  });

  test("fails the configured requests the configured number of times", async () => {
    await using world = await openWorld();
    const arm = await rawClient(world.simulator);
    world.simulator.failNext(
      { method: "GET", path: /vmss0$/u },
      { status: 503, times: 2, headers: { "retry-after": "1" } },
    );
    const statuses: number[] = [];
    for (let times = 0; times < 3; times++) statuses.push((await arm("GET", scaleSet)).status);
    expect(statuses).toEqual([503, 503, 200]);
  });

  test("enforces the configured rate limits, and returns the remaining requests", async () => {
    const rateLimits = { reads: { burst: 2, perSecond: 0.001 }, writes: { burst: 1, perSecond: 0.001 } };
    await using world = await openWorld({ rateLimits });
    const arm = await rawClient(world.simulator);
    const first = await arm("GET", scaleSet);
    expect(first.headers.get("x-ms-ratelimit-remaining-subscription-reads")).toBe("1");
    await arm("GET", scaleSet);
    const third = await arm("GET", scaleSet);
    expect(third.status).toBe(429);
    expect(Number(third.headers.get("retry-after"))).toBeGreaterThan(0);
  });

  test("answers after a latency that is longer than a server usually keeps an idle connection", async () => {
    await using world = await openWorld();
    const arm = await rawClient(world.simulator);
    world.simulator.setLatency(20_000);
    expect((await arm("GET", scaleSet)).status).toBe(200);
  }, 120_000);

  test("records its requests", async () => {
    await using world = await openWorld();
    const arm = await rawClient(world.simulator);
    world.simulator.clearLog();
    await arm("PUT", `${network}/routeTables/rt0`, { body: { tags: { a: "b" } }, headers: { "if-match": "*" } });
    expect(world.simulator.requests()).toEqual([`PUT ${network}/routeTables/rt0`]);
    expect(world.simulator.log[0]).toMatchObject({ status: 200, ifMatch: "*", body: { tags: { a: "b" } } });
  });
});
