import { describe, expect, test } from "bun:test";

import { equalRules } from "../../../../../../plugins/azure-cloud/load-balancer/plan/balancer/rules.ts";
import {
  hasPartsOf,
  isAbandoned,
  isOrphan,
  namedFor,
  rulesOn,
  usersOf,
  withoutPools,
  withoutRules,
  withPool,
  withRules,
} from "../../../../../../plugins/azure-cloud/load-balancer/plan/draft/edits.ts";

const ruleOf = (name: string, frontend: string, port: number) => ({
  name,
  protocol: "Udp",
  frontendPort: port,
  frontendIPConfiguration: { id: frontend },
});

test.each([
  ["loadBalancingRules", "aWEB-TCP-80", "aweb"],
  ["probes", "aweb-TCP-80", "AWEB"],
  ["frontendIPConfigurations", "AWEB", "aweb"],
])("a Service has parts in the %s of a load balancer by its base name in any case: %s, %s", (list, name, base) => {
  expect(hasPartsOf({ [list]: [{ name }] }, base)).toBe(true);
  expect(hasPartsOf({ [list]: [{ name: "users" }] }, base)).toBe(false);
});

describe("a list of rules gives the same answers when it is searched and when it is indexed", () => {
  const names = { name: "kubernetes" };
  const rules = [ruleOf("A-80", "/FRONT", 80), ruleOf("b-81", "/other", 81), ruleOf("c-82", "/front", 82)];
  const balancer = { ...names, loadBalancingRules: rules };
  const looks = [1, 2, 3];

  test("a list of rules gives the same answers when it is searched and when it is indexed to who uses a frontend, in any case", () => {
    for (const _ of looks) expect(rulesOn(balancer, "/Front").map(({ name }) => name)).toEqual(["A-80", "c-82"]);
    for (const _ of looks) expect(rulesOn({}, "/front")).toEqual([]);
  });

  test("a list of rules gives the same answers when it is searched and when it is indexed to which rules a Service has, in any case", () => {
    const named = ["aweb-TCP-80", "aweb2-TCP-80", "AWEB", "users", "aweb-x-UDP-53", "awe"].map((name) => ({ name }));
    for (const _ of looks) {
      expect(namedFor(named, "aWeb").map(({ name }) => name)).toEqual(["aweb-TCP-80", "AWEB", "aweb-x-UDP-53"]);
      expect(namedFor(named, "awe").map(({ name }) => name)).toEqual(["awe"]);
    }
    expect([namedFor(undefined, "aweb"), namedFor([{}], "aweb")]).toEqual([[], []]);
  });

  test("a list of rules gives the same answers when it is searched and when it is indexed to which rules are left, which is the same list if none goes", () => {
    expect(withoutRules(balancer, [])).toBe(balancer);
    expect(withoutRules(balancer, rules.slice(0, 2)).loadBalancingRules).toEqual(rules.slice(2));
  });

  test("a list of rules gives the same answers when it is searched and when it is indexed to which rule a name belongs to, in any case", () => {
    for (const _ of looks) {
      expect(withRules(balancer, [ruleOf("a-80", "/front", 80)], equalRules)).toBe(balancer);
      const changed = withRules(balancer, [ruleOf("B-81", "/other", 99)], equalRules);
      expect(changed.loadBalancingRules?.map(({ frontendPort }) => frontendPort)).toEqual([80, 99, 82]);
      const added = withRules(balancer, [ruleOf("d", "/other", 83), ruleOf("d", "/other", 84)], equalRules);
      expect(added.loadBalancingRules?.map(({ frontendPort }) => frontendPort)).toEqual([80, 81, 82, 84]);
    }
  });
});

test("a list of rules that was searched finds its own rules alone, whichever rules two others add to it", () => {
  const ports = (list: readonly { readonly frontendPort?: number }[]) => list.map(({ frontendPort }) => frontendPort);
  const balancer = { loadBalancingRules: [ruleOf("a-80", "/front", 80)] };
  for (const asked of [0, 1, 2, 3]) {
    const before = { loadBalancingRules: [...balancer.loadBalancingRules] };
    for (let look = 0; look < asked; look += 1) {
      expect(ports(namedFor(before.loadBalancingRules, "a"))).toEqual([80]);
      expect(ports(rulesOn(before, "/front"))).toEqual([80]);
    }
    const one = withRules(before, [ruleOf("A-81", "/FRONT", 81)], equalRules);
    const other = withRules(before, [ruleOf("a-82", "/front", 82), ruleOf("b", "/front", 83)], equalRules);
    const replaced = withRules(one, [ruleOf("a-80", "/elsewhere", 80), ruleOf("a-84", "/front", 84)], equalRules);
    for (let look = 0; look < 3; look += 1) {
      expect(ports(namedFor(one.loadBalancingRules, "a"))).toEqual([80, 81]);
      expect(ports(rulesOn(other, "/front"))).toEqual([80, 82, 83]);
      expect(ports(namedFor(other.loadBalancingRules, "A"))).toEqual([80, 82]);
      expect(ports(rulesOn(replaced, "/front"))).toEqual([81, 84]);
      expect(ports(rulesOn(before, "/front"))).toEqual([80]);
      expect(ports(rulesOn(one, "/front"))).toEqual([80, 81]);
    }
  }
});

test("a pool is added, replaces another one of its name, and leaves with its name alone", () => {
  const [one, two] = [{ name: "one" }, { name: "two" }];
  const balancer = { backendAddressPools: [one, two] };
  expect(withPool(balancer, two)).toBe(balancer);
  const other = { name: "TWO", drainPeriodInSeconds: 5 };
  expect(withPool(balancer, other).backendAddressPools).toEqual([one, other]);
  expect(withPool({}, one).backendAddressPools).toEqual([one]);
  expect(withoutPools(balancer, ({ name }) => name === "one").backendAddressPools).toEqual([two]);
  expect(withoutPools(balancer, () => false)).toBe(balancer);
});

describe("the users of a frontend", () => {
  const frontend = { id: "/front", name: `a${"0".repeat(31)}` };
  const user = { name: "user", frontendIPConfiguration: { id: "/FRONT" } };

  test.each([
    ["a load-balancing rule of another Service", { loadBalancingRules: [user] }],
    ["an inbound NAT rule", { inboundNatRules: [user] }],
    ["an inbound NAT pool", { inboundNatPools: [user] }],
    ["an outbound rule", { outboundRules: [{ name: "user", frontendIPConfigurations: [{ id: "/FRONT" }] }] }],
  ])("a frontend is kept by %s", (_what, balancer) => {
    expect(usersOf(balancer, "/front", () => false)).toEqual(["user"]);
    expect(usersOf(balancer, "/other", () => false)).toEqual([]);
    expect([isOrphan(balancer, frontend), isOrphan({}, frontend)]).toEqual([false, true]);
  });

  test("a frontend is kept by no rule of its own Service, and one of a user by none", () => {
    expect(usersOf({ loadBalancingRules: [user] }, "/front", () => true)).toEqual([]);
    expect(isOrphan({}, { ...frontend, name: "users-frontend" })).toBe(false);
  });
});

test.each([
  "frontendIPConfigurations",
  "loadBalancingRules",
  "probes",
  "inboundNatRules",
  "inboundNatPools",
  "outboundRules",
  "backendAddressPools",
])("a load balancer with one of a user's %s is not abandoned", (list) => {
  const isOwnPool = (name: string): boolean => name === "kubernetes";
  const pools = { backendAddressPools: [{ name: "kubernetes" }] };
  expect(isAbandoned(pools, isOwnPool)).toBe(true);
  expect(isAbandoned({ ...pools, [list]: [{ name: "users" }] }, isOwnPool)).toBe(false);
});
