import { expect, test } from "bun:test";

import { idIn, sameName } from "../../../../plugins/azure-cloud/arm/resource-id.ts";

const network = "/subscriptions/s/resourceGroups/rg0/providers/Microsoft.Network";

test.each([
  [`Resource ${network}/publicIPAddresses/one is in use.`, `${network}/publicIPAddresses/one`],
  [`In use: ${network}/publicIPAddresses/one.`, `${network}/publicIPAddresses/one`],
  [`In use: '${network}/publicIPAddresses/k8s.example.com-a_'.`, `${network}/publicIPAddresses/k8s.example.com-a_`],
  [`(${network}/PUBLICIPADDRESSES/one)`, `${network}/PUBLICIPADDRESSES/one`],
  [`${network}/publicIPAddresses/one, ${network}/publicIPAddresses/two`, `${network}/publicIPAddresses/one`],
  [`${network}/publicIPAddresses/`, undefined],
  [`${network}/publicIPPrefixes/one`, undefined],
])("the id of a public IP in %j is %j", (text, id) => {
  expect(idIn(text, "publicIPAddresses")).toBe(id);
});

test("the id of a nested resource in a text ends with its own name", () => {
  const pool = `${network}/loadBalancers/a.b/backendAddressPools/c.d`;
  expect(idIn(`${pool}, which is gone.`, "loadBalancers", "backendAddressPools")).toBe(pool);
  expect(idIn(`${network}/loadBalancers/a.b is gone.`, "loadBalancers", "backendAddressPools")).toBeUndefined();
});

test.each([
  ["web", "web", true],
  ["web", "WEB", true],
  ["größe", "GRÖSSE", false],
  ["größe", "GRÖßE", true],
  ["web-1", "web", false],
  ["web", "web-1", false],
  ["web-1", "wxb-1", false],
  ["", "", true],
  ["", "web", false],
])("the names %j and %j are equal for ARM: %p", (left, right, equal) => {
  expect(sameName(left, right)).toBe(equal);
});
