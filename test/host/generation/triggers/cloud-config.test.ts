import { describe, expect, test } from "bun:test";

import { changedKeys, type CloudConfig, parseCloudConfig } from "../../../../host/generation/triggers/cloud-config.ts";
import { processorMs } from "../../../kit/processor-time.ts";

const problemsOf = (content: string): string => {
  const decoded = parseCloudConfig(content, "--cloud-config=/x.yaml");
  return decoded.ok ? "" : decoded.problems.join("; ");
};

describe("the cloud config", () => {
  test("is read from YAML and from JSON alike", () => {
    for (const content of [
      "tenantId: t\ndisableCloudProvider: true\n",
      '{"tenantId":"t","disableCloudProvider":true}',
    ]) {
      const decoded = parseCloudConfig(content, "here");
      expect(decoded).toMatchObject({ ok: true, value: { document: { tenantId: "t" }, disabled: true } });
    }
  });

  test("matches the switch case-insensitively", () => {
    expect(parseCloudConfig("DisableCloudprovider: true", "here")).toMatchObject({
      ok: true,
      value: { disabled: true },
    });
    expect(parseCloudConfig("cloud: x", "here")).toMatchObject({ ok: true, value: { disabled: false } });
  });

  test.each([
    ["", "--cloud-config=/x.yaml: it is empty"],
    [" \n\n", "it is empty"],
    ["- a\n- b\n", "must be a mapping"],
    ["just words", "must be a mapping"],
    ["a: [1, 2", "neither YAML nor JSON: line 1: a bracket is not closed"],
    ["a: b\nc: d: e\n", "line 2: the value contains a colon and a space"],
    ["a: b\n c: d\n", "or the line is not indented like those around it"],
    ["a: {b: c\n", "line 1: a bracket is not closed"],
    ['{"a": 1 "b": 2}', "line 1: a comma or a closing bracket is missing"],
    ['{"a": 1,, "b": 2}', "line 1: a comma, a bracket or a dash is not expected there"],
    ["a: 'b\n", "line 1: a quotation mark is not closed"],
    ["a: b\nc\n", "line 2: a quotation mark is not closed, or the colon after a key is missing"],
    ["a\nb: c\n", "line 1: the colon after a key is missing"],
    ["a:\n\tb: c\n", "line 2: a tab indents the line; use spaces"],
    ["a: @b\n", "line 1: the value begins with a reserved character; quote it"],
    ['a: "\\q"\n', "line 1: a backslash in double quotes does not begin an escape sequence"],
    ["a: b\n---\nc: d\n", "line 2: a second document begins; keep one"],
  ])("%j is rejected in one line that names the source", (content, problem) => {
    expect(problemsOf(content)).toContain(problem);
    expect(problemsOf(content)).not.toContain("\n");
  });

  test("brackets in tens of thousands of levels are rejected as nested too deeply", () => {
    const depth = 50_000;
    expect(problemsOf(`a: ${"[".repeat(depth)}${"]".repeat(depth)}\n`)).toContain("line 1: it is nested too deeply");
  });

  test("a switch that is not a boolean is a problem of the config, beside those that the cloud finds in its other keys", () => {
    expect(parseCloudConfig("disableCloudProvider: maybe\nlocation: x\n", "here")).toMatchObject({
      ok: true,
      value: {
        disabled: false,
        document: { location: "x" },
        problems: ["here: disableCloudProvider must be true or false without quotes"],
      },
    });
  });

  test("has no key with the value that a missing comma or space made part of it", () => {
    const contents = [
      '{"tenantId":"t", // comment\n"aadClientSecret":"s3cret" "x":1}',
      '{"tenantId":"t", // comment\n"aadClientSecret":"s3cret" "x": 1}',
      "{tenantId: t, aadClientSecret:s3cret}",
    ];
    const decoded = contents.map((content) => parseCloudConfig(content, "here"));
    expect(decoded.map((one) => one.ok && one.value.document)).toEqual([
      { tenantId: "t", "// comment …": null },
      { tenantId: "t", "// comment …": 1 },
      { tenantId: "t", "aadClientSecret…": null },
    ]);
    // Keys that have a value may contain what they like.
    const odd = parseCloudConfig("a:b: 1\nc'd: 2\n", "here");
    expect(odd.ok && odd.value.document).toEqual({ "a:b": 1, "c'd": 2 });
  });

  test("is read as Go reads YAML: 1.1 booleans, dates and clock times as text, null as absent", () => {
    const content = [
      "useInstanceMetadata: yes",
      "excludeMasterFromStandardLB: off",
      "disableCloudProvider: null",
      "date: 2026-01-02",
      "time: 1:30",
      "octal: 010",
      "long: 12345678901234567890",
      'text: "yes"',
      "base: &base { a: 1 }",
      "merged: { <<: *base, b: 2 }",
    ].join("\n");
    const decoded = parseCloudConfig(content, "here");
    expect(decoded).toMatchObject({ ok: true, warnings: [], value: { disabled: false } });
    expect(decoded.ok && decoded.value.document).toEqual({
      useInstanceMetadata: true,
      excludeMasterFromStandardLB: false,
      disableCloudProvider: null,
      date: "2026-01-02",
      time: "1:30",
      octal: 8,
      long: "12345678901234567890",
      text: "yes",
      base: { a: 1 },
      merged: { a: 1, b: 2 },
    });
    expect(parseCloudConfig("disableCloudProvider: yes", "here")).toMatchObject({ value: { disabled: true } });
  });

  test.each([
    ["a: s3cr3t\nb: { c: 1, c: 2 }\na: 3\n", ["here: line 3: duplicate key a", "here: line 2: duplicate key c"]],
    ['{"a": "s3cr3t",\n"a": 3}', ["here: line 2: duplicate key a"]],
    ["a: 1\na: 2\na: 3\n", ["here: line 3: duplicate key a"]],
    [
      "a: 3\n? [{ b: 1, b: 2 }]\n: [{ c: 1, c: 2 }]\n",
      ["here: line 2: duplicate key b", "here: line 3: duplicate key c"],
    ],
  ])("applies the last value of a duplicate key and warns with its line: %j", (content, keys) => {
    const decoded = parseCloudConfig(content, "here");
    expect(decoded).toMatchObject({ ok: true, value: { document: { a: 3 } } });
    expect(decoded.ok && decoded.warnings).toEqual(keys.map((key) => `${key}; its last value applies`));
  });

  test("is read in linear time however deep it is nested and however often a key is repeated", () => {
    const depth = 5_000;
    const nested = `a: ${"[".repeat(depth)}${"]".repeat(depth)}\n`;
    const read = (): void => {
      expect(parseCloudConfig(nested, "here")).toMatchObject({ ok: true, warnings: [] });
      const repeated = parseCloudConfig("a: 1\n".repeat(10_000), "here");
      expect(repeated).toMatchObject({ ok: true, value: { document: { a: 1 } } });
    };
    expect(processorMs(read)).toBeLessThan(5_000);
  }, 120_000);

  test("has no more characters than a Secret can hold", () => {
    const least = "a: ".padEnd(1024 * 1024, "x");
    expect(problemsOf(least)).toBe("");
    expect(problemsOf(`${least}x`)).toBe(
      "--cloud-config=/x.yaml: it has more than 1048576 characters, which no Secret or ConfigMap can hold",
    );
  });

  test("the last of two switches that differ in case applies", () => {
    const content = "disableCloudProvider: true\nDisableCloudProvider: false\n";
    expect(parseCloudConfig(content, "here")).toMatchObject({ ok: true, value: { disabled: false } });
  });

  test("never appears in an error message", () => {
    const secret = "s3cr3t-value";
    for (const content of [
      `aadClientSecret: "${secret}`,
      `aadClientSecret: ${secret}\n  : x: [`,
      `{"aadClientSecret": ${secret}`,
      `a: *${secret}`,
      `a: ! ${secret}: ${secret}`,
    ]) {
      expect(problemsOf(content)).toContain("it is neither YAML nor JSON");
      expect(problemsOf(content)).not.toContain(secret);
    }
  });
});

describe("the changed keys of a cloud config", () => {
  const configOf = (document: CloudConfig["document"]): CloudConfig => ({
    source: "a test",
    document,
    disabled: false,
    hash: "",
  });

  test("are the paths of all keys with another value, sorted, once each", () => {
    const before = configOf({ same: [1], gone: "a", nested: { deep: 1, equal: 2 }, list: [{ name: "x", a: 1, b: 1 }] });
    const after = configOf({ same: [1], added: "b", nested: { deep: 2, equal: 2 }, list: [{ name: "x", a: 2, b: 2 }] });
    expect(changedKeys(before, after)).toEqual(["added", "gone", "list", "nested.deep"]);
    expect(changedKeys(undefined, after)).toEqual(["added", "list", "nested.deep", "nested.equal", "same"]);
    expect(changedKeys(after, after)).toEqual([]);
  });

  test("never show a value, not even one that tells the items of a list apart", () => {
    const secrets = (value: string) =>
      configOf({
        credentials: [
          { key: "secret-a", value },
          { key: "secret-b", value },
        ],
      });
    expect(changedKeys(secrets("one"), secrets("two"))).toEqual(["credentials"]);
  });
});
