import { describe, expect, test } from "bun:test";

import * as fc from "fast-check";

import { formatCSV, parseCSV } from "../../../../host/config/values/csv.ts";

describe("parsing comma-separated values", () => {
  const good: readonly [text: string, fields: readonly string[]][] = [
    ["", []],
    ["a", ["a"]],
    ["a,b", ["a", "b"]],
    ["a,", ["a", ""]],
    [",", ["", ""]],
    [" a , b ", [" a ", " b "]],
    ['"a,b",c', ["a,b", "c"]],
    ['"say ""hi"""', ['say "hi"']],
    ['""', [""]],
    ["*,-cloud-node\n", ["*", "-cloud-node"]],
  ];
  test.each(good)("%p", (text, fields) => {
    expect(parseCSV(text)).toEqual({ ok: true, value: fields });
  });

  const bad: readonly [text: string, problem: string][] = [
    ['a"b', 'an item with the " at character 2 must begin with one'],
    ['x,a"b', 'an item with the " at character 4 must begin with one'],
    ['"a"b', 'a comma must follow the " at character 3'],
    ['"a', 'the " at character 1 is not closed'],
    ['x,"a,b', 'the " at character 3 is not closed'],
    ["a\nb", "must be one line"],
  ];
  test.each(bad)("%p is refused", (text, problem) => {
    expect(parseCSV(text)).toEqual({ ok: false, problem });
  });
});

test("parses every formatted list to the same list", () => {
  const field = fc.oneof(fc.string(), fc.constantFrom('"', ",", '",', "\n", " ", "", '""'));
  fc.assert(
    fc.property(fc.array(field), (fields) => {
      expect(parseCSV(formatCSV(fields))).toEqual({ ok: true, value: fields });
    }),
    { seed: 20_260_819, numRuns: 500 },
  );
});
