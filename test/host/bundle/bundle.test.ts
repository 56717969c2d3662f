import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmod, mkdtemp, rm, stat, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";

import { messageOf } from "cloud-controller-host/sdk";

import { type Bundle, bundleHead, readBundle, writeBundle } from "../../../host/bundle/bundle.ts";

const bundle: Bundle = {
  ...bundleHead,
  anonymized: false,
  cloudProvider: "azure",
  flags: ["--cluster-name=prod"],
  cloudConfig: { resourceGroup: "rg" },
  kinds: [
    {
      group: "",
      version: "v1",
      plural: "nodes",
      kind: "Node",
      namespaced: false,
      objects: [{ metadata: { name: "vm-0" } }],
    },
  ],
  resources: [{ id: "/subscriptions/s" }],
};

let folder = "";
let path = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "bundle-"));
  path = join(folder, "cluster.bundle");
});
afterAll(() => rm(folder, { recursive: true }));

const problem = async (content: string | Uint8Array): Promise<string> => {
  await writeFile(path, content);
  return readBundle(path).then(String, String);
};
const edited = (change: object): Promise<string> => problem(gzipSync(JSON.stringify({ ...bundle, ...change })));

describe("a bundle", () => {
  test("is read as it was written, packed or unpacked, and readable for its owner alone", async () => {
    await writeBundle(path, bundle);
    expect(await readBundle(path)).toEqual(bundle);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    await writeFile(path, gunzipSync(await Bun.file(path).bytes()));
    expect(await readBundle(path)).toEqual(bundle);
  });

  test("is readable for its owner alone, also where a file that others may read had its path", async () => {
    await writeFile(path, "old".repeat(1_000));
    await chmod(path, 0o644);
    await writeBundle(path, bundle);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(await readBundle(path)).toEqual(bundle);
  });

  test("is an error that names the flag and the file when it cannot be read or written", async () => {
    const none = join(folder, "none", "bundle");
    expect(await readBundle(none).then(String, messageOf)).toMatch(
      /^--from=.*none.bundle: the file cannot be read: ENOENT/,
    );
    expect(await writeBundle(none, bundle).then(String, messageOf)).toMatch(
      /^--bundle=.*none.bundle: the file cannot be written: ENOENT/,
    );
  });

  test("is refused when it is larger than 512 MiB, packed or unpacked", async () => {
    const part = gzipSync(Buffer.alloc(9 * 2 ** 20), { level: 1 });
    expect(await problem(Buffer.concat(Array.from({ length: 57 }, () => part)))).toContain(
      "larger than 536870912 bytes",
    );
    const large = join(folder, "large");
    await writeFile(large, "{");
    await truncate(large, 2 ** 30);
    expect(await readBundle(large).then(String, String)).toContain(`${large}: it is larger than 512 MiB`);
  }, 120_000);

  test("is refused with its path when it is cut off, damaged or something else", async () => {
    const whole = gzipSync(JSON.stringify(bundle));
    for (const content of [whole.subarray(0, whole.length / 2), "{", ""])
      expect(await problem(content)).toContain(`${path}: it is truncated or damaged`);
    for (const content of ["{}", "[]", "null", '"text"', '{"apiVersion":"v1"}'])
      expect(await problem(content)).toContain(`${path}: it is not a bundle; write one with: plan --bundle=FILE`);
  });

  test("is refused with both versions when it is of a newer one", async () => {
    expect(await edited({ version: 2, more: true })).toContain("it has version 2, and this program reads up to 1");
  });

  test("is refused with the path of every problem when it was edited", async () => {
    const text = await edited({
      anonymized: "no",
      kinds: [{ ...bundle.kinds[0], objects: [{ metadata: {} }] }],
      extra: 1,
    });
    for (const at of ["/anonymized: ", "/kinds/0/objects/0/metadata/name: ", "/extra: "]) expect(text).toContain(at);
  });

  test("is refused when its flags load plugins, name files, print a help text, or take the next flag as their value", async () => {
    for (const flag of [
      "--plugin-dir=/tmp/x",
      "--audit-log-path=/tmp/x",
      "--kubeconfig=/tmp/x",
      "--webhook-cert-dir=/",
      "--help=true",
      "--version=true",
    ])
      expect(await edited({ flags: ["--cluster-name=prod", flag] })).toContain(
        `it sets ${flag.split("=")[0]}, which may only be set on the command line`,
      );
    for (const flag of ["--plugin_dir=/tmp/x", "--cluster-name", "--", "--Plugin-dir=/tmp/x"])
      expect(await edited({ flags: [flag] })).toContain("/flags/0: ");
  });
});
