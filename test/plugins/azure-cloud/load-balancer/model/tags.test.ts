import { describe, expect, test } from "bun:test";

import { overrideTags, parseTags, reconcileTags } from "../../../../../plugins/azure-cloud/load-balancer/model/tags.ts";

describe("parsing tags", () => {
  test.each([
    ["", {}, {}],
    ["a=b,c=d", {}, { a: "b", c: "d" }],
    [" a = b , c=d ", {}, { a: "b", c: "d" }],
    ["a,b=c=d,=e,f=", {}, { f: "" }],
    ["a=b,A=c", {}, { A: "c" }],
    ["a=b", { A: "c", d: "e" }, { A: "c", d: "e" }],
    ["a= null ,b= NULL", {}, { a: " null ", b: " NULL" }],
  ] as const)("reads %p with %j over it", (text, map, expected) => {
    expect(Object.fromEntries(parseTags(text, map))).toEqual(expected);
  });
});

test("tags of a Service override those of the config in any case, under the config's spelling", () => {
  const tags = overrideTags(parseTags("a=b,Cost=x"), parseTags("cost=own,z=y"));
  expect(Object.fromEntries(tags)).toEqual({ a: "b", Cost: "own", z: "y" });
});

describe("reconciling tags", () => {
  const reconcile = (current: Record<string, string> | undefined, desired: Record<string, string>, system = "") =>
    reconcileTags(current, new Map(Object.entries(desired)), system === "" ? [] : system.split(","));

  test("adds missing keys and overwrites a different value, preserving the key's existing case", () => {
    expect(reconcile({ Env: "prod", mine: "x" }, { env: "test", team: "a" })).toEqual({
      Env: "test",
      mine: "x",
      team: "a",
    });
  });

  test("returns the same object when only case differs", () => {
    const current = { Env: "PROD" };
    expect(reconcile(current, { env: "prod" })).toBe(current);
  });

  test("removes a tag only when systemTags is set and neither names it", () => {
    const current = { env: "prod", old: "x", "aks-managed-a": "y" };
    expect(reconcile(current, { env: "prod" })).toBe(current);
    expect(reconcile(current, { env: "prod" }, "AKS-managed")).toEqual({ env: "prod", "aks-managed-a": "y" });
  });
});
