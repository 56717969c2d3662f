import { describe, expect, test } from "bun:test";

import { parseCloudConfig } from "../../../host/generation/cloud-config.ts";

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

  test("has its switch found whatever the key's case", () => {
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
    ["disableCloudProvider: maybe", "disableCloudProvider must be true or false"],
    ["a: [1, 2", "neither YAML nor JSON"],
  ])("%j is refused in one line that names the source", (content, problem) => {
    expect(problemsOf(content)).toContain(problem);
    expect(problemsOf(content)).not.toContain("\n");
  });

  test("never shows its content in a problem", () => {
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
