import { describe, expect, test } from "bun:test";

import * as fc from "fast-check";

import {
  excessRoutes,
  maxRoutes,
  planRoutes,
  type RouteChange,
  type RouteTableWrite,
} from "../../../../plugins/azure-cloud/routes/plan-routes.ts";
import { nodeNameOf, routeNameOf } from "../../../../plugins/azure-cloud/routes/route-names.ts";
import { firstOfFamily } from "../../../../plugins/azure-cloud/routes/routes.ts";

const route = (name: string, addressPrefix = "10.0.0.0/24", nextHopIpAddress = "10.1.0.4") => ({
  name,
  addressPrefix,
  nextHopType: "VirtualAppliance",
  nextHopIpAddress,
});
const tableOf = (...names: readonly string[]): RouteTableWrite => ({
  location: "eastus",
  tags: { team: "net" },
  disableBgpRoutePropagation: true,
  routes: names.map((name) => route(name)),
});
const create = (node: string, cidr: string, nextHop = "10.1.0.4"): RouteChange => ({
  kind: "create",
  node,
  cidr,
  nextHop,
});
const remove = (node: string, cidr: string, name = routeNameOf(node, cidr)): RouteChange => ({
  kind: "delete",
  node,
  cidr,
  name,
});
const noNode = (): boolean => false;
const namesIn = (table: RouteTableWrite | undefined): readonly (string | undefined)[] | undefined =>
  table?.routes?.map(({ name }) => name);

describe("route names", () => {
  test("have the node, four underscores and the CIDR without its marks", () => {
    expect(routeNameOf("node", "10.244.1.0/24")).toBe("node____102441024");
    expect(routeNameOf("node", "fd00:10:244::/64")).toBe("node____fd001024464");
  });

  test.each(["10.244.1.0/24", "fd00:10:244::/64"])("map back to the node: %s", (cidr) => {
    expect(nodeNameOf(routeNameOf("aks-pool-1-vmss00000a", cidr))).toBe("aks-pool-1-vmss00000a");
  });

  test("route names without a CIDR are the node itself", () => expect(nodeNameOf("node")).toBe("node"));
});

describe("the first address of a family", () => {
  const addresses = ["10.1.0.4", "fd00::4", "10.1.0.5", "fd00::5"];
  test("IPv4", () => expect(firstOfFamily(addresses, "ipv4")).toBe("10.1.0.4"));
  test("IPv6", () => expect(firstOfFamily(addresses, "ipv6")).toBe("fd00::4"));
  test("IPv6 without one", () => expect(firstOfFamily(["10.1.0.4"], "ipv6")).toBeUndefined());
});

describe("routes beyond the limit", () => {
  const full = tableOf(...Array.from({ length: maxRoutes }, (_, index) => routeNameOf(`n${index}`, "10.0.0.0/24")));

  test("are the last of the routes that the table has no room for", () => {
    const changes = [create("a", "10.0.1.0/24"), remove("n0", "10.0.0.0/24"), create("b", "10.0.1.0/24")];
    expect([...excessRoutes(full, changes)]).toEqual(changes.slice(2));
  });

  test("are none where routes only change their next hop", () =>
    expect(excessRoutes(full, [create("n0", "10.0.0.0/24", "10.1.0.9")]).size).toBe(0));
});

describe("planning routes", () => {
  test("adds the first route to a table that has none", () => {
    const planned = planRoutes({ location: "eastus" }, [create("a", "10.0.1.0/24")], noNode);
    expect(namesIn(planned)).toEqual([routeNameOf("a", "10.0.1.0/24")]);
  });

  test("replaces a route of ours that has lost its next hop", () => {
    const lost = {
      name: routeNameOf("a", "10.0.1.0/24"),
      addressPrefix: "10.0.1.0/24",
      nextHopType: "VirtualAppliance",
    };
    const planned = planRoutes({ location: "eastus", routes: [lost] }, [create("a", "10.0.1.0/24")], noNode);
    expect(planned?.routes).toEqual([route(lost.name, "10.0.1.0/24")]);
  });

  test("adds routes and keeps those of other owners, their order, tags and settings", () => {
    const planned = planRoutes(tableOf("users"), [create("a", "10.0.1.0/24"), create("b", "10.0.2.0/24")], noNode);
    expect(planned).toEqual({
      ...tableOf(),
      routes: [route("users"), route("a____1001024", "10.0.1.0/24"), route("b____1002024", "10.0.2.0/24")],
    });
  });

  test("plans nothing where the route is there, whatever the case", () => {
    const table = { ...tableOf(), routes: [{ ...route("A____1000024"), nextHopType: "virtualappliance" }] };
    expect(planRoutes(table, [create("a", "10.0.0.0/24")], noNode)).toBeUndefined();
    expect(planRoutes(tableOf("users"), [], noNode)).toBeUndefined();
  });

  test.each([
    ["next hop", { nextHopIpAddress: "10.1.0.9" }],
    ["next hop type", { nextHopType: "None" }],
    ["prefix", { addressPrefix: "10.0.9.0/24" }],
  ] as const)("replaces a route with another %s", (_what, difference) => {
    const table = { ...tableOf(), routes: [{ ...route("a____1000024"), ...difference }] };
    expect(planRoutes(table, [create("a", "10.0.0.0/24")], noNode)?.routes).toEqual([route("a____1000024")]);
  });

  test("deletes a node's route, and the one without CIDR in its name, in one plan", () => {
    const table = tableOf("node", "node____1000024", "users");
    expect(namesIn(planRoutes(table, [remove("node", "10.0.0.0/24")], noNode))).toEqual(["users"]);
  });

  test("deletes no route of a node whose name begins alike", () => {
    const table = tableOf("node1____1000024", "node10____1000124", "node1____1000224");
    expect(namesIn(planRoutes(table, [remove("node1", "10.0.0.0/24")], noNode))).toEqual([
      "node10____1000124",
      "node1____1000224",
    ]);
  });

  test("deletes a listed route by the name that it has", () => {
    const planned = planRoutes(tableOf("node____bar", "users"), [remove("node", "10.0.0.0/24", "node____bar")], noNode);
    expect(namesIn(planned)).toEqual(["users"]);
  });

  test("plans nothing for the deletion of a route that is not there", () => {
    expect(planRoutes(tableOf("users"), [remove("node", "10.0.0.0/24")], noNode)).toBeUndefined();
  });

  test("removes the old names of known nodes only, and only with another change", () => {
    const table = tableOf("node", "unknown", "node____1000024");
    const isKnown = (name: string): boolean => name === "node";
    expect(namesIn(planRoutes(table, [create("b", "10.0.2.0/24")], isKnown))).toEqual([
      "unknown",
      "node____1000024",
      "b____1002024",
    ]);
  });

  test("adds the wanted tags to those of the table and leaves the routes alone", () => {
    const planned = planRoutes(
      tableOf("users"),
      [{ kind: "tags", desired: new Map([["a", "b"]]), systemTags: [] }],
      noNode,
    );
    expect(planned).toEqual({ ...tableOf("users"), tags: { team: "net", a: "b" } });
  });

  test("a later change of a batch wins", () => {
    const both = [create("a", "10.0.0.0/24"), remove("a", "10.0.0.0/24")];
    expect(planRoutes(tableOf("users"), both, noNode)?.routes).toEqual([route("users")]);
    expect(namesIn(planRoutes(tableOf(), both.toReversed(), noNode))).toEqual(["a____1000024"]);
  });

  test("applied twice changes nothing more, and never touches a route that no change names", () => {
    const change = fc
      .record({ node: fc.constantFrom("a", "b", "ab"), octet: fc.nat(3), creates: fc.boolean() })
      .map(({ node, octet, creates }) =>
        creates ? create(node, `10.0.${octet}.0/24`, `10.1.0.${octet}`) : remove(node, `10.0.${octet}.0/24`),
      );
    fc.assert(
      fc.property(fc.array(change, { maxLength: 12 }), (changes) => {
        const table = tableOf("users", "a-____1000024", "A____99");
        const planned = planRoutes(table, changes, noNode) ?? table;
        expect(namesIn(planned)?.slice(0, 3)).toEqual(["users", "a-____1000024", "A____99"]);
        const lasting = new Map(changes.map((one) => ["node" in one ? `${one.node} ${one.cidr}` : "", one]));
        expect(planRoutes(planned, [...lasting.values()], noNode)).toBeUndefined();
      }),
      { seed: 20260914, numRuns: 300 },
    );
  });
});
