import { describe, expect, test } from "bun:test";

import type { LoadBalancer } from "@azure/arm-network";

import { plan } from "../../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { intentOf, plannerConfigOf } from "../../fixtures.ts";
import { converge, nodesNamed, publicIP, usersBalancer, world } from "../../world.ts";

const nodes = nodesNamed("node-0", "node-1", "node-2");
const vmSets = new Map([
  ["node-0", "vmss0"],
  ["node-1", "vmss0"],
  ["node-2", "other"],
]);
const basic = plannerConfigOf({ loadBalancerSku: "basic" });
const start = world({ nodes, vmSets });

const balancersAfter = (annotations: Readonly<Record<string, string>>, from = start) =>
  converge([intentOf({ nodes, annotations })], from, basic).observed;

describe("basic load balancers", () => {
  test("the primary set has the cluster's load balancer, of SKU Basic, without zones and TCP reset", () => {
    const { loadBalancers, publicIPs, poolMembers } = balancersAfter({});
    expect(loadBalancers.map(({ name, sku }) => [name, sku])).toEqual([["kubernetes", { name: "Basic" }]]);
    expect(loadBalancers[0]?.loadBalancingRules?.[0]).not.toHaveProperty("enableTcpReset");
    expect(publicIPs.find(({ name }) => name === "kubernetes-aweb")).not.toHaveProperty("zones");
    expect([...poolMembers.values()].flat().map(({ node }) => node)).toEqual(["node-0", "node-1"]);
  });

  test("a set named by the mode annotation has a load balancer of its own name, with its own nodes", () => {
    const { loadBalancers, poolMembers } = balancersAfter({ "azure-load-balancer-mode": "other" });
    expect(loadBalancers.map(({ name }) => name)).toEqual(["other"]);
    expect([...poolMembers.values()].flat().map(({ node }) => node)).toEqual(["node-2"]);
  });

  test("the primary set has the load balancer that the config names", () => {
    const named = plannerConfigOf({ loadBalancerSku: "basic", loadBalancerName: "edge" });
    const { observed, last } = converge([intentOf({ nodes })], start, named);
    expect(observed.loadBalancers.map(({ name }) => name)).toEqual(["edge"]);
    expect([...observed.poolMembers.values()].flat().map(({ node }) => node)).toEqual(["node-0", "node-1"]);
    expect(last.stages).toEqual([]);
  });

  test("mode `__auto__` takes the load balancer with the fewest rules", () => {
    const first = converge([intentOf({ nodes, name: "first" })], start, basic).observed;
    const auto = { "azure-load-balancer-mode": "__AUTO__" };
    expect(balancersAfter(auto, first).loadBalancers.map(({ name }) => name)).toEqual(["kubernetes", "other"]);
  });

  test("mode `__auto__` spreads Services that are planned together", () => {
    const annotations = { "azure-load-balancer-mode": "__auto__" };
    const intents = ["a", "b"].map((name) => intentOf({ nodes, name, annotations }));
    const { loadBalancers } = converge(intents, start, basic).observed;
    expect(loadBalancers.map(({ name }) => name)).toEqual(["kubernetes", "other"]);
  });

  test("a Service that becomes internal has an internal load balancer alone", () => {
    const before = balancersAfter({});
    const { loadBalancers } = balancersAfter({ "azure-load-balancer-internal": "true" }, before);
    expect(loadBalancers.map(({ name }) => name)).toEqual(["kubernetes-internal"]);
  });

  test("an unknown set is refused", () => {
    const intent = intentOf({ nodes, annotations: { "azure-load-balancer-mode": "nowhere" } });
    const { stages, results } = plan([intent], start, basic);
    expect(stages).toEqual([]);
    expect(results.get("default/web")?.problem?.code).toBe("VMSetNotFound");
    const first = converge([intentOf({ nodes })], start, basic).observed;
    expect(plan([intent], first, basic).stages).toEqual([]);
  });

  test("a load balancer with maximumLoadBalancerRuleCount rules takes no more Services", () => {
    const config = plannerConfigOf({ loadBalancerSku: "basic", maximumLoadBalancerRuleCount: 1 });
    const first = converge([intentOf({ nodes, name: "first" })], start, config).observed;
    expect(plan([intentOf({ nodes })], first, config).results.get("default/web")?.problem?.code).toBe(
      "LoadBalancersFull",
    );
  });
});

describe("cleaning up a basic load balancer", () => {
  const left = converge([intentOf({ nodes })], start, basic).observed;
  const asBasic = {
    ...left,
    loadBalancers: left.loadBalancers.map((one) => ({ ...one, sku: { name: "Basic" } })),
    publicIPs: left.publicIPs.map((one) => (one.name === "kubernetes-aweb" ? { ...one, sku: { name: "Basic" } } : one)),
  };

  test("standard config: basic removed", () => {
    const { observed, rounds } = converge([intentOf({ nodes })], asBasic, plannerConfigOf());
    expect(observed.loadBalancers.map(({ sku }) => sku?.name)).toEqual(["Standard"]);
    expect(observed.publicIPs.find(({ name }) => name === "kubernetes-aweb")).toMatchObject({
      sku: { name: "Standard" },
      ipAddress: asBasic.publicIPs.find(({ name }) => name === "kubernetes-aweb")?.ipAddress ?? "",
    });
    expect(rounds).toBeLessThanOrEqual(3);
  });

  test.each<[string, object, Readonly<Record<string, string>>, (one: LoadBalancer) => LoadBalancer]>([
    ["without pools", {}, {}, ({ backendAddressPools: _pools, ...rest }) => rest],
    ["with a probe that its Services share", { clusterServiceLoadBalancerHealthProbeMode: "shared" }, {}, (one) => one],
    ["of an internal Service", {}, { "azure-load-balancer-internal": "true" }, (one) => one],
  ])("standard config: basic removed %s", (_what, keys, annotations, change) => {
    const intents = [intentOf({ nodes, annotations })];
    const former = converge(intents, start, plannerConfigOf({ loadBalancerSku: "basic", ...keys })).observed;
    const loadBalancers = former.loadBalancers.map((one) => ({ ...change(one), sku: { name: "Basic" } }));
    const { observed } = converge(intents, { ...former, loadBalancers }, plannerConfigOf({ ...keys }));
    expect(observed.loadBalancers.map(({ sku }) => sku?.name)).toEqual(["Standard"]);
  });

  test("a basic config is skipped", () => {
    expect(converge([intentOf({ nodes })], asBasic, basic).observed.loadBalancers[0]?.sku?.name).toBe("Basic");
  });

  test("keeps a basic load balancer with a resource of a user", () => {
    const mixed = { ...usersBalancer("kubernetes"), sku: { name: "Basic" } };
    const { stages } = plan(
      [intentOf({ nodes, action: "delete" })],
      { ...start, loadBalancers: [mixed] },
      plannerConfigOf(),
    );
    expect(stages.flatMap(({ writes }) => writes.map(({ kind }) => kind))).not.toContain("delete-load-balancer");
  });

  test.each([
    ["that has nothing", {}],
    ["of another cluster", left.loadBalancers[0] ?? {}],
  ])("leaves a basic load balancer of another name alone %s", (_what, parts) => {
    const others = { ...parts, name: "other", id: `${left.loadBalancers[0]?.id}`.replace(/kubernetes$/u, "other") };
    const from = { ...start, loadBalancers: [{ ...others, sku: { name: "Basic" } }] };
    const other = intentOf({ nodes, name: "inside", annotations: { "azure-load-balancer-internal": "true" } });
    const written = plan([other], from, plannerConfigOf()).stages.flatMap(({ writes }) => writes);
    expect(written.map(({ name }) => name)).toEqual(["kubernetes-internal", "kubernetes"]);
  });

  test("standard kept", () => {
    const standard = converge([intentOf({ nodes })], start, plannerConfigOf()).observed;
    expect(
      plan(
        [intentOf({ nodes })],
        { ...standard, publicIPs: [...standard.publicIPs, publicIP("x", "20.1.1.1")] },
        plannerConfigOf(),
      ).stages,
    ).toEqual([]);
  });
});
