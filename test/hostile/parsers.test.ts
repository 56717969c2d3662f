import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { CodedError } from "cloud-controller-host/sdk";
import * as fc from "fast-check";

import { runPlugins } from "../../host/cli/plugins.ts";
import { parse } from "../../host/config/parse/parse.ts";
import { parseCloudConfig } from "../../host/generation/triggers/cloud-config.ts";
import { loadApiServer } from "../../host/kube/connection/api-server.ts";
import { decodeConfig } from "../../plugins/azure-cloud/config/decode.ts";
import type { Json } from "../../sdk/testing/api-server/json.ts";
import { jsonPatch } from "../../sdk/testing/api-server/patch/json-patch.ts";
import { mergePatch } from "../../sdk/testing/api-server/patch/merge-patch.ts";
import { rejection } from "../kit/rejection.ts";

/** Whatever a parser is given, it returns or throws an error with a code, in time that grows with the input. */
const runs = { seed: 31, numRuns: 300 } as const;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "parsers-"));
});
afterAll(() => rm(folder, { recursive: true }));

/** YAML and JSON that is nearly right, and some that is not. */
const document = fc.oneof(
  fc.string({ unit: "binary", maxLength: 300 }),
  fc.json({ maxDepth: 4 }),
  fc
    .array(fc.tuple(fc.constantFrom("cloud", "tenantId", "disableCloudProvider", "&a", "<<", "? x", "- "), fc.string()))
    .map((pairs) => pairs.map(([key, value]) => `${key}: ${value}`).join("\n")),
);

describe("any input", () => {
  test("any input to the flag parser is a command, or refused with problems that name it", () => {
    const names = [
      "controllers",
      "v",
      "tls-cipher-suites",
      "cluster-cidr",
      "leader-elect-lease-duration",
      "feature-gates",
      "vmodule",
    ];
    const argument = fc.oneof(
      fc.string({ unit: "binary", maxLength: 60 }),
      fc
        .tuple(fc.constantFrom(...names), fc.string({ unit: "binary", maxLength: 60 }))
        .map(([name, value]) => `--${name}=${value}`),
      fc.constantFrom("--", "-", "---", "--=", "--no-such", "--v", "--__proto__=1", "--constructor=x"),
    );
    fc.assert(
      fc.property(fc.array(argument, { maxLength: 6 }), (argv) => {
        const command = parse(argv);
        if (command.kind === "refused") expect(command.problems.every((problem) => problem.length > 0)).toBeTrue();
      }),
      runs,
    );
  });

  test.each(["constructor", "__proto__", "toString", "hasOwnProperty"])(
    "any input to the flag parser: %s is neither a command, a topic, a flag, a feature gate nor a plugin command",
    async (name) => {
      const given = [[name], ["help", name], ["completion", name], [`--${name}=1`], [`--feature-gates=${name}=true`]];
      for (const argv of given) expect([argv, parse(argv).kind === "run"]).toEqual([argv, false]);
      expect(await rejection(runPlugins([name]))).toContain(name);
    },
  );

  test("any input to the cloud-config parser: keys of the prototype are unknown keys, and change no other object", () => {
    const hostile = '{"subscriptionId": "polluted", "useManagedIdentityExtension": true, "polluted": 1}';
    for (const key of ["__proto__", "constructor", "prototype"]) {
      const read = parseCloudConfig(`{"${key}": ${hostile}, "location": "x"}`, "f");
      if (!read.ok) throw new Error(read.problems.join());
      const { ok, warnings } = decodeConfig(read.value.document, {});
      expect([key, ok, warnings]).toEqual([key, false, [`unknown keys are ignored: ${key}`]]);
      expect({}).not.toHaveProperty("polluted");
    }
  });

  test("any input to the cloud-config parser is a document, or problems that name its source and quote none of it", () => {
    fc.assert(
      fc.property(document, (text) => {
        const read = parseCloudConfig(`${text}\nsecret: "hunter2-${"x".repeat(8)}`, "the file");
        if (read.ok) return;
        expect(read.problems.every((problem) => problem.startsWith("the file: "))).toBeTrue();
        expect(read.problems.join("")).not.toContain("hunter2");
      }),
      runs,
    );
  });

  test("any input to the cloud-config parser costs little time, also where aliases would grow without bound", () => {
    const bomb = ["a: &a [x, x, x, x, x, x, x, x, x]"];
    for (let i = 98; i < 110; i++) {
      const [name, below] = [String.fromCharCode(i), String.fromCharCode(i - 1)];
      bomb.push(`${name}: &${name} [${Array.from({ length: 9 }, () => `*${below}`).join(", ")}]`);
    }
    const startedAt = performance.now();
    const read = parseCloudConfig(bomb.join("\n"), "the file");
    expect(read.ok).toBeFalse();
    expect(performance.now() - startedAt).toBeLessThan(10_000);
  });

  test("any input to the kubeconfig parser is a server, or an error with a code and the flag", async () => {
    const path = join(folder, "kubeconfig");
    await fc.assert(
      fc.asyncProperty(document, async (text) => {
        await writeFile(path, text);
        try {
          loadApiServer({ kubeconfig: path, master: "" });
        } catch (error) {
          expect(error).toBeInstanceOf(CodedError);
          expect(String(error)).toContain("--kubeconfig");
        }
      }),
      { ...runs, numRuns: 150 },
    );
  });

  test("any input to the patch parsers is a new document, or an error with a code; the prototype stays clean", () => {
    const json = fc.jsonValue({ maxDepth: 3 }).map((value): Json => JSON.parse(JSON.stringify(value)));
    const operation = fc.record({
      op: fc.constantFrom("add", "remove", "replace", "move", "copy", "test", "x"),
      path: fc.oneof(
        fc.string(),
        fc.constantFrom("/a/b", "/-", "/0", "/__proto__/polluted", "/constructor/prototype/polluted", "~2"),
      ),
      from: fc.constantFrom("", "/a", "/__proto__"),
      value: json,
    });
    const target = (): Json => JSON.parse('{"a":{"b":[1,2]},"__proto__x":1}');
    const attempt = (work: () => unknown): void => {
      try {
        work();
      } catch (error) {
        expect(error).toHaveProperty("code");
      }
    };
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 5 }), json, (operations, merge) => {
        attempt(() => jsonPatch(target(), JSON.parse(JSON.stringify(operations))));
        attempt(() => mergePatch(target(), JSON.parse(`{"__proto__":{"polluted":1},"a":${JSON.stringify(merge)}}`)));
        expect({}).not.toHaveProperty("polluted");
      }),
      runs,
    );
  });
});
