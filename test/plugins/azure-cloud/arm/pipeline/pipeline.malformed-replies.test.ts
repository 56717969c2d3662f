import { describe, expect, test } from "bun:test";

import { errorOf } from "../../../../kit/rejection.ts";
import { type Answer, openGateway } from "../gateway.ts";

const page = "<html><body>Sign in to continue</body></html>";

/** What a proxy or a gateway may answer with in place of ARM. */
const replies: Readonly<Record<string, () => Response>> = {
  "a page of HTML": () => new Response(page, { headers: { "content-type": "text/html" } }),
  "a page of HTML that claims to be JSON": () =>
    new Response(page, { headers: { "content-type": "application/json" } }),
  "an empty body": () => new Response(""),
  "no content": () => new Response(undefined, { status: 204 }),
  "an empty object": () => Response.json({}),
  "an error": () => Response.json({ error: { code: "Oops", message: "Out of order." } }),
  "an error with an id and a value of its own": () =>
    Response.json({ error: { code: "Oops", message: "Out of order.", id: "1", value: [] } }),
};

const only =
  (path: string, reply: () => Response): Answer =>
  (url, method) =>
    method === "GET" && url.pathname.toLowerCase().endsWith(path.toLowerCase()) ? reply() : undefined;

describe("a read that is answered with success and without anything of ARM", () => {
  test.each(Object.entries(replies))(
    "a list and a resource that are answered with %s cannot be read",
    async (_what, reply) => {
      await using gateway = await openGateway();
      const { network, compute } = await gateway.clients();
      gateway.answer(only("/loadBalancers", reply));
      expect(await errorOf(Array.fromAsync(network.loadBalancers.list("rg0")))).toBeDefined();
      gateway.answer(only("/networkSecurityGroups/nsg0", reply));
      expect(await errorOf(network.networkSecurityGroups.get("rg0", "nsg0"))).toBeDefined();
      gateway.answer(only("/virtualMachineScaleSets/vmss0", reply));
      expect(await errorOf(compute.virtualMachineScaleSets.get("rg0", "vmss0"))).toBeDefined();
      gateway.answer(() => undefined);
      expect((await network.networkSecurityGroups.get("rg0", "nsg0")).name).toBe("nsg0");
      expect(await Array.fromAsync(network.loadBalancers.list("rg0"))).toEqual([]);
    },
  );

  test("the error names the request, the status and the kind of reply, and not its text", async () => {
    await using gateway = await openGateway();
    const { network } = await gateway.clients();
    gateway.answer(only("/loadBalancers", () => new Response(page, { headers: { "content-type": "text/html" } })));
    const error = await errorOf(Array.fromAsync(network.loadBalancers.list("rg0")));
    expect(error).toMatchObject({ code: "InvalidReply" });
    expect(String(error)).toContain("Microsoft.Network/loadBalancers: 200 without value");
    expect(String(error)).toContain("45 characters of text/html");
    expect(String(error)).not.toContain("Sign in");
  });

  test.each([
    [
      "for the status of a deletion that is answered with an empty body is an error",
      "azure-asyncoperation",
      "",
      "InvalidReply",
    ],
    ["for the result of a deletion may be answered with an empty body", "location", "&monitor=true", undefined],
  ])("a poll %s", async (_what, header, query, code) => {
    await using gateway = await openGateway();
    const { network } = await gateway.clients();
    const poll = "/subscriptions/sub0/providers/Microsoft.Network/locations/eastus/operations/1";
    gateway.answer((url, method) => {
      if (url.pathname === poll) return new Response("");
      if (method !== "DELETE") return undefined;
      const address = `${gateway.origin}${poll}?api-version=2025-05-01${query}`;
      return new Response("", { status: 202, headers: { [header]: address } });
    });
    const error = await errorOf(Promise.resolve(network.publicIPAddresses.delete("rg0", "mine")));
    if (code === undefined) expect(error).toBeUndefined();
    else expect(error).toMatchObject({ code });
  });
});

const network = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network";
const group = { id: `${network}/networkSecurityGroups/nsg0`, name: "nsg0", properties: { securityRules: [] } };

/** Replies to a read of the security group `nsg0` that no reply of ARM to it is. */
const otherResources: Readonly<Record<string, readonly [reply: unknown, problem: string]>> = {
  "a resource of another name": [{ ...group, id: `${network}/networkSecurityGroups/nsg1` }, "another resource"],
  "a resource of another type": [{ ...group, id: `${network}/routeTables/nsg0` }, "another resource"],
  "a resource of another resource group": [{ ...group, id: group.id.replace("rg0", "rg1") }, "another resource"],
  "an id that is not one": [{ ...group, id: "nsg0" }, "another resource"],
  "properties that are null": [{ ...group, properties: null }, "nsg0 without properties"],
  "no properties": [{ id: group.id, name: "nsg0" }, "nsg0 without properties"],
};

const balancer = { id: `${network}/loadBalancers/lb0`, name: "lb0", properties: {} };

describe("a reply of ARM whose content type is not that of JSON", () => {
  const types = ["text/plain", "text/plain; charset=utf-8", "text/html", "application/octet-stream"];
  test.each(types)("a resource, a list and the status of an operation are read from a reply of %s", async (type) => {
    await using gateway = await openGateway();
    const clients = await gateway.clients();
    const headers = { "content-type": type };
    const poll = "/subscriptions/sub0/providers/Microsoft.Network/locations/eastus/operations/1";
    const states = ["InProgress", "InProgress", "Succeeded"];
    const reply = (body: unknown): Response => new Response(JSON.stringify(body), { headers });
    gateway.answer(({ pathname }, method) => {
      if (method === "DELETE")
        return new Response("", { status: 202, headers: { "azure-asyncoperation": gateway.origin + poll } });
      if (pathname === poll) return reply({ status: states.shift() });
      return reply(pathname.endsWith("/loadBalancers") ? { value: [balancer] } : group);
    });
    const nsg = await clients.network.networkSecurityGroups.get("rg0", "nsg0");
    expect(nsg).toMatchObject({ id: group.id, securityRules: [] });
    const put = await clients.network.networkSecurityGroups.createOrUpdate("rg0", "nsg0", { location: "eastus" });
    expect(put).toMatchObject({ id: group.id, securityRules: [] });
    expect(await Array.fromAsync(clients.network.loadBalancers.list("rg0"))).toMatchObject([{ name: "lb0" }]);
    await clients.network.loadBalancers.delete("rg0", "lb0");
    expect(states).toEqual([]);
  });

  test.each([...types, "application/json"])("a long list of %s that is cut off cannot be read", async (type) => {
    await using gateway = await openGateway();
    const clients = await gateway.clients();
    const whole = JSON.stringify({ value: Array.from({ length: 1_000 }, () => balancer) });
    const cut = whole.slice(0, 90_001);
    gateway.answer(only("/loadBalancers", () => new Response(cut, { headers: { "content-type": type } })));
    const error = await errorOf(Array.fromAsync(clients.network.loadBalancers.list("rg0")));
    expect(error).toMatchObject({ code: "InvalidReply" });
    expect(String(error)).toContain("200 that is cut off");
    expect(String(error).length).toBeLessThan(300);
  });

  test("a long list that is cut off behind an object cannot be read, whatever its type", async () => {
    await using gateway = await openGateway();
    const clients = await gateway.clients();
    const cut = `{"value":[${Array.from({ length: 1_000 }, () => JSON.stringify(balancer)).join(",")}`;
    gateway.answer(only("/loadBalancers", () => new Response(cut, { headers: { "content-type": "text/plain" } })));
    const error = await errorOf(Array.fromAsync(clients.network.loadBalancers.list("rg0")));
    expect(error).toMatchObject({ code: "PARSE_ERROR" });
  });
});

describe("a write that is accepted", () => {
  test("fails when a page of HTML is the reply to the poll for its result", async () => {
    await using gateway = await openGateway();
    const clients = await gateway.clients();
    const poll = "/subscriptions/sub0/providers/Microsoft.Network/locations/eastus/operations/1";
    gateway.answer(({ pathname }, method) => {
      if (pathname === poll) return new Response(page, { headers: { "content-type": "text/html" } });
      const location = `${gateway.origin}${poll}?monitor=true`;
      return method === "DELETE" ? new Response("", { status: 202, headers: { location } }) : undefined;
    });
    const error = await errorOf(Promise.resolve(clients.network.loadBalancers.delete("rg0", "lb0")));
    expect(error).toMatchObject({ code: "PARSE_ERROR" });
  });

  test("is followed at its resource when its reply has no other address", async () => {
    await using gateway = await openGateway();
    const clients = await gateway.clients();
    const states = ["Updating", "Updating", "Succeeded"];
    const reply = (status: number): Response =>
      Response.json({ ...group, properties: { provisioningState: states.shift() } }, { status });
    gateway.answer((_url, method) => reply(method === "PUT" ? 202 : 200));
    const put = clients.network.networkSecurityGroups.createOrUpdate("rg0", "nsg0", { location: "eastus" });
    expect((await put).provisioningState).toBe("Succeeded");
  });

  test("fails as a deletion when its reply does not say where its operation is followed", async () => {
    await using gateway = await openGateway();
    const clients = await gateway.clients();
    gateway.answer((_url, method) => (method === "DELETE" ? new Response("", { status: 202 }) : undefined));
    const error = await errorOf(Promise.resolve(clients.network.loadBalancers.delete("rg0", "lb0")));
    expect(error).toMatchObject({ code: "InvalidReply" });
    expect(String(error)).toContain("202 without the address of its operation");
  });

  test.each(["azure-asyncoperation", "location", "operation-location"])(
    "is followed as a deletion at the address that its reply has in %s",
    async (header) => {
      await using gateway = await openGateway();
      const clients = await gateway.clients();
      const poll = "/subscriptions/sub0/providers/Microsoft.Network/locations/eastus/operations/1";
      gateway.answer(({ pathname }, method) => {
        if (method === "DELETE") return new Response("", { status: 202, headers: { [header]: gateway.origin + poll } });
        return pathname === poll ? Response.json({ status: "Succeeded" }) : undefined;
      });
      await clients.network.loadBalancers.delete("rg0", "lb0");
      expect(gateway.requests.filter((request) => request.endsWith(poll))).toHaveLength(1);
    },
  );
});

describe("a read that is answered with another resource or with a part of one", () => {
  test.each(Object.entries(otherResources))(
    "a resource and a list that are answered with %s cannot be read",
    async (_what, [reply, problem]) => {
      await using gateway = await openGateway();
      const clients = await gateway.clients();
      gateway.answer(only("/networkSecurityGroups/nsg0", () => Response.json(reply)));
      const error = await errorOf(clients.network.networkSecurityGroups.get("rg0", "nsg0"));
      expect(error).toMatchObject({ code: "InvalidReply" });
      expect(String(error)).toContain(`200 with ${problem}`);
    },
  );

  test.each([
    [
      "an item of another type",
      [balancer, { ...balancer, id: `${network}/publicIPAddresses/lb0` }],
      "another resource",
    ],
    ["an item of another resource group", [{ ...balancer, id: balancer.id.replace("rg0", "rg1") }], "another resource"],
    ["an item without an id", [{ name: "lb0", properties: {} }], "a resource without an id"],
    ["an item without properties", [balancer, { ...balancer, properties: null }], "lb0 without properties"],
    ["an item that is null", [null], "a resource without an id"],
  ])("a list with %s cannot be read", async (_what, value, problem) => {
    await using gateway = await openGateway();
    const clients = await gateway.clients();
    gateway.answer(only("/loadBalancers", () => Response.json({ value })));
    const error = await errorOf(Array.fromAsync(clients.network.loadBalancers.list("rg0")));
    expect(error).toMatchObject({ code: "InvalidReply" });
    expect(String(error)).toContain(`200 with ${problem}`);
  });

  test.each([[{}], [null]])("a list whose value is %p cannot be read", async (value) => {
    await using gateway = await openGateway();
    const clients = await gateway.clients();
    gateway.answer(only("/loadBalancers", () => Response.json({ value })));
    const error = await errorOf(Array.fromAsync(clients.network.loadBalancers.list("rg0")));
    expect(String(error)).toContain("200 without a list in value");
  });

  test("ids of replies are compared in any case", async () => {
    await using gateway = await openGateway();
    const clients = await gateway.clients();
    const upperCase = { ...group, id: group.id.toUpperCase() };
    gateway.answer(only("/networkSecurityGroups/nsg0", () => Response.json(upperCase)));
    expect((await clients.network.networkSecurityGroups.get("rg0", "nsg0")).id).toBe(upperCase.id);
  });
});
