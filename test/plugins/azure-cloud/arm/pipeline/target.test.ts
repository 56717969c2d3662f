import { expect, test } from "bun:test";

import { methodWord, targetOf } from "../../../../../plugins/azure-cloud/arm/pipeline/target.ts";

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

test("the targets of the last 256 requests are known, and no more", () => {
  const numbered = (index: number) => targetOf(url(`numbered-${index}`));
  const [first, second] = [numbered(0), numbered(1)];
  for (let index = 2; index <= 256; index++) numbered(index);
  expect(numbered(1)).toBe(second);
  expect(numbered(0)).not.toBe(first);
});

test("the target of a request is named as in the ids of ARM, which are not encoded as URLs are", () => {
  const path = "/subscriptions/s/resourceGroups/größe/providers/Microsoft.Network/routeTables/r";
  expect(targetOf(`https://arm.test${path}?api-version=1`)).toMatchObject({ resourceGroup: "größe", path });
  const malformed = "/subscriptions/s/resourceGroups/%ff";
  expect(targetOf(`https://arm.test${malformed}`).path).toBe(malformed);
});

const group = "https://arm.test/subscriptions/s/resourceGroups/rg/providers/Microsoft.Network";
const connection = "privateLinkServices/pls/privateEndpointConnections/one";

test.each([
  ["GET", "loadBalancers", "list"],
  ["GET", "loadBalancers/one", "get"],
  ["PUT", "loadBalancers/one", "create_or_update"],
  ["PATCH", "loadBalancers/one", "update"],
  ["DELETE", "loadBalancers/one", "delete"],
  ["POST", "loadBalancers/one", "post"],
  ["PUT", connection, "create_or_update"],
  ["DELETE", connection, "deletePrivateEndpointConnection"],
])("the metrics name a %s of %s %s, as upstream does", (method, path, word) => {
  expect(methodWord(method, targetOf(`${group}/${path}?api-version=1`))).toBe(word);
});
