import { describe, expect, test } from "bun:test";

import type { Node, Route } from "cloud-controller-host/sdk";
import * as fc from "fast-check";

import { readClusterCIDRs } from "../../../plugins/route/cluster-cidrs.ts";
import { planRoutes, type RoutePlan } from "../../../plugins/route/plan.ts";
import { aNode, aRoute } from "./objects.ts";

const cluster = readClusterCIDRs("10.120.0.0/16");
const plan = (nodes: readonly Node[], routes: readonly Route[]): RoutePlan => planRoutes(nodes, routes, cluster);
const created = ({ creations }: RoutePlan): readonly string[] =>
  creations.map(({ route }) => `${route.targetNode} ${route.destinationCIDR}`);
const deleted = ({ deletions }: RoutePlan): readonly string[] =>
  deletions.map((route) => `${route.targetNode} ${route.destinationCIDR}`);

const following = (targetNodeAddresses: Route["targetNodeAddresses"] = []): Route => ({
  ...aRoute("a", "10.120.0.0/24"),
  enableNodeAddresses: true,
  targetNodeAddresses,
});

describe("a plan of routes", () => {
  test("contains a route once, even when the node lists its CIDR twice", () => {
    expect(created(plan([aNode("a", ["10.120.0.0/24", "10.120.0.0/24"])], []))).toEqual(["a 10.120.0.0/24"]);
  });

  test("ignores the singular field of a node", () => {
    const node: Node = { metadata: { name: "a" }, spec: { podCIDR: "10.120.0.0/24" } };
    expect(plan([node], [])).toEqual({ deletions: [], creations: [], nodes: [] });
  });

  test("follows a node's addresses only where the cloud's routes do", () => {
    const node = aNode("a", ["10.120.0.0/24"], "10.0.1.1");
    const moved = aRoute("a", "10.120.0.0/24", "10.0.9.9");
    expect(plan([node], [moved])).toMatchObject({ deletions: [], creations: [] });
    const followed = plan([node], [following(moved.targetNodeAddresses)]);
    expect(deleted(followed)).toEqual(["a 10.120.0.0/24"]);
    expect(created(followed)).toEqual(["a 10.120.0.0/24"]);
  });

  test("ignores the order of addresses, but not their type and number", () => {
    const addresses = [
      { type: "InternalIP", address: "10.0.1.1" },
      { type: "Hostname", address: "a" },
    ];
    const node: Node = { ...aNode("a", ["10.120.0.0/24"]), status: { addresses } };
    expect(created(plan([node], [following(addresses.toReversed())]))).toEqual([]);
    expect(created(plan([node], [following(addresses.slice(0, 1))]))).toHaveLength(1);
    expect(
      created(plan([node], [following([...addresses, { type: "ExternalIP", address: "20.0.0.1" }])])),
    ).toHaveLength(1);
    expect(
      created(plan([node], [following(addresses.map(({ address }) => ({ type: "ExternalIP", address })))])),
    ).toHaveLength(1);
  });

  test("recreates a node's route when only a blackhole is left", () => {
    const dead: Route = { ...aRoute("a", "10.120.0.0/24"), blackhole: true };
    const made = plan([aNode("a", ["10.120.0.0/24"])], [dead]);
    expect(deleted(made)).toEqual(["a 10.120.0.0/24"]);
    expect(created(made)).toEqual(["a 10.120.0.0/24"]);
  });

  test("updates conditions of nodes with a CIDR or a route, and of no others", () => {
    const { nodes } = plan(
      [aNode("routed", ["10.120.0.0/24"]), aNode("stale", []), aNode("hostNetwork", [])],
      [aRoute("stale", "10.120.1.0/24")],
    );
    expect(nodes.map(({ node, cidrs }) => [node.metadata?.name, ...cidrs])).toEqual([
      ["routed", "10.120.0.0/24"],
      ["stale"],
    ]);
  });
});

const seed = 20_260_104;
const cidrs = ["10.120.0.0/24", "10.120.1.0/24", "10.120.2.0/24", "10.1.0.0/24"] as const;
const anyRoutes = fc.array(
  fc
    .record({
      target: fc.constantFrom("a", "b", "x", ""),
      cidr: fc.constantFrom(...cidrs),
      blackhole: fc.boolean(),
      enableNodeAddresses: fc.boolean(),
      address: fc.constantFrom("10.0.0.1", "10.0.0.2"),
    })
    .map(({ target, cidr, address, ...flags }): Route => ({ ...aRoute(target, cidr, address), ...flags })),
);
const anyNodes = fc
  .tuple(fc.subarray([...cidrs].slice(0, 3)), fc.subarray([...cidrs].slice(0, 3)))
  .map(([ofA, ofB]) => [aNode("a", ofA, "10.0.0.1"), aNode("b", ofB, "10.0.0.2")]);

const after = (routes: readonly Route[], { deletions, creations }: RoutePlan): readonly Route[] => [
  ...routes.filter((route) => !deletions.includes(route)),
  ...creations.map(({ route }) => route),
];

describe(`whatever routes the cloud has (seed ${seed})`, () => {
  test("one pass is enough: a second one changes nothing", () => {
    fc.assert(
      fc.property(anyNodes, anyRoutes, (nodes, routes) => {
        const second = plan(nodes, after(routes, plan(nodes, routes)));
        expect(second).toMatchObject({ deletions: [], creations: [] });
      }),
      { seed, numRuns: 2000 },
    );
  });

  test("every pod CIDR has a live route afterwards, and no other cluster route remains", () => {
    fc.assert(
      fc.property(anyNodes, anyRoutes, (nodes, routes) => {
        const left = after(routes, plan(nodes, routes));
        const ours = left.filter(({ destinationCIDR }) => destinationCIDR.startsWith("10.120."));
        const wanted = nodes.flatMap(({ metadata, spec }) =>
          (spec?.podCIDRs ?? []).map((cidr) => `${metadata?.name} ${cidr}`),
        );
        expect(ours.every(({ blackhole }) => blackhole !== true)).toBe(true);
        const names = new Set(ours.map(({ targetNode, destinationCIDR }) => `${targetNode} ${destinationCIDR}`));
        expect([...names].toSorted()).toEqual(wanted.toSorted());
      }),
      { seed, numRuns: 2000 },
    );
  });

  test("routes outside the cluster CIDRs are never deleted", () => {
    fc.assert(
      fc.property(anyNodes, anyRoutes, (nodes, routes) =>
        plan(nodes, routes).deletions.every(({ destinationCIDR }) => destinationCIDR.startsWith("10.120.")),
      ),
      { seed },
    );
  });
});
