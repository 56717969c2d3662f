import { expect, test } from "bun:test";

import { defaultLoadBalancerName } from "cloud-controller-host/sdk";

import { sharedWith, usersOf } from "../../../../plugins/azure-cloud/load-balancer/explain-use.ts";
import { readSubject } from "../../../../plugins/azure-cloud/load-balancer/service/subject.ts";
import { serviceOf } from "./cluster.ts";
import { plannerConfigOf } from "./fixtures.ts";

test("Services that share something are named in order, ten of them, and how many more there are", () => {
  const keys = Array.from({ length: 11 }, (_, index) => `default/s${String(index).padStart(2, "0")}`);
  const ten = keys.slice(0, 10).join(", ");
  const valueOf = (some: readonly string[]) => sharedWith("shared with", some).map(({ value }) => value);
  expect(valueOf([])).toEqual([]);
  expect(valueOf(keys.slice(0, 10).toReversed())).toEqual([ten]);
  expect(valueOf(keys.toReversed())).toEqual([`${ten} and 1 more`]);
});

test("a load balancer is used by Services with a frontend or a rule there, and a frontend by those with a rule on it", () => {
  const [own, sharer, other, elsewhere] = ["own", "sharer", "other", "elsewhere"].map((name) => serviceOf(name));
  if (own === undefined || sharer === undefined || other === undefined || elsewhere === undefined)
    throw new Error("there are four");
  const base = defaultLoadBalancerName;
  const frontends = [own, other].map((service) => ({ id: `/lb/${base(service)}`, name: base(service) }));
  const rule = (service: typeof own, on: number) => ({
    name: `${base(service)}-TCP-80`,
    frontendIPConfiguration: { id: frontends[on]?.id ?? "" },
  });
  const balancer = {
    frontendIPConfigurations: frontends,
    loadBalancingRules: [rule(own, 0), rule(sharer, 0), rule(other, 1)],
  };
  const { subject } = readSubject(own, plannerConfigOf());
  const users = (on?: number) =>
    usersOf(balancer, [own, sharer, other, elsewhere], subject, ...(on === undefined ? [] : [frontends[on]]));
  expect(users()).toEqual(["default/sharer", "default/other"]);
  expect(users(0)).toEqual(["default/sharer"]);
  expect(users(1)).toEqual(["default/other"]);
});
