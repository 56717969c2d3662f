import { describe, expect, test } from "bun:test";

import type { LoadBalancingRule } from "@azure/arm-network";

import { childId, loadBalancerId } from "../../../../../plugins/azure-cloud/load-balancer/model/ids.ts";
import type { Observed, ServiceIntent } from "../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { plan } from "../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../fixtures.ts";
import { converge, nodesNamed, world } from "../world.ts";
import { portsOf, tagsOf } from "./largest-service.ts";

const interfaces = plannerConfigOf();
const addresses = plannerConfigOf({ loadBalancerBackendPoolConfigurationType: "nodeIP" });
const nodes = nodesNamed("node-0");
const internal = { "azure-load-balancer-internal": "true" };

const serviceOf = (name: string, shape: ServiceShape = {}): ServiceIntent => intentOf({ name, nodes, ...shape });
const withPorts = (count: number): ServiceShape => ({ spec: { ports: portsOf(count) } });

/** Adds rules of users to the one load balancer. */
const withRules = (observed: Observed, count: number, pool?: string): Observed => ({
  ...observed,
  loadBalancers: observed.loadBalancers.map((one) => {
    const rules: readonly LoadBalancingRule[] = Array.from({ length: count }, (_, index) => ({
      name: `users-${index}`,
      protocol: "Tcp",
      frontendPort: index + 1,
      ...(pool !== undefined && { backendAddressPool: { id: `${one.id}/backendAddressPools/${pool}` } }),
    }));
    return { ...one, loadBalancingRules: [...(one.loadBalancingRules ?? []), ...rules] };
  }),
});

const planned = (intents: readonly ServiceIntent[], observed: Observed, config = interfaces) => {
  const { results, stages } = plan(intents, { ...observed, services: intents.map(({ service }) => service) }, config);
  return {
    stages,
    problem: (name: string) => results.get(`default/${name}`)?.problem,
    warnings: (name: string) =>
      results
        .get(`default/${name}`)
        ?.events.filter(({ reason }) => reason === "LimitNearlyReached")
        .map(({ message }) => message),
  };
};

const first = serviceOf("first");
const started = (config = interfaces): Observed => converge([first], world({ nodes }), config).observed;

describe("the newest Service for which Azure has no room is refused, and the last one with room is not", () => {
  test("the newest Service for which Azure has no room is refused, and the last one with room is not: rules of a load balancer", () => {
    const from = (count: number) => withRules(started(addresses), count);
    const last = planned([first, serviceOf("late", withPorts(10))], from(1489), addresses);
    expect(last.problem("late")).toBeUndefined();
    const refused = planned([first, serviceOf("late", withPorts(10))], from(1490), addresses);
    expect(refused.problem("late")).toEqual({
      code: "LimitReached",
      messages: [
        expect.stringMatching(
          /^load balancer kubernetes can have 1500 rules and would have 1501; use fewer ports, or configure multiple/u,
        ),
      ],
    });
    expect(refused.problem("first")).toBeUndefined();
    expect(refused.stages).toEqual([]);
  });

  test("the newest Service for which Azure has no room is refused, and the last one with room is not: inbound NAT rules count as rules of a load balancer", () => {
    const from = withRules(started(addresses), 1489);
    const inboundNatRules = Array.from({ length: 9 }, (_, index) => ({ name: `nat-${index}` }));
    const observed = { ...from, loadBalancers: from.loadBalancers.map((one) => ({ ...one, inboundNatRules })) };
    expect(planned([first, serviceOf("late")], observed, addresses).problem("late")).toBeUndefined();
    const two = serviceOf("late", withPorts(2));
    expect(planned([first, two], observed, addresses).problem("late")?.code).toBe("LimitReached");
  });

  test("the newest Service for which Azure has no room is refused, and the last one with room is not: rules of the network interfaces of nodes, both load balancers together", () => {
    const inside = serviceOf("inside", { annotations: internal, ...withPorts(9) });
    const both = converge([first, inside], world({ nodes }), interfaces).observed;
    const balancers = (name: string) => both.loadBalancers.filter((one) => one.name === name);
    const external = { ...both, loadBalancers: balancers("kubernetes") };
    const from = (count: number): Observed => ({
      ...both,
      loadBalancers: [...withRules(external, count, "kubernetes").loadBalancers, ...balancers("kubernetes-internal")],
    });
    const late = serviceOf("late", withPorts(10));
    expect(planned([first, inside, late], from(280)).problem("late")).toBeUndefined();
    expect(planned([first, inside, late], from(281)).problem("late")?.messages).toEqual([
      expect.stringContaining(
        "the IPv4 configuration of each node's network interface behind load balancer kubernetes can have 300 rules and would have 301",
      ),
    ]);
    expect(planned([first, inside, late], from(281), addresses).problem("late")?.code).not.toBe("LimitReached");
  });

  test("the newest Service for which Azure has no room is refused, and the last one with room is not: rules of the network interfaces of nodes, for each family by itself", () => {
    const dual = (count: number) =>
      serviceOf("dual", { spec: { ipFamilies: ["IPv4", "IPv6"], ports: portsOf(count) } });
    expect(planned([dual(300)], world({ nodes })).problem("dual")).toBeUndefined();
    expect(planned([dual(301)], world({ nodes })).problem("dual")?.messages).toEqual([
      expect.stringContaining("IPv4 configuration"),
      expect.stringContaining("IPv6 configuration"),
    ]);
  });

  test("the newest Service for which Azure has no room is refused, and the last one with room is not: rules of users' own pools are not on the nodes' interfaces", () => {
    const from = withRules(started(), 400, "users");
    expect(planned([first, serviceOf("late")], from).problem("late")).toBeUndefined();
  });

  test("the newest Service for which Azure has no room is refused, and the last one with room is not: frontends of a load balancer", () => {
    const from = (count: number): Observed => {
      const observed = started(addresses);
      const more = Array.from({ length: count }, (_, index) => ({ id: `f${index}`, name: `users-${index}` }));
      return {
        ...observed,
        loadBalancers: observed.loadBalancers.map((one) => ({
          ...one,
          frontendIPConfigurations: [...(one.frontendIPConfigurations ?? []), ...more],
        })),
      };
    };
    expect(planned([first, serviceOf("late")], from(598), addresses).problem("late")).toBeUndefined();
    expect(planned([first, serviceOf("late")], from(599), addresses).problem("late")?.messages).toEqual([
      expect.stringContaining("load balancer kubernetes can have 600 frontends and would have 601; share addresses"),
    ]);
  });

  test("the newest Service for which Azure has no room is refused, and the last one with room is not: private link services of a load balancer", () => {
    const intents = Array.from({ length: 9 }, (_, index) =>
      serviceOf(`s${index}`, {
        annotations: { ...internal, "azure-pls-create": "true" },
        spec: { ports: [{ name: "http", protocol: "TCP", port: 80 + index, nodePort: 30_080 + index }] },
      }),
    );
    const eight = converge(intents.slice(0, 8), world({ nodes }), interfaces).observed;
    expect(eight.privateLinkServices).toHaveLength(8);
    const settled = converge(intents.slice(0, 8), eight, interfaces);
    expect(settled.rounds).toBe(0);
    const { problem, stages } = planned(intents, eight);
    expect(problem("s8")?.messages).toEqual([
      expect.stringContaining("load balancer kubernetes-internal can have 8 private link services and would have 9"),
    ]);
    expect(intents.slice(0, 8).map((_, index) => problem(`s${index}`))).toEqual(Array(8).fill(undefined));
    expect(stages).toEqual([]);
    // Its place is free for another in the same plan.
    const [gone, ...others] = intents;
    if (gone === undefined) throw new Error("missing: first Service");
    expect(planned([{ ...gone, action: "delete" }, ...others], eight).problem("s8")).toBeUndefined();
  });

  test("the newest Service for which Azure has no room is refused, and the last one with room is not: of two Services that come at once, the newer one", () => {
    const from = withRules(started(addresses), 1490);
    const late = serviceOf("b-late", withPorts(6));
    const { problem } = planned([first, serviceOf("a-late", withPorts(6)), late], from, addresses);
    expect([problem("a-late"), problem("b-late")?.code]).toEqual([undefined, "LimitReached"]);
  });

  test("the newest Service for which Azure has no room is refused, and the last one with room is not: tags of a public IP", () => {
    const pairs = (count: number) => Array.from({ length: count }, (_, index) => `k${index}=v`).join();
    const tagged = (value: string, config = interfaces) =>
      planned([serviceOf("web", { annotations: { "azure-pip-tags": value } })], world({ nodes }), config).problem("web")
        ?.messages;
    expect(tagged(pairs(48))).toBeUndefined();
    expect(tagged(pairs(49))).toEqual([expect.stringContaining("the public IP would have 51 tags, 50 at most")]);
    expect(tagged(pairs(48), plannerConfigOf({ tags: "team=network" }))).toEqual([expect.stringContaining("51 tags")]);
    expect(tagged(pairs(48), plannerConfigOf({ tags: "k0=network" }))).toBeUndefined();
    const many = (count: number) => plannerConfigOf({ tags: pairs(count) });
    expect(tagged("", many(48))).toBeUndefined();
    expect(tagged("", many(49))).toEqual([
      "cloud config: tags: the public IP would have 51 tags, 50 at most; use fewer",
    ]);
    const withMany = (annotations: Readonly<Record<string, string>>, count: number) =>
      planned([serviceOf("web", { annotations })], world({ nodes }), many(count)).problem("web")?.messages;
    expect(withMany({ "azure-pip-name": "users" }, 50)).not.toContainEqual(expect.stringContaining("tags"));
    expect(withMany({ "azure-pip-name": "users" }, 51)).toEqual([
      expect.stringContaining("the load balancer would have 51"),
    ]);
    expect(withMany({ "azure-pip-name": "users", "azure-pip-tags": "a=b" }, 51)).toEqual([
      "cloud config: tags: the load balancer would have 51 tags, 50 at most; use fewer",
    ]);
    const label = { "azure-dns-label-name": "web" };
    expect(withMany(label, 47)).toBeUndefined();
    expect(withMany(label, 48)).toEqual([expect.stringContaining("the public IP would have 51 tags")]);
    const inside = (count: number) =>
      planned([serviceOf("web", { annotations: internal })], world({ nodes }), plannerConfigOf({ tags: pairs(count) }));
    expect(inside(50).problem("web")).toBeUndefined();
    expect(inside(51).problem("web")?.messages).toEqual([expect.stringContaining("the load balancer would have 51")]);
    expect(tagged("", plannerConfigOf({ tags: `a=${"v".repeat(257)}` }))).toEqual([
      expect.stringMatching(/^cloud config: tags: "a": a key has 512 characters and a value 256 at most$/u),
    ]);
    expect(tagged("b=c", plannerConfigOf({ tags: `a=${"v".repeat(257)}` }))).toEqual([
      expect.stringMatching(/^cloud config: tags: "a"/u),
    ]);
    expect(tagged(`a=${"v".repeat(256)}`)).toBeUndefined();
    expect(tagged(`a=${"v".repeat(257)}`)).toEqual([expect.stringContaining("a value 256 at most")]);
    expect(tagged(`${"k".repeat(513)}=v`)).toEqual([expect.stringContaining("a key has 512 characters")]);
  });
});

test("a Service is refused for names that Azure would refuse as too long, with what to shorten", () => {
  const named = (clusterName: string) => plannerConfigOf({}, clusterName);
  const problem = (clusterName: string, shape: ServiceShape = {}) =>
    planned([serviceOf("web", shape)], world({ nodes }), named(clusterName)).problem("web");
  expect(problem("c".repeat(80))).toBeUndefined();
  expect(problem("c".repeat(81))).toEqual({
    code: "LimitReached",
    messages: [
      expect.stringMatching(
        /^the name of load balancer c+ would have 81 characters, 80 at most; shorten --cluster-name$/u,
      ),
      expect.stringMatching(
        /^the name of backend pool c+ would have 81 characters, 80 at most; shorten --cluster-name$/u,
      ),
    ],
  });
  expect(problem("c".repeat(71), { annotations: internal })).toBeUndefined();
  expect(problem("c".repeat(72), { annotations: internal })?.messages).toEqual([
    expect.stringContaining("-internal would have 81 characters"),
  ]);
  const dual = { spec: { ipFamilies: ["IPv4", "IPv6"] } };
  expect(problem("c".repeat(75), dual)).toBeUndefined();
  expect(problem("c".repeat(76), dual)?.messages).toEqual([expect.stringContaining("-IPv6 would have 81 characters")]);
  const configured = plannerConfigOf({ loadBalancerName: "l".repeat(81) });
  expect(planned([serviceOf("web")], world({ nodes }), configured).problem("web")?.messages).toEqual([
    expect.stringContaining("; shorten its name in the cloud config"),
  ]);
});

test("a Service is not refused for long names that Azure has accepted", () => {
  const name = "c".repeat(81);
  const config = plannerConfigOf({}, name);
  const id = loadBalancerId(config, name);
  const pool = { id: childId(id, "backendAddressPools", name), name };
  const loadBalancers = [{ id, name, location: config.location, backendAddressPools: [pool] }];
  expect(planned([first], world({ nodes, loadBalancers }), config).problem("first")).toBeUndefined();
});

describe("a limit that was exceeded before", () => {
  test("stays without consequence for Services that add nothing", () => {
    const from = withRules(started(), 2000, "kubernetes");
    const { problem, warnings } = planned([first], from);
    expect([problem("first"), warnings("first")]).toEqual([undefined, []]);
    const tagged = plannerConfigOf({ loadBalancerBackendPoolConfigurationType: "nodeIP", tags: "env=test" });
    const { stages, ...written } = planned([first], withRules(started(addresses), 2000), tagged);
    expect(stages.flatMap(({ writes }) => writes).map(({ kind }) => kind)).toContain("put-load-balancer");
    expect([written.problem("first"), written.warnings("first")]).toEqual([undefined, []]);
  });

  test.each([
    ["a load balancer", addresses, 1498],
    ["the network interfaces of nodes", interfaces, 298],
  ])(
    "a Service that has its rules already is not refused for those that an older one adds to %s",
    (_what, config, ofUsers) => {
      const { observed } = converge([first, serviceOf("late")], world({ nodes }), config);
      const full = withRules(observed, ofUsers, "kubernetes");
      const { problem } = planned([serviceOf("first", withPorts(2)), serviceOf("late")], full, config);
      expect([problem("first")?.code, problem("late")]).toEqual(["LimitReached", undefined]);
    },
  );

  test("does not keep a Service from being deleted", () => {
    const from = withRules(started(), 2000, "kubernetes");
    expect(planned([intentOf({ name: "first", nodes, action: "delete" })], from).problem("first")).toBeUndefined();
  });
});

describe("a Service that uses the last fifth of a limit gets a warning event that names it", () => {
  test("a Service that uses the last fifth of a limit gets a warning event that names it, for rules of network interfaces", () => {
    const from = (count: number) => withRules(started(), count, "kubernetes");
    expect(planned([first, serviceOf("late")], from(237)).warnings("late")).toEqual([]);
    const { warnings } = planned([first, serviceOf("late")], from(238));
    expect(warnings("late")).toEqual([
      expect.stringContaining(
        "the IPv4 configuration of each node's network interface behind load balancer kubernetes has 240 of 300 rules",
      ),
    ]);
    expect(warnings("first")).toEqual([]);
  });

  test("a Service that uses the last fifth of a limit gets a warning event that names it, for rules of the security group", () => {
    const tagged = serviceOf("first", { annotations: { "azure-allowed-service-tags": tagsOf(2) } });
    const from = (count: number): Observed => {
      const observed = started();
      const own = observed.securityGroup?.securityRules ?? [];
      const users = Array.from({ length: count - own.length }, (_, index) => ({ name: `u${index}`, priority: 100 }));
      return { ...observed, securityGroup: { ...observed.securityGroup, securityRules: [...own, ...users] } };
    };
    // Two rules take the place of its own one.
    expect(planned([tagged], from(798)).warnings("first")).toEqual([]);
    expect(planned([tagged], from(799)).warnings("first")).toEqual([
      expect.stringContaining("the security group has 800 of 1000 rules; give Services the same ports"),
    ]);
    expect(planned([first], from(900)).warnings("first")).toEqual([]);
  });

  test("a Service that uses the last fifth of a limit gets a warning event that names it, for prefixes of the security group", () => {
    const late = serviceOf("late", { spec: { ports: portsOf(2).slice(1), loadBalancerSourceRanges: ["20.0.0.0/24"] } });
    const from = (side: "source" | "destination", count: number): Observed => {
      const observed = converge([first, late], world({ nodes }), interfaces).observed;
      const own = converge([first], world({ nodes }), interfaces).observed.securityGroup?.securityRules ?? [];
      const prefixes = Array.from({ length: count }, (_, index) => `10.${index >> 8}.${index & 255}.0/24`);
      const users = { name: "u", priority: 100, [`${side}AddressPrefixes`]: prefixes };
      return { ...observed, securityGroup: { ...observed.securityGroup, securityRules: [...own, users] } };
    };
    // Two rules of the first Service's world, and one of the late one.
    for (const side of ["source", "destination"] as const) {
      expect(planned([first, late], from(side, 3196)).warnings("late")).toEqual([]);
      const { warnings } = planned([first, late], from(side, 3197));
      expect(warnings("late")).toEqual([
        expect.stringContaining(`the security group has 3200 of 4000 ${side} prefixes; give Services the same ports`),
      ]);
      expect(warnings("first")).toEqual([]);
      // Another port is another rule with as many prefixes.
      const { service } = late;
      const moved = { ...late, service: { ...service, spec: { ...service.spec, ports: portsOf(3).slice(2) } } };
      const settled = converge([first, late], from(side, 3300), interfaces).observed;
      expect(planned([first, moved], settled).stages.length).toBeGreaterThan(0);
      expect(planned([first, moved], settled).warnings("late")).toEqual([]);
    }
  });
});
