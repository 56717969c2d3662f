import { describe, expect, test } from "bun:test";

import type { Observed, PoolMember } from "../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import type { PlannerConfig } from "../../../../../plugins/azure-cloud/load-balancer/model/planner-config.ts";
import { plan } from "../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { applied } from "../applied.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../fixtures.ts";
import { converge, nodesNamed, publicIP, world } from "../world.ts";

const nodes = nodesNamed("node-0");
const all: readonly ServiceShape[] = ["a", "b", "c"].map((name) => ({ name }));
const namesOf = (list: readonly { readonly name?: string }[] = []): readonly string[] =>
  list.map(({ name = "" }) => name);

/** The writes that remove these Services, and what they leave, with whether a further plan leaves that alone. */
function removed(
  shapes: readonly ServiceShape[],
  config: PlannerConfig,
  { observed = world({ nodes }), change = (one: Observed): Observed => one } = {},
) {
  const created = shapes.map((shape) => intentOf({ ...shape, nodes }));
  const before = change(converge(created, observed, config).observed);
  const intents = shapes.map((shape) => intentOf({ ...shape, action: "delete" }));
  const first = plan(intents, before, config);
  const after = converge(intents, applied(before, first), config).observed;
  const [balancer] = after.loadBalancers;
  return {
    kinds: first.stages.flatMap(({ writes }) => writes.map(({ kind }) => kind)),
    left: [balancer?.frontendIPConfigurations, balancer?.loadBalancingRules, balancer?.probes].map(namesOf),
    pools: namesOf(balancer?.backendAddressPools),
    publicIPs: namesOf(after.publicIPs).filter((name) => name.startsWith("kubernetes")),
  };
}

const keepsEmpty = plannerConfigOf({ keepEmptyLoadBalancer: true });
const preconfigured = plannerConfigOf({ preConfiguredBackendPoolLoadBalancerTypes: "all" });

describe("a load balancer whose last Services are deleted", () => {
  test("is deleted with everything in it", () => {
    const { kinds, left, publicIPs } = removed(all, plannerConfigOf());
    expect(kinds).toContain("delete-load-balancer");
    expect([left, publicIPs]).toEqual([[[], [], []], []]);
  });

  test("keeps its pools and one frontend without rules where the config keeps empty load balancers", () => {
    const { kinds, left, pools, publicIPs } = removed(all, keepsEmpty);
    expect(kinds).toEqual(["put-load-balancer", "put-security-group", "delete-public-ip", "delete-public-ip"]);
    expect([left, pools, publicIPs]).toEqual([[["ac"], [], []], ["kubernetes"], ["kubernetes-ac"]]);
  });

  test("keeps the frontend of its last Service, and the rules of that one, where its pools are preconfigured", () => {
    const { kinds, left, publicIPs } = removed(all, preconfigured);
    expect(kinds).not.toContain("delete-load-balancer");
    expect([left, publicIPs]).toEqual([[["ac"], ["ac-TCP-80"], ["ac-TCP-80"]], ["kubernetes-ac"]]);
  });

  test("keeps of a shared frontend the rules of the last Service alone where its pools are preconfigured", () => {
    const shared = world({ nodes, publicIPs: [publicIP("mine", "20.9.9.9")] });
    const annotations = { "azure-pip-name": "mine" };
    const spec = (port: number) => ({ ports: [{ name: "p", protocol: "TCP", port, nodePort: 30_000 + port }] });
    const sharing = [
      { name: "a", annotations, spec: spec(80) },
      { name: "b", annotations, spec: spec(81) },
    ];
    expect(removed(sharing, preconfigured, { observed: shared }).left).toEqual([["aa"], ["ab-TCP-81"], ["ab-TCP-81"]]);
    expect(removed(sharing, keepsEmpty, { observed: shared }).left).toEqual([["aa"], [], []]);
  });

  test("is left by its last frontend if it has no pools, also where the config keeps empty load balancers", () => {
    const change = (one: Observed): Observed => ({
      ...one,
      loadBalancers: one.loadBalancers.map(({ backendAddressPools: _pools, ...rest }) => rest),
    });
    const { kinds, left } = removed([{ name: "a" }], keepsEmpty, { change });
    expect([kinds.includes("put-load-balancer"), left]).toEqual([true, [[], [], []]]);
  });

  describe("is released by", () => {
    const nodeIP = plannerConfigOf({ loadBalancerBackendPoolConfigurationType: "nodeIP" });
    const spec = { ipFamilies: ["IPv4", "IPv6"] };
    const isReleased = (config: PlannerConfig, change?: (one: Observed) => Observed): boolean =>
      removed([{ name: "a", spec }], config, change && { change }).kinds.includes("release-pools");
    const withMembers = (members: readonly PoolMember[]) => (one: Observed) => ({
      ...one,
      poolMembers: new Map(
        one.loadBalancers
          .flatMap(({ backendAddressPools = [] }) => backendAddressPools)
          .map(({ id = "" }, index) => [id.toLowerCase(), index === 0 ? members : []] as const),
      ),
    });

    test("its interfaces before it is deleted", () => {
      expect(isReleased(plannerConfigOf())).toBe(true);
    });

    test("interfaces only if it has any, where its pools have addresses", () => {
      expect(isReleased(nodeIP)).toBe(false);
      expect(isReleased(nodeIP, withMembers([]))).toBe(false);
      expect(
        isReleased(
          nodeIP,
          withMembers([{ ipConfigurationId: "/nic/ip", node: "node-0", gone: false, complete: true }]),
        ),
      ).toBe(true);
    });

    test("no write if it has no pools", () => {
      const withoutPools = (one: Observed): Observed => ({
        ...one,
        loadBalancers: one.loadBalancers.map((balancer) => ({ ...balancer, backendAddressPools: [] })),
      });
      expect(isReleased(plannerConfigOf(), withoutPools)).toBe(false);
    });
  });
});

test("a write of the security group is for the Services whose rules it changes", () => {
  const config = plannerConfigOf();
  const ranged = (name: string, range: string) =>
    intentOf({ name, nodes, spec: { loadBalancerSourceRanges: [range] } });
  const before = converge([ranged("a", "10.0.0.0/8"), ranged("b", "10.1.0.0/16")], world({ nodes }), config).observed;
  const { stages } = plan([ranged("a", "10.0.0.0/8"), ranged("b", "10.2.0.0/16")], before, config);
  expect(stages.flatMap(({ writes }) => writes.map(({ kind, services }) => [kind, services]))).toEqual([
    ["put-security-group", ["default/b"]],
  ]);
});

describe("a load balancer without frontends", () => {
  const config = plannerConfigOf();
  const inside = intentOf({ nodes, annotations: { "azure-load-balancer-internal": "true" } });

  test("is left alone by a plan for Services that have nothing to do with it", () => {
    const empty = { id: "/lb/kubernetes", name: "kubernetes", backendAddressPools: [{ name: "kubernetes" }] };
    const { stages } = plan([inside], world({ nodes, loadBalancers: [empty] }), config);
    const ids = stages.flatMap(({ writes }) => writes.map(({ id }) => id));
    expect([ids.length > 0, ids.includes("/lb/kubernetes")]).toEqual([true, false]);
  });

  test("is emptied by a write with its etag where it is another shard's, which may be adding a Service to it", () => {
    const before = converge([intentOf({ nodes })], world({ nodes }), config).observed;
    const shard = { ...config, shardSuffix: "-a", loadBalancerName: "kubernetes-a" };
    const { stages } = plan([intentOf({ action: "delete" })], before, shard);
    const writes = stages.flatMap((stage) => stage.writes).filter(({ id }) => id.endsWith("loadBalancers/kubernetes"));
    expect(writes.map(({ kind }) => kind)).toEqual(["release-pools", "put-load-balancer"]);
    const [, put] = writes;
    const body = put?.kind === "put-load-balancer" ? put.body : {};
    expect([body.frontendIPConfigurations, body.backendAddressPools]).toEqual([[], undefined]);
  });
});

test("a load balancer is written with the ids and names of subnets alone, whatever ARM shows of them", () => {
  const config = plannerConfigOf();
  const at = (minutes: string) => {
    const annotations = {
      "azure-load-balancer-internal": "true",
      "azure-load-balancer-tcp-idle-timeout": minutes,
    };
    return intentOf({ nodes, annotations });
  };
  const { loadBalancers, ...rest } = converge([at("4")], world({ nodes }), config).observed;
  const shown = loadBalancers.map((one) => ({
    ...one,
    frontendIPConfigurations: (one.frontendIPConfigurations ?? []).map((frontend) => ({
      ...frontend,
      subnet: { ...frontend.subnet, addressPrefix: "10.240.0.0/16", etag: "W/1" },
    })),
  }));
  const [write] = plan([at("10")], { ...rest, loadBalancers: shown }, config).stages.flatMap(({ writes }) => writes);
  const body = write?.kind === "put-load-balancer" ? write.body : {};
  expect(body.frontendIPConfigurations?.map(({ subnet }) => Object.keys(subnet ?? {}))).toEqual([["id", "name"]]);
});
