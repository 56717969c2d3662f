import { expect, test } from "bun:test";

import { labelSelectorsOverlap, parseLabelSelector } from "cloud-controller-host/sdk";
import * as fc from "fast-check";

import { processorMs } from "../kit/processor-time.ts";

const labels = { app: "web", "example.com/tier": "front", weight: "7", empty: "", power: "1e3", part: "7.5" };

test.each([
  ["", true],
  ["  ", true],
  ["app=web", true],
  ["app==web", true],
  ["app = web", true],
  ["app=db", false],
  ["app=we", false],
  ["empty=", true],
  ["missing=", false],
  ["app!=web", false],
  ["app!=db", true],
  ["missing!=web", true],
  ["app in (db,web)", true],
  ["app in ( db , web )", true],
  ["app in (db)", false],
  ["missing in (db)", false],
  ["missing in ()", false],
  ["empty in ()", true],
  ["app notin (db,web)", false],
  ["app notin (db)", true],
  ["missing notin (db)", true],
  ["example.com/tier", true],
  ["missing", false],
  ["!missing", true],
  ["! app", false],
  ["constructor", false],
  ["!constructor", true],
  ["weight>6", true],
  ["weight>7", false],
  ["weight<8", true],
  ["app<8", false],
  ["missing>1", false],
  ["empty<8", false],
  ["empty>0", false],
  ["power>8", false],
  ["part<8", false],
  ["app in (db,web),!missing,weight>6", true],
  ["app in (db,web),missing", false],
] as const)("the label selector %j matches a Service's labels: %p", (selector, expected) => {
  expect(parseLabelSelector(selector)(labels)).toBe(expected);
});

test.each([
  "a=b=c",
  "a in b",
  "a in (b",
  "=b",
  "a,,b",
  "-a",
  "a=b c",
  "!a=b",
  "a notin (b",
  "a>x",
  "a>-1",
  "a<-1",
  "example..com/a",
  "example.-com/a",
  "example-.com/a",
  "/a",
  "a/",
  "a in (b c)",
  "a in ((b))",
  "a),b",
  "a in (b,-)",
])("the label selector %j is refused, with the part that is wrong and the forms there are", (selector) => {
  expect(() => parseLabelSelector(selector)).toThrow(/^is not a valid label selector at ".*"; write key=value/u);
});

test.each([
  ["", "", true],
  ["shard=a", "", true],
  ["shard=a", "shard=b", false],
  ["shard in (a,b)", "shard in (b,c)", true],
  ["shard in (a,b)", "shard in (c)", false],
  ["shard in (a,b)", "shard notin (a,b)", false],
  ["shard in (a,b)", "shard notin (a)", true],
  ["shard!=a", "shard!=b", true],
  ["!shard", "shard!=a", true],
  ["!shard", "shard", false],
  ["!shard", "shard=", false],
  ["!shard", "shard>1", false],
  ["shard=a,shard!=a", "", false],
  ["shard=a", "team=b", true],
  ["weight>5", "weight<7", true],
  ["weight>5", "weight<6", false],
  ["weight<0", "", false],
  ["weight>5", "weight in (5,6)", true],
  ["weight>5", "weight in (5,x)", false],
  ["weight>5", "weight!=6", true],
  ["weight>5,weight<7", "weight!=6", true],
])("selectors %p and %p can match the same labels: %p", (one, other, expected) => {
  expect(labelSelectorsOverlap(one, other)).toBe(expected);
  expect(labelSelectorsOverlap(other, one)).toBe(expected);
});

test("selectors overlap exactly if some labels match both (seed 20261123)", () => {
  const values = ["", "a", "b", "1", "3", "05"];
  const list = fc.subarray(values.slice(1), { minLength: 1 }).map((some) => `(${some.join(",")})`);
  const requirement = fc
    .tuple(fc.constantFrom("x", "y"), list, fc.integer({ min: 0, max: 6 }))
    .chain(([key, some, than]) =>
      fc.constantFrom(
        key,
        `!${key}`,
        `${key}=a`,
        `${key}!=a`,
        `${key}=`,
        `${key} in ${some}`,
        `${key} notin ${some}`,
        `${key}>${than}`,
        `${key}<${than}`,
      ),
    );
  const selector = fc.array(requirement, { maxLength: 4 }).map((parts) => parts.join(","));
  // Every value that a requirement could single out, and others.
  const integers = Array.from({ length: 8 }, (_, integer) => ["", "0", "00"].map((zeros) => `${zeros}${integer}`));
  const probes = [...new Set([...values, "c", ...integers.flat()])];
  const all = [undefined, ...probes].flatMap((x) =>
    [undefined, ...probes].map((y) => ({ ...(x !== undefined && { x }), ...(y !== undefined && { y }) })),
  );
  fc.assert(
    fc.property(selector, selector, (one, other) => {
      const [first, second] = [parseLabelSelector(one), parseLabelSelector(other)];
      expect(labelSelectorsOverlap(one, other)).toBe(all.some((found) => first(found) && second(found)));
    }),
    { numRuns: 2_000, seed: 20261123 },
  );
});

test("a selector of thousands of parts is read, refused and compared in linear time", () => {
  const listOf = (prefix: string): string =>
    Array.from({ length: 20_000 }, (_, index) => `${prefix}${index}`).join(",");
  const read = (): void => {
    expect(parseLabelSelector(listOf("a"))({})).toBe(false);
    expect(() => parseLabelSelector(`a in (${" ,".repeat(30)}!)`)).toThrow("is not a valid label selector");
    expect(labelSelectorsOverlap(`a in (${listOf("b")})`, `a in (c),${listOf("a!=d")}`)).toBe(false);
  };
  expect(processorMs(read)).toBeLessThan(5_000);
}, 120_000);
