import { describe, expect, test } from "bun:test";

import type { LoadBalancer } from "@azure/arm-network";
import type { Node } from "cloud-controller-host/sdk";

import type { Observed, ServiceIntent } from "../../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { plan } from "../../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { applied } from "../../applied.ts";
import { intentOf, plannerConfigOf } from "../../fixtures.ts";
import { converge, nodesNamed, world } from "../../world.ts";

const configOf = (changes: Readonly<Record<string, unknown>> = {}) =>
  plannerConfigOf({
    loadBalancerBackendPoolConfigurationType: "nodeIP",
    multipleStandardLoadBalancerConfigurations: [
      { name: "kubernetes", primaryVMSet: "vmss0" },
      ...["x", "y"].map((pool) => ({
        name: `lb-${pool}`,
        primaryVMSet: `vmss-${pool}`,
        nodeSelector: { matchLabels: { pool } },
      })),
    ],
    ...changes,
  });
const config = configOf();

/** Three nodes; those with a label go to the load balancer of its value while that exists. */
const labeled = (...pools: readonly string[]): readonly Node[] =>
  nodesNamed("node-0", "node-1", "node-2").map((node, index) => {
    const pool = pools[index] ?? "";
    return pool === "" ? node : { ...node, metadata: { ...node.metadata, labels: { pool } } };
  });

/** A Service on a load balancer. */
const on = (balancer: string, nodes: readonly Node[], annotations: Readonly<Record<string, string>> = {}) =>
  intentOf({
    name: `on-${balancer}`,
    uid: new Bun.CryptoHasher("md5").update(balancer).digest("hex"),
    nodes,
    annotations: { "azure-load-balancer-configurations": balancer, ...annotations },
  });
const services = (nodes: readonly Node[], ...balancers: readonly string[]) => balancers.map((one) => on(one, nodes));

const membersIn = (loadBalancers: readonly LoadBalancer[]) =>
  Object.fromEntries(
    loadBalancers.map(({ name = "", backendAddressPools = [] }) => [
      name,
      (backendAddressPools[0]?.loadBalancerBackendAddresses ?? []).map((one) => one.name ?? "").toSorted(),
    ]),
  );

/** What the plan writes into the first pool of each load balancer. */
const writtenIn = (intents: readonly ServiceIntent[], observed: Observed, by = config) =>
  membersIn(
    plan(intents, observed, by)
      .stages.flatMap(({ writes }) => writes)
      .flatMap((write) => (write.kind === "put-load-balancer" ? [{ ...write.body, name: write.name }] : [])),
  );

const settled = (intents: readonly ServiceIntent[], start: Observed, by = config): Observed =>
  converge(intents, start, by).observed;

/** All nodes are in the pool of `kubernetes`, and the public IP of the Service on another load balancer is there. */
function beforeCreation(balancer: string, nodes: readonly Node[], by = config) {
  const start = settled(services(nodes, "kubernetes"), world({ nodes }), by);
  const intents = services(nodes, "kubernetes", balancer);
  const { stages, ...rest } = plan(intents, start, by);
  const publicIPs = stages.filter(({ name }) => name === "public-ips");
  return { intents, observed: applied(start, { stages: publicIPs, ...rest }) };
}

const withState = (observed: Observed, name: string, provisioningState: string): Observed => ({
  ...observed,
  loadBalancers: observed.loadBalancers.map((one) => (one.name === name ? { ...one, provisioningState } : one)),
});

describe("a node that moves to a load balancer of the same plan", () => {
  const nodes = labeled("x");
  const { intents, observed } = beforeCreation("lb-x", nodes);

  test("stays in its pools until that is there", () => {
    expect(writtenIn(intents, observed)).toEqual({ "lb-x": [] });
    const created = applied(observed, plan(intents, observed, config));
    const moved = { kubernetes: ["node-1", "node-2"], "lb-x": ["node-0"] };
    expect(writtenIn(intents, created)).toEqual(moved);
    expect(membersIn(settled(intents, observed).loadBalancers)).toEqual(moved);
  });

  test("joins at once if it is in no pool", () => {
    const others = services(nodes.slice(1), "kubernetes");
    const start = settled(others, world({ nodes: nodes.slice(1) }));
    const { publicIPs } = settled([...others, on("lb-x", nodes)], { ...start, nodes });
    expect(writtenIn([on("lb-x", nodes)], { ...start, nodes, publicIPs })).toEqual({ "lb-x": ["node-0"] });
  });

  test("joins at once if another writer fills the pools, which then are not filled any more", () => {
    const filled = configOf({ preConfiguredBackendPoolLoadBalancerTypes: "external" });
    expect(writtenIn(intents, observed, filled)).toEqual({ "lb-x": ["node-0"] });
  });

  test("joins at once if its former load balancer has no Service any more", () => {
    const internal = { "azure-load-balancer-internal": "true" };
    const service = (balancer: string) =>
      on("kubernetes", nodes, { ...internal, "azure-load-balancer-configurations": balancer });
    const start = settled([service("kubernetes")], world({ nodes }));
    expect(writtenIn([service("lb-x")], start)).toEqual({ "lb-x-internal": ["node-0"] });
  });
});

describe("a node whose new load balancer is there", () => {
  const nodes = labeled("x");
  const intents = services(nodes, "kubernetes", "lb-x");
  const before = beforeCreation("lb-x", nodes);
  const created = applied(before.observed, plan(before.intents, before.observed, config));

  test.each(["Failed", "Updating", "Deleting"])("stays in its pools while that is %s", (state) => {
    expect(writtenIn(intents, withState(created, "lb-x", state))).not.toHaveProperty("kubernetes");
  });

  test("leaves neither pool while it is in both and the new load balancer is Failed", () => {
    const { loadBalancers } = settled(intents, created);
    const former = created.loadBalancers.filter(({ name }) => name === "kubernetes");
    const present = loadBalancers.filter(({ name }) => name === "lb-x");
    const both = withState({ ...created, loadBalancers: [...former, ...present] }, "lb-x", "Failed");
    expect(writtenIn(intents, both)).toEqual({ "lb-x": ["node-0"] });
  });
});

describe("a node that moves from a load balancer beside one that no node is assigned to", () => {
  const all = ["kubernetes", "lb-x", "lb-y"];
  const before = labeled("x", "x", "x");
  const nodes = labeled("x", "x", "y");
  const start = { ...settled(services(before, "kubernetes", "lb-x"), world({ nodes: before })), nodes };
  const intents = services(nodes, ...all);
  const { stages, ...rest } = plan(intents, start, config);
  const observed = applied(start, { stages: stages.filter(({ name }) => name === "public-ips"), ...rest });

  test("stays until the new one is there, and the other one keeps all nodes", () => {
    expect(membersIn(start.loadBalancers)).toEqual({
      kubernetes: ["node-0", "node-1", "node-2"],
      "lb-x": ["node-0", "node-1", "node-2"],
    });
    expect(writtenIn(intents, observed)).toEqual({ "lb-y": [] });
    expect(membersIn(settled(intents, observed).loadBalancers)).toEqual({
      kubernetes: ["node-0", "node-1", "node-2"],
      "lb-x": ["node-0", "node-1"],
      "lb-y": ["node-2"],
    });
  });

  test("stays also if its former one is Failed", () => {
    expect(writtenIn(intents, withState(observed, "lb-x", "Failed"))).toEqual({
      "lb-x": ["node-0", "node-1", "node-2"],
      "lb-y": [],
    });
  });
});

test("a node that a selector takes goes to no load balancer whose selector is empty", () => {
  const loadBalancers = [
    { name: "kubernetes", primaryVMSet: "vmss0", nodeSelector: {} },
    { name: "lb-x", primaryVMSet: "vmss-x", nodeSelector: { matchLabels: { pool: "x" } } },
  ];
  const by = configOf({ multipleStandardLoadBalancerConfigurations: loadBalancers });
  const nodes = labeled("x", "", "x");
  const { loadBalancers: found } = settled(services(nodes, "kubernetes", "lb-x"), world({ nodes }), by);
  expect(membersIn(found)).toEqual({ kubernetes: ["node-1"], "lb-x": ["node-0", "node-2"] });
});

test("a user's pool on one of several load balancers is not filled", () => {
  const nodes = labeled();
  const before = settled(services(nodes, "kubernetes"), world({ nodes }));
  const theirs = { name: "users-pool", loadBalancerBackendAddresses: [{ name: "vm", ipAddress: "10.9.9.9" }] };
  const loadBalancers = before.loadBalancers.map((one) => ({
    ...one,
    backendAddressPools: [...(one.backendAddressPools ?? []), theirs],
  }));
  const more = [...nodes, ...nodesNamed("", "", "", "node-3").slice(3)];
  const intents = services(more, "kubernetes");
  const { loadBalancers: after } = settled(intents, { ...before, loadBalancers, nodes: more });
  expect(membersIn(after)).toEqual({ kubernetes: more.map(({ metadata }) => metadata?.name ?? "") });
  expect(after.flatMap((one) => one.backendAddressPools ?? [])).toContainEqual(expect.objectContaining(theirs));
});
