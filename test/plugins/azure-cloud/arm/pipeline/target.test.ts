import { expect, test } from "bun:test";

import { targetOf } from "../../../../../plugins/azure-cloud/arm/pipeline/target.ts";

const url = (name: string): string =>
  `https://arm.test/subscriptions/s/resourceGroups/RG/providers/Microsoft.Network/loadBalancers/${name}?api-version=1`;

test("the target of a request is parsed once, for all policies that ask for it", () => {
  const target = targetOf(url("one"));
  expect(target).toEqual({
    subscription: "s",
    resourceGroup: "rg",
    type: "microsoft.network/loadbalancers",
    collection: false,
    path: "/subscriptions/s/resourceGroups/RG/providers/Microsoft.Network/loadBalancers/one",
  });
  expect(targetOf(url("one"))).toBe(target);
  expect(targetOf(url("other")).path).toEndWith("/other");
});
