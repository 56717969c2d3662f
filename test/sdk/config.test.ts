import { describe, expect, test } from "bun:test";

import { decode, Type } from "cloud-controller-host/sdk";

const schema = Type.Object(
  {
    retries: Type.Integer({ default: 3, minimum: 0 }),
    mode: Type.Union([Type.Literal("file"), Type.Literal("secret")], { default: "file" }),
    zones: Type.Array(Type.Integer(), { default: [] }),
    apiToken: Type.Integer({ default: 0, writeOnly: true }),
    login: Type.Object(
      { user: Type.String(), key: Type.Integer() },
      { default: { user: "a", key: 1 }, writeOnly: true },
    ),
    keys: Type.Array(Type.Integer(), { default: [], writeOnly: true }),
  },
  { additionalProperties: false },
);

const problemsWith = (input: unknown): readonly string[] => {
  const decoded = decode(schema, input);
  return decoded.ok ? [] : decoded.problems;
};

describe("reading an input by its schema", () => {
  test("fills in defaults, and converts the texts of flags", () => {
    expect(decode(schema, { retries: "5", zones: ["1", "2"] })).toEqual({
      ok: true,
      value: { retries: 5, mode: "file", zones: [1, 2], apiToken: 0, login: { user: "a", key: 1 }, keys: [] },
      warnings: [],
    });
  });

  test("a number that a plugin's option cannot hold is a problem, not another number", () => {
    const numbers = Type.Object({
      count: Type.Integer({ default: 3 }),
      share: Type.Number({ default: 0.5 }),
      each: Type.Record(Type.String(), Type.Object({ counts: Type.Array(Type.Integer()) }), { default: {} }),
    });
    const read = (input: object): unknown => {
      const decoded = decode(numbers, input);
      return decoded.ok ? decoded.value : decoded.problems;
    };
    for (const text of ["1.9", "1e3", "true", 1.9, true])
      expect(read({ count: text })).toEqual([`count: expected integer, got ${JSON.stringify(text)}`]);
    expect(read({ share: "0x10" })).toEqual(['share: expected number, got "0x10"']);
    expect(read({ each: { a: { counts: ["1", "2.5"] } } })).toEqual(["each.a.counts.1: expected integer"]);
    expect(read({ count: " 12 ", share: "1e3", each: { a: { counts: ["1", 2, "3.0"] } } })).toEqual({
      count: 12,
      share: 1000,
      each: { a: { counts: [1, 2, 3] } },
    });
    expect(read({})).toEqual({ count: 3, share: 0.5, each: {} });
  });

  test("reports every problem at once, each with its key and the value that it is about", () => {
    expect(problemsWith({ retries: -1, mode: "vault", zones: [1, "west"] }).toSorted()).toEqual(
      [
        "retries: expected integer to be greater or equal to 0, got -1",
        'zones.1: expected integer, got "west"',
        'mode: expected "file" or "secret", got "vault"',
      ].toSorted(),
    );
  });

  test("names a key that is missing, and the known one for a misspelled key", () => {
    const nested = Type.Object(
      { directory: Type.String(), login: Type.Object({ user: Type.String() }, { additionalProperties: false }) },
      { additionalProperties: false },
    );
    const decoded = decode(nested, { directry: "/x", color: 1, login: { usr: "a", user: "a" } });
    expect(decoded.ok ? [] : decoded.problems.toSorted()).toEqual([
      "color: unknown key",
      "directory: required, but not set",
      "directry: unknown key (did you mean directory?)",
      "login.usr: unknown key (did you mean user?)",
    ]);
  });

  test("reports the type of an unexpected object or list instead of quoting it", () => {
    expect(problemsWith({ retries: { nested: "hunter2" } })).toEqual(["retries: expected integer, got an object"]);
    expect(problemsWith({ mode: ["hunter2"] })).toEqual(['mode: expected "file" or "secret", got a list']);
    expect(problemsWith(["hunter2"])).toContain("the document: expected object, got a list");
  });
});

describe("a secret", () => {
  test.each([
    ["a secret value", { apiToken: "hunter2" }],
    ["a part of a secret object", { login: { user: "a", key: "hunter2" } }],
    ["a value that should be a secret object", { login: "hunter2" }],
    ["an item of a secret list", { keys: [1, "hunter2"] }],
    ["a misspelled key", { apiTokenn: "hunter2" }],
    ["a key of Object.prototype", { constructor: "hunter2" }],
    ["a key of an object that should be a number", { retries: { apiToken: "hunter2" } }],
  ])("is never quoted: %s", (_, input) => {
    const problems = problemsWith(input);
    expect(problems.length).toBeGreaterThan(0);
    expect(problems.join("\n")).not.toContain("hunter2");
  });
});
