import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createHash } from "node:crypto";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { baseImages } from "../../deploy/release/base-images.ts";
import { productionPackages } from "../../deploy/release/lock-file.ts";
import packageJson from "../../package.json";
import { describeWithHelm } from "./helm.ts";

setDefaultTimeout(120_000);

const repository = join(import.meta.dir, "..", "..");

describe("the packages of the lock file", () => {
  const lock = (packages: object): string =>
    JSON.stringify({ workspaces: { "": { dependencies: { a: "1" }, devDependencies: { d: "1" } } }, packages });

  test("are those reachable in production, each in the version that its dependent resolves", () => {
    const integrity = `sha512-${Buffer.from("x").toString("base64")}`;
    const { direct, packages } = productionPackages(
      lock({
        a: ["a@1.0.0", "", { dependencies: { b: "1", "@s/c": "1" }, optionalDependencies: { o: "1" } }, integrity],
        b: ["b@2.0.0", "", {}, integrity],
        "a/b": ["b@1.0.0", "", { dependencies: { e: "1" } }, integrity],
        "a/b/e": ["e@1.0.0", "", {}, integrity],
        "@s/c": ["@s/c@1.0.0", "", { dependencies: { b: "2", e: "2" } }, integrity],
        "@s/c/e": ["e@2.0.0", "", { dependencies: { a: "1" } }, integrity],
        d: ["d@1.0.0", "", {}, integrity],
        o: ["o@1.0.0", "", {}, integrity],
      }),
    );
    expect(direct).toEqual(["a@1.0.0"]);
    expect(packages.map(({ name, version, dependencies }) => [`${name}@${version}`, ...dependencies])).toEqual([
      ["@s/c@1.0.0", "b@2.0.0", "e@2.0.0"],
      ["a@1.0.0", "@s/c@1.0.0", "b@1.0.0"],
      ["b@1.0.0", "e@1.0.0"],
      ["b@2.0.0"],
      ["e@1.0.0"],
      ["e@2.0.0", "a@1.0.0"],
    ]);
    expect(packages[0]?.sha512).toBe("78");
  });
});

test("every action of a workflow is pinned by commit, with its version beside it", async () => {
  const folder = join(repository, ".github", "workflows");
  const files = await readdir(folder);
  expect(files.toSorted()).toEqual(["ci.yaml", "release.yaml"]);
  for (const file of files) {
    const uses = [...(await Bun.file(join(folder, file)).text()).matchAll(/^ *- uses: (.*)$|^ *uses: (.*)$/gm)];
    expect(uses.length).toBeGreaterThan(2);
    for (const [, first, second] of uses)
      expect(first ?? second).toMatch(/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  }
});

describeWithHelm("a release", (helm) => {
  const folders: string[] = [];
  const [digest, buildDigest, baseDigest] = ["a", "b", "c"].map((digit) => digit.repeat(64));
  async function build(): Promise<string> {
    const folder = await mkdtemp(join(tmpdir(), "release-"));
    folders.push(folder);
    const child = Bun.spawn([process.execPath, "deploy/release/build.ts", folder], {
      cwd: repository,
      env: {
        ...process.env,
        HELM: helm().path,
        IMAGE_DIGEST: `sha256:${digest}`,
        BUILD_IMAGE: `docker.io/oven/bun@sha256:${buildDigest}`,
        BASE_IMAGE: `docker.io/oven/bun@sha256:${baseDigest}`,
      },
      stdout: "pipe",
      stderr: "pipe",
    });
    const problem = await child.stderr.text();
    if ((await child.exited) !== 0) throw new Error(problem);
    return folder;
  }
  const read = (file: string): Promise<string> => Bun.file(join(folders[0] ?? "", file)).text();
  const parsed = async (file: string) => JSON.parse(await read(file));
  beforeAll(async () => {
    await build();
  });
  afterAll(async () => {
    for (const folder of folders) await rm(folder, { recursive: true });
  });

  test("has the chart, two bills of materials, checksums and the provenance", async () => {
    expect((await readdir(folders[0] ?? "")).toSorted()).toEqual([
      "SHA256SUMS",
      `cloud-controller-host-${packageJson.version}.tgz`,
      "provenance.intoto.json",
      "sbom.cyclonedx.json",
      "sbom.spdx.json",
    ]);
  });

  test("lists in both bills of materials the packages that are installed for production, with digest and license", async () => {
    const spdx = await parsed("sbom.spdx.json");
    const cyclone = await parsed("sbom.cyclonedx.json");
    const [own, ...rest] = spdx.packages;
    const packages = rest.slice(0, -2);
    expect([own.name, own.versionInfo]).toEqual([packageJson.name, packageJson.version]);
    const inSpdx = packages.map((one: { name: string; versionInfo: string }) => `${one.name}@${one.versionInfo}`);
    const inCyclone = cyclone.components.map((one: { name: string; version: string }) => `${one.name}@${one.version}`);
    expect(inSpdx).toEqual(inCyclone.slice(0, -2));
    for (const [name, version] of Object.entries(packageJson.dependencies))
      expect(inSpdx).toContain(`${name}@${version}`);
    for (const [name, version] of Object.entries(packageJson.devDependencies))
      expect(inSpdx).not.toContain(`${name}@${version}`);
    for (const one of packages) expect(one.checksums[0].checksumValue).toMatch(/^[0-9a-f]{128}$/);
    const unlicensed = packages.filter((one: { licenseDeclared: string }) => one.licenseDeclared === "NOASSERTION");
    expect(unlicensed.map(({ name }: { readonly name: string }) => name)).toEqual([]);
    const ids = new Set([
      ...spdx.packages.map(({ SPDXID }: { readonly SPDXID: string }) => SPDXID),
      "SPDXRef-DOCUMENT",
    ]);
    expect(ids.size).toBe(spdx.packages.length + 1);
    for (const relation of spdx.relationships)
      expect([ids.has(relation.spdxElementId), ids.has(relation.relatedSpdxElement)]).toEqual([true, true]);
    const refs = new Set(cyclone.components.map((one: { "bom-ref": string }) => one["bom-ref"]));
    for (const { dependsOn } of cyclone.dependencies) for (const ref of dependsOn) expect(refs.has(ref)).toBeTrue();
  });

  test("has checksums of its files, and a provenance with the same digests, commit and image", async () => {
    const sums = new Map(
      (await read("SHA256SUMS"))
        .trimEnd()
        .split("\n")
        .map((line) => [line.slice(66), line.slice(0, 64)]),
    );
    expect(sums.size).toBe(3);
    for (const [file, sum] of sums) {
      const content = await Bun.file(join(folders[0] ?? "", file)).bytes();
      expect(createHash("sha256").update(content).digest("hex")).toBe(sum);
    }
    const { _type, predicateType, subject, predicate } = await parsed("provenance.intoto.json");
    expect([_type, predicateType]).toEqual(["https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1"]);
    expect(subject).toEqual([
      ...[...sums].map(([name, sha256]) => ({ name, digest: { sha256 } })),
      { name: "cloud-controller-host", digest: { sha256: digest } },
    ]);
    const revision = (await Bun.$`git -C ${repository} rev-parse HEAD`.text()).trim();
    expect(predicate.buildDefinition.resolvedDependencies[0].digest).toEqual({ gitCommit: revision });
  });

  test("names the base image and Bun in both bills of materials, and both base images in the provenance", async () => {
    const [bun = ""] = Bun.version.split("-");
    const { packages } = await parsed("sbom.spdx.json");
    const [base, runtime] = packages.slice(-2);
    expect([base.name, base.checksums]).toEqual([
      "docker.io/oven/bun",
      [{ algorithm: "SHA256", checksumValue: baseDigest }],
    ]);
    expect([runtime.name, runtime.versionInfo, runtime.licenseDeclared]).toEqual(["bun", bun, "MIT"]);
    const { components } = await parsed("sbom.cyclonedx.json");
    expect(
      components.slice(-2).map(({ type, name, version }: Record<string, string>) => [type, name, version]),
    ).toEqual([
      ["container", "docker.io/oven/bun", `${bun}-distroless`],
      ["platform", "bun", bun],
    ]);
    expect(components.at(-2).hashes).toEqual([{ alg: "SHA-256", content: baseDigest }]);
    const { predicate } = await parsed("provenance.intoto.json");
    const images = predicate.buildDefinition.resolvedDependencies.slice(2);
    expect(
      images.map(({ name, digest: { sha256 } }: { name: string; digest: { sha256: string } }) => [name, sha256]),
    ).toEqual([
      ["BUILD_IMAGE", buildDigest],
      ["BASE_IMAGE", baseDigest],
    ]);
  });

  test("refuses a base image that is not the Containerfile's, or has no digest", () => {
    const containerfile = "ARG BUILD_IMAGE=registry.test/a:1-slim\nARG BASE_IMAGE=registry.test/b:1\n";
    expect(baseImages(containerfile, {})).toMatchObject([{ tag: "1-slim", sha256: undefined }, { tag: "1" }]);
    for (const image of ["registry.test/b:1", `registry.test/c@sha256:${digest}`, "registry.test/b@sha256:1"])
      expect(() => baseImages(containerfile, { BASE_IMAGE: image })).toThrow(
        "BASE_IMAGE must be registry.test/b@sha256:",
      );
    expect(() => baseImages("", {})).toThrow("no default for BUILD_IMAGE");
  });

  test("has reproducible bills of materials", async () => {
    const again = await build();
    for (const file of ["sbom.spdx.json", "sbom.cyclonedx.json"])
      expect(await Bun.file(join(again, file)).text()).toBe(await read(file));
  });
});
