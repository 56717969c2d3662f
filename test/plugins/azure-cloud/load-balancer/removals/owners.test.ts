import { expect, test } from "bun:test";

import {
  memberOwners,
  ownedByName,
  ownersOf,
} from "../../../../../plugins/azure-cloud/load-balancer/removals/owners.ts";
import { intentOf, plannerConfigOf } from "../fixtures.ts";
import { world } from "../world.ts";

const { service } = intentOf({ name: "web", uid: "a".repeat(32) });
const owners = ownersOf([], world({ services: [service] }), plannerConfigOf());

test.each(["default-web", "DEFAULT-Web", "default-web-ipv6"])(
  "a member of the pool %s is an endpoint of its Service",
  (pool) => {
    expect(memberOwners(pool, "node-0", owners)).toEqual([
      { kind: "endpoint", service: "default/web", node: "node-0" },
    ]);
  },
);

test("a member of the cluster's pool belongs to its node, and has no owner where that is unknown", () => {
  expect(memberOwners("kubernetes", "node-0", owners)).toEqual([{ kind: "Node", name: "node-0" }]);
  expect(memberOwners("default-web", undefined, owners)).toEqual([]);
});

test("a part belongs to the Service whose name it has in any case, and to others where it has no name of a Service", () => {
  const owned = { owners: [{ kind: "Service", name: "default/web" }], services: ["default/web"] } as const;
  for (const name of [`a${"a".repeat(31)}`, `A${"A".repeat(31)}-TCP-80`])
    expect(ownedByName(name, owners)).toEqual(owned);
  expect(ownedByName(`a${"b".repeat(31)}`, owners)).toEqual({ owners: [], services: [] });
  expect(ownedByName("theirs", owners)).toBeUndefined();
});
