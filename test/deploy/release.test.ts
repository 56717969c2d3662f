import { expect, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { join } from "node:path";

import { $ } from "bun";
import { parse } from "yaml";

const repository = join(import.meta.dir, "..", "..");

test("every action of a workflow is pinned by commit, with its version beside it", async () => {
  const folder = join(repository, ".github", "workflows");
  const files = await readdir(folder);
  expect(files.toSorted()).toEqual(["ci.yaml", "nightly.yaml", "release.yaml"]);
  for (const file of files) {
    const uses = [...(await Bun.file(join(folder, file)).text()).matchAll(/^ *- uses: (.*)$|^ *uses: (.*)$/gm)];
    expect(uses.length).toBeGreaterThan(1);
    for (const [, first, second] of uses)
      expect(first ?? second).toMatch(/^[\w-]+(?:\/[\w-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  }
});

test("a release publishes and signs the image's bill of materials and provenance, of base images by digest", async () => {
  const workflow = parse(await Bun.file(join(repository, ".github/workflows/release.yaml")).text());
  const steps: readonly { readonly uses?: string; readonly run?: string; readonly with?: Record<string, unknown> }[] =
    workflow.jobs.release.steps;
  const build = steps.find(({ uses }) => uses?.startsWith("docker/build-push-action@"));
  expect(build?.with).toMatchObject({ provenance: "mode=max", sbom: true, push: true });
  expect(build?.with?.["build-args"]).toContain("BASE_IMAGE=${{ steps.base.outputs.BASE_IMAGE }}");
  expect(steps.filter(({ uses }) => uses?.startsWith("actions/attest-build-provenance@"))).toHaveLength(2);
  const commands = steps.map(({ run = "" }) => run).join("\n");
  for (const part of ["release/sbom.spdx.json", "release/sbom.cyclonedx.json", "SHA256SUMS", "cosign sign --yes"])
    expect(commands).toContain(part);
});

test("a release pushes the image under the tag that its chart asks for by default", async () => {
  const workflow = parse(await Bun.file(join(repository, ".github/workflows/release.yaml")).text());
  const steps: readonly { readonly id?: string; readonly run?: string; readonly with?: Record<string, unknown> }[] =
    workflow.jobs.release.steps;
  const { appVersion } = parse(await Bun.file(join(repository, "deploy/chart/Chart.yaml")).text());
  const reference = `v${appVersion}`;
  const script = steps.find(({ id }) => id === "version")?.run ?? "";
  const outputs = await $`GITHUB_REF_NAME=${reference} bash -c ${script.replace('>> "$GITHUB_OUTPUT"', "")}`.text();
  const [, version = ""] = /^version=(.*)$/m.exec(outputs) ?? [];
  const tags = String(steps.find(({ id }) => id === "image")?.with?.["tags"])
    .replaceAll("${{ env.IMAGE }}", "image")
    .replaceAll("${{ github.ref_name }}", reference)
    .replaceAll("${{ steps.version.outputs.version }}", version);
  expect(tags).toBe(`image:${appVersion}`);
});

test("workflows run the Bun whose hash is in the lock file of .ci, on every platform that it names", async () => {
  const folder = join(repository, ".github", "workflows");
  for (const file of await readdir(folder)) {
    const text = await Bun.file(join(folder, file)).text();
    expect(text).not.toMatch(/npx|curl|setup-bun/);
    for (const job of text.split("steps:").slice(1))
      if (/[.]ci[/]run|bin[/]bun/.test(job)) expect(job).toContain("npm ci --prefix .ci");
  }
  const lock: { packages: Record<string, { version?: string; integrity?: string }> } = await Bun.file(
    join(repository, ".ci", "package-lock.json"),
  ).json();
  const installed = Object.entries(lock.packages).filter(([path]) => path !== "");
  expect(lock.packages["node_modules/bun"]?.version).toBe(Bun.version);
  for (const [, { integrity }] of installed) expect(integrity).toMatch(/^sha512-/);
});
