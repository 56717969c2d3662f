import { expect, test } from "bun:test";

import { defaultOptions } from "../../../host/config/flags/options.ts";
import { hostPermissions } from "../../../host/run/permissions.ts";

test("only a process that shares its Services may list the Leases of others", () => {
  const listsAll = (changes: Partial<typeof defaultOptions>): boolean =>
    hostPermissions({ ...defaultOptions, ...changes }).some(
      ({ resources, verbs, resourceNames }) =>
        resources.includes("leases") && verbs.includes("list") && resourceNames === undefined,
    );
  expect(listsAll({})).toBe(false);
  for (const shared of [{ shard: "a" }, { loadBalancerClass: "example.com/a" }, { serviceSelector: "shard=a" }])
    expect(listsAll(shared)).toBe(true);
});
