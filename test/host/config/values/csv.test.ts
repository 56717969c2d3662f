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
    ['a"b', 'parse error on line 1, column 2: bare " in non-quoted-field'],
    ['x,a"b', 'parse error on line 1, column 4: bare " in non-quoted-field'],
    ['"a"b', 'parse error on line 1, column 3: extraneous or missing " in quoted-field'],
    ['"a', 'parse error on line 1, column 3: extraneous or missing " in quoted-field'],
    ["a\nb", "a list stands on one line"],
  ];
  test.each(bad)("%p is refused in Go's words", (text, problem) => {
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
