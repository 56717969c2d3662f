import { expect, test } from "bun:test";

import { idIn } from "../../../../plugins/azure-cloud/arm/resource-id.ts";

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
