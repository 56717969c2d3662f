import { describe, expect, test } from "bun:test";

import { fieldChanges } from "../../../host/changes/fields.ts";

describe("the fields of a change", () => {
  test("are those that differ, in the order of their paths", () => {
    const before = { b: 1, gone: true, same: { x: [1, 2] }, list: ["1"] };
    const after = { b: 2, a: { c: "new" }, same: { x: [1, 2] }, list: ["1", "2"] };
    expect(fieldChanges(before, after)).toEqual([
      { path: "a.c", after: "new" },
      { path: "b", before: 1, after: 2 },
      { path: "gone", before: true },
      { path: "list", before: ["1"], after: ["1", "2"] },
    ]);
  });

  test("name the items of a list by what identifies them, also where the list was empty", () => {
    const before = {
      rules: [
        { name: "a", port: 80 },
        { name: "b", port: 81 },
      ],
      probes: [],
    };
    const after = { rules: [{ name: "b", port: 82 }], probes: [{ name: "p", port: 1 }] };
    expect(fieldChanges(before, after)).toEqual([
      { path: "probes[p].port", after: 1 },
      { path: "rules[a].port", before: 80 },
      { path: "rules[b].port", before: 81, after: 82 },
    ]);
  });

  test("show a list as a whole where an item of either side lacks what identifies the others", () => {
    for (const after of [[{ port: 80 }], ["a"]])
      expect(fieldChanges({ rules: [{ name: "a", port: 80 }] }, { rules: after })).toEqual([
        { path: "rules", before: [{ name: "a", port: 80 }], after },
      ]);
  });

  test("are all fields of what is created, and none of what is deleted", () => {
    expect(fieldChanges(undefined, { a: { b: 1 }, empty: {} })).toEqual([
      { path: "a.b", after: 1 },
      { path: "empty", after: {} },
    ]);
    expect(fieldChanges({ a: 1 }, undefined)).toEqual([]);
  });

  test("show a list as a whole where two of its items have the same identity", () => {
    const before = { rules: [{ type: "a", value: 1 }] };
    const after = {
      rules: [
        { type: "a", value: 1 },
        { type: "a", value: 2 },
      ],
    };
    expect(fieldChanges({}, after)).toEqual([{ path: "rules", after: after.rules }]);
    expect(fieldChanges(after, { ...before, rules: [] })).toEqual([{ path: "rules", before: after.rules, after: [] }]);
  });

  test("show a list as a whole where the items of one side alone have the same identity: each address of a node has a type", () => {
    const one = { addresses: [{ type: "InternalIP", address: "10.0.0.4" }] };
    const two = { addresses: [{ type: "InternalIP", address: "fd00::4" }, ...one.addresses] };
    expect(fieldChanges(one, two)).toEqual([{ path: "addresses", before: one.addresses, after: two.addresses }]);
    expect(fieldChanges(two, one)).toEqual([{ path: "addresses", before: two.addresses, after: one.addresses }]);
  });
});
