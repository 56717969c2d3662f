import { describe, expect, test } from "bun:test";

import * as fc from "fast-check";

import { equal, isObject, type Json, textOf } from "../../../../sdk/testing/api-server/json.ts";
import {
  fromFields,
  pathsIn,
  removeAt,
  toFields,
  valueAt,
} from "../../../../sdk/testing/api-server/patch/field-set.ts";
import { jsonPatch } from "../../../../sdk/testing/api-server/patch/json-patch.ts";
import { mergePatch } from "../../../../sdk/testing/api-server/patch/merge-patch.ts";
import { strategicMerge } from "../../../../sdk/testing/api-server/patch/strategic-merge.ts";
import { node } from "../../../../sdk/testing/api-server/schema/node.ts";
import { normalize } from "../../../../sdk/testing/api-server/schema/normalize.ts";
import { service } from "../../../../sdk/testing/api-server/schema/service.ts";
import { processorMs } from "../../../kit/processor-time.ts";

const seed = 20_260_701;
const check = <Ts extends unknown[]>(property: fc.IProperty<Ts>): void => fc.assert(property, { seed, numRuns: 300 });

const scalar = fc.oneof(fc.constant(null), fc.boolean(), fc.integer(), fc.string({ maxLength: 3 }));
const key = fc.constantFrom("a", "b", "c", "x/y", "~", "0");
const { json } = fc.letrec<{ json: Json }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 3 },
    scalar,
    fc.array(tie("json"), { maxLength: 3 }),
    fc.dictionary(key, tie("json"), { maxKeys: 3, noNullPrototype: true }),
  ),
}));

/** The merge patch that makes one value of another. */
function mergeDiff(from: Json, to: Json): Json {
  if (!isObject(from) || !isObject(to)) return to;
  const keys = [...new Set([...Object.keys(from), ...Object.keys(to)])];
  return Object.fromEntries(
    keys.flatMap((name) => {
      const [before = null, after] = [from[name], to[name]];
      if (after === undefined) return [[name, null]];
      return name in from && equal(before, after) ? [] : [[name, mergeDiff(before, after)]];
    }),
  );
}

const hasNull = (value: Json): boolean =>
  value === null || (typeof value === "object" && Object.values(value).some(hasNull));

const pointerTo = (path: readonly string[]): string =>
  path.map((part) => `/${part.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");

describe("merge patch", () => {
  test("applying the diff of two objects turns one into the other", () => {
    check(
      fc.property(json, json, (from, to) => {
        fc.pre(!hasNull(to) && !hasNull(from));
        expect(mergePatch(from, mergeDiff(from, to))).toEqual(to);
      }),
    );
  });

  test("applying a patch again changes nothing", () => {
    check(
      fc.property(json, json, (target, patch) => {
        const once = mergePatch(target, patch);
        expect(mergePatch(once, patch)).toEqual(once);
      }),
    );
  });

  test("does not change its inputs", () => {
    check(
      fc.property(json, json, (target, patch) => {
        const before = JSON.stringify([target, patch]);
        mergePatch(target, patch);
        expect(JSON.stringify([target, patch])).toBe(before);
      }),
    );
  });
});

describe("JSON patch", () => {
  /** A document and a path to a member of its first level. */
  const member = fc
    .dictionary(key, json, { minKeys: 1, noNullPrototype: true })
    .chain((document) =>
      fc.record({ document: fc.constant(document), name: fc.constantFrom(...Object.keys(document)) }),
    );

  test("an added value is present, and removing it restores the original", () => {
    check(
      fc.property(
        fc.dictionary(fc.constantFrom("a", "b"), json, { noNullPrototype: true }),
        json,
        (document, value) => {
          const path = pointerTo(["x/~"]);
          const added = jsonPatch(document, [
            { op: "add", path, value },
            { op: "test", path, value },
          ]);
          expect(jsonPatch(added, [{ op: "remove", path }])).toEqual(document);
        },
      ),
    );
  });

  test("moving a value and moving it back restores the original", () => {
    check(
      fc.property(member, ({ document, name }) => {
        const [from, path] = [pointerTo([name]), "/elsewhere"];
        const there = jsonPatch(document, [{ op: "move", from, path }]);
        expect(jsonPatch(there, [{ op: "move", from: path, path: from }])).toEqual(document);
      }),
    );
  });

  test("adds, replaces, removes and copies list items by index", () => {
    const document = { list: ["a", "b"] };
    const patch = [
      { op: "add", path: "/list/1", value: "x" },
      { op: "add", path: "/list/-", value: "y" },
      { op: "replace", path: "/list/0", value: "z" },
      { op: "remove", path: "/list/2" },
      { op: "copy", from: "/list/0", path: "/copy" },
    ];
    expect(jsonPatch(document, patch)).toEqual({ list: ["z", "x", "y"], copy: "z" });
    expect(document).toEqual({ list: ["a", "b"] });
  });

  const refusals: readonly (readonly [string, Json])[] = [
    ["a missing path", { op: "replace", path: "/none", value: 1 }],
    ["removing a missing value", { op: "remove", path: "/none" }],
    ["a missing parent", { op: "add", path: "/none/below", value: 1 }],
    ["an index past the end", { op: "add", path: "/list/3", value: 1 }],
    ["an index with a leading zero", { op: "replace", path: "/list/01", value: 1 }],
    ["a name of Object.prototype", { op: "test", path: "/constructor", value: 1 }],
    ["an unknown operation", { op: "twist", path: "/list" }],
    ["an operation without a path", { op: "add", value: 1 }],
    ["an addition without a value", { op: "add", path: "/a" }],
    ["a pointer without its slash", { op: "add", path: "a", value: 1 }],
  ];
  for (const [name, operation] of refusals)
    test(`rejects ${name}`, () => {
      expect(() => jsonPatch({ list: ["a", "b"] }, [operation])).toThrow();
    });
});

describe("strategic merge", () => {
  const types = ["Ready", "Full", "Busy"] as const;
  const conditions = fc.uniqueArray(
    fc.record({ type: fc.constantFrom(...types), status: fc.constantFrom("True", "False") }),
    { selector: ({ type }) => type, maxLength: 3 },
  );
  const nodeWith = (list: readonly Json[]): Json => ({ status: { conditions: list } });

  test("each item of the patch is in the result once, and all others are unchanged", () => {
    check(
      fc.property(conditions, conditions, (before, patch) => {
        const merged = Object(strategicMerge(nodeWith(before), nodeWith(patch), node)).status.conditions;
        const expected = new Map([...before, ...patch].map((condition) => [condition.type, condition]));
        expect(new Set(merged)).toEqual(new Set(expected.values()));
        expect(merged).toHaveLength(expected.size);
      }),
    );
  });

  test("applying a patch again changes nothing", () => {
    check(
      fc.property(conditions, conditions, (before, patch) => {
        const once = strategicMerge(nodeWith(before), nodeWith(patch), node);
        expect(strategicMerge(once, nodeWith(patch), node)).toEqual(once);
      }),
    );
  });

  test("removes exactly the items marked for deletion", () => {
    check(
      fc.property(conditions, fc.constantFrom(...types), (before, type) => {
        const patch = nodeWith([{ $patch: "delete", type }]);
        const merged = Object(strategicMerge(nodeWith(before), patch, node)).status.conditions;
        expect(merged).toEqual(before.filter((condition) => condition.type !== type));
      }),
    );
  });

  test("the result has the order of $setElementOrder", () => {
    check(
      fc.property(conditions, (list) => {
        const order = list.map(({ type }) => ({ type })).toReversed();
        const patch = { status: { "$setElementOrder/conditions": order } };
        const merged = Object(strategicMerge(nodeWith(list), patch, node)).status.conditions;
        expect(merged).toEqual(list.toReversed());
      }),
    );
  });

  test("items that only the server has stay before the first item of $setElementOrder that they stood before", () => {
    const merged = (names: string, order: string, added = ""): string => {
      const finalizers = names.split("");
      const patch = { metadata: { "$setElementOrder/finalizers": order.split(""), finalizers: added.split("") } };
      return Object(strategicMerge({ metadata: { finalizers } }, patch, node)).metadata.finalizers.join("");
    };
    expect(merged("abcde", "dxb", "x")).toBe("acdxbe");
    expect(merged("abc", "xc", "x")).toBe("xabc");
    expect(merged("abc", "bab")).toBe("bac");
    expect(merged("abc", "zy")).toBe("abc");
    expect(merged("", "ba", "abab")).toBe("ba");
  });

  test("an item of a key that two items have is merged into the first, and deletes both", () => {
    const dns = (protocol: string): Json => ({ port: 53, protocol });
    const before = { spec: { ports: [dns("UDP"), { port: 80 }, dns("TCP")] } };
    const merged = (...ports: readonly Json[]): Json => strategicMerge(before, { spec: { ports } }, service);
    expect(merged({ port: 53, name: "dns" }, { port: 81 })).toEqual({
      spec: { ports: [{ port: 53, protocol: "UDP", name: "dns" }, { port: 80 }, dns("TCP"), { port: 81 }] },
    });
    expect(merged({ port: 53, $patch: "delete" }, { port: 54, $patch: "delete" }, dns("SCTP"))).toEqual({
      spec: { ports: [{ port: 80 }, dns("SCTP")] },
    });
    expect(merged({ port: 81 }, { port: 81, name: "a" }, { port: 81, $patch: "delete" })).toEqual(before);
  });

  test("values are compared by content, whatever the order of their members", () => {
    const reordered = (value: Json): Json =>
      isObject(value)
        ? Object.fromEntries(
            Object.entries(value)
              .map(([name, part]) => [name, reordered(part)] as const)
              .toReversed(),
          )
        : Array.isArray(value)
          ? value.map(reordered)
          : value;
    check(
      fc.property(json, json, (one, other) => {
        expect(textOf(one)).toBe(textOf(reordered(one)));
        expect(textOf(one) === textOf(other)).toBe(equal(one, other));
      }),
    );
  });

  test("a patch of long lists costs linear time", () => {
    const names = Array.from({ length: 20_000 }, (_, index) => `example.com/${index}`);
    const reversed = names.toReversed();
    const conditionsOf = (list: readonly string[]): readonly Json[] => list.map((type) => ({ type, status: "True" }));
    const before = { metadata: { finalizers: names }, status: { conditions: conditionsOf(names) } };
    const patch = {
      metadata: {
        "$setElementOrder/finalizers": reversed.slice(10_000),
        finalizers: reversed,
      },
      status: {
        "$setElementOrder/conditions": reversed.slice(10_000).map((type) => ({ type })),
        conditions: conditionsOf(reversed),
      },
    };
    const removal = { metadata: { "$deleteFromPrimitiveList/finalizers": reversed } };
    const results: Json[] = [];
    const merge = (): void => void results.push(...[patch, removal].map((one) => strategicMerge(before, one, node)));
    expect(processorMs(merge)).toBeLessThan(3_000);
    const [merged, removed] = results.map(Object);
    expect(merged.metadata.finalizers.slice(0, 2)).toEqual(["example.com/9999", "example.com/9998"]);
    expect(merged.status.conditions).toHaveLength(20_000);
    expect(removed.metadata.finalizers).toEqual([]);
  });

  test("replaces a list without merge keys", () => {
    const before = { spec: { taints: [{ key: "a", effect: "NoSchedule" }] } };
    const patch = { spec: { taints: [{ key: "b", effect: "NoExecute" }] } };
    expect(strategicMerge(before, patch, node)).toEqual(patch);
  });

  test("drops nulls and directives within a new value", () => {
    const patch = { spec: { ports: [{ port: 80, name: null, $retainKeys: ["port"] }], selector: { a: "b", c: null } } };
    expect(strategicMerge({}, patch, service)).toEqual({ spec: { ports: [{ port: 80 }], selector: { a: "b" } } });
  });

  test("replaces a list marked with $patch: replace", () => {
    const before = nodeWith([{ type: "Ready", status: "True" }]);
    const patch = nodeWith([{ $patch: "replace" }, { type: "Full", status: "True" }]);
    expect(strategicMerge(before, patch, node)).toEqual(nodeWith([{ type: "Full", status: "True" }]));
  });

  test("an item without its merge key, and an unknown directive, are a 400", () => {
    for (const patch of [nodeWith([{ status: "True" }]), { spec: { $patch: "twist" } }, "text"])
      expect(() => strategicMerge({}, patch, node)).toThrow(expect.objectContaining({ status: 400 }));
  });
});

describe("owned fields", () => {
  const config = fc.record(
    {
      metadata: fc.record({ labels: fc.dictionary(key, fc.string(), { noNullPrototype: true }) }),
      spec: fc.record({
        ports: fc.uniqueArray(
          fc.record({
            port: fc.integer({ min: 1, max: 4 }),
            name: fc.string(),
            protocol: fc.constantFrom("TCP", "UDP"),
          }),
          { selector: ({ port, protocol }) => `${port}/${protocol}`, maxLength: 4 },
        ),
        type: fc.constantFrom("ClusterIP", "NodePort"),
      }),
    },
    { requiredKeys: [] },
  );

  test("encoding and decoding managed fields returns the same paths", () => {
    check(
      fc.property(config, (value) => {
        const paths = pathsIn(value, service);
        const steps = (list: readonly (readonly string[])[]): Set<string> =>
          new Set(list.map((path) => path.join(" ")));
        expect(steps(fromFields(toFields(paths)))).toEqual(steps(paths));
      }),
    );
  });

  test("each path resolves to a value, and to none once it is removed", () => {
    check(
      fc.property(config, (value) => {
        for (const path of pathsIn(value, service)) {
          expect(valueAt(value, path, service)).toBeDefined();
          expect(valueAt(removeAt(value, path, service), path, service)).toBeUndefined();
        }
      }),
    );
  });
});

describe("the stored form of an object", () => {
  const taint = fc.record(
    { key: fc.string(), value: fc.string(), effect: fc.string(), color: fc.string() },
    { requiredKeys: ["key"] },
  );
  const object = fc.record({
    metadata: fc.record({ name: fc.string(), labels: fc.dictionary(key, fc.string(), { noNullPrototype: true }) }),
    spec: fc.record({ taints: fc.array(taint, { maxLength: 3 }), unschedulable: fc.boolean() }, { requiredKeys: [] }),
    status: fc.record({ capacity: fc.dictionary(key, fc.integer(), { noNullPrototype: true }) }),
  });

  test("is idempotent", () => {
    check(
      fc.property(object, (value) => {
        const once = normalize(node, value, { fields: [] });
        expect(normalize(node, once, { fields: [] })).toEqual(once);
      }),
    );
  });

  test("has no unknown field, and each dropped field is reported", () => {
    check(
      fc.property(object, (value) => {
        const unknown: { readonly fields: string[] } = { fields: [] };
        expect(JSON.stringify(normalize(node, value, unknown))).not.toContain('"color"');
        const colored = (value.spec.taints ?? []).flatMap((item, index) =>
          "color" in item ? [`spec.taints[${index}].color`] : [],
        );
        expect(unknown.fields).toEqual(colored);
      }),
    );
  });
});
