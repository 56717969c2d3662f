/**
 * Writes the files of a release that need no registry: the packaged chart, two bills of materials, checksums and the
 * provenance statement. What follows, with signing, is in README.md beside this file.
 *
 *     bun deploy/release/build.ts DIRECTORY
 *
 * Needs git and Helm (on the PATH, or named in HELM). In a GitHub workflow the builder is taken from its variables.
 * IMAGE_DIGEST (`sha256:…`) adds the image to the provenance, and BUILD_IMAGE and BASE_IMAGE (`repository@sha256:…`) add the
 * digests of the images that it was built on to that and to the bills of materials.
 */
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import packageJson from "../../package.json" with { type: "json" };
import { baseImages, imageParts } from "./base-images.ts";
import { idOf, type LockedPackage, productionPackages } from "./lock-file.ts";
import { type Artifact, provenance } from "./provenance.ts";
import { cycloneDx, spdx, type Subject } from "./sbom.ts";

const root = join(import.meta.dir, "..", "..");
const { env } = process;
const directory = process.argv[2];
if (directory === undefined) {
  process.stderr.write("Usage: bun deploy/release/build.ts DIRECTORY\n");
  process.exit(2);
}
await mkdir(directory, { recursive: true });

const revision = await output(["git", "rev-parse", "HEAD"]);
const created = new Date(Number(await output(["git", "show", "--no-patch", "--format=%ct", "HEAD"])) * 1000);
const lockFile = await readFile(join(root, "bun.lock"), "utf8");
const production = productionPackages(lockFile);
const images = baseImages(await readFile(join(root, "deploy", "Containerfile"), "utf8"), env);
const { name, version, license } = packageJson;
const licenses = await licensesOf(production.packages);
const subject: Subject = { name, version, license, revision, created, licenses, parts: imageParts(images) };

await output([env["HELM"] ?? "helm", "package", join(root, "deploy", "chart"), `--destination=${directory}`]);
await write("sbom.spdx.json", spdx(subject, production));
await write("sbom.cyclonedx.json", cycloneDx(subject, production));
const files = (await readdir(directory)).filter((file) => /\.tgz$|^sbom\./.test(file)).toSorted();
const artifacts: readonly Artifact[] = await Promise.all(
  files.map(async (file) => ({ name: file, sha256: sha256(await readFile(join(directory, file))) })),
);
await writeFile(
  join(directory, "SHA256SUMS"),
  artifacts.map((artifact) => `${artifact.sha256}  ${artifact.name}\n`).join(""),
);
const image = env["IMAGE_DIGEST"] === undefined ? [] : [{ name, sha256: env["IMAGE_DIGEST"].replace(/^sha256:/, "") }];
const { GITHUB_SERVER_URL: server = "https://github.com", GITHUB_REPOSITORY: repository = name } = env;
await write(
  "provenance.intoto.json",
  provenance([...artifacts, ...image], {
    source: `${server}/${repository}`,
    revision,
    builder: env["GITHUB_WORKFLOW_REF"] === undefined ? "local" : `${server}/${env["GITHUB_WORKFLOW_REF"]}`,
    invocation:
      env["GITHUB_RUN_ID"] === undefined ? "local" : `${server}/${repository}/actions/runs/${env["GITHUB_RUN_ID"]}`,
    startedOn: new Date(),
    lockFileSha256: sha256(lockFile),
    images,
  }),
);

async function write(file: string, content: object): Promise<void> {
  await writeFile(join(directory ?? "", file), `${JSON.stringify(content, undefined, 2)}\n`);
}

async function output(command: readonly string[]): Promise<string> {
  const child = Bun.spawn([...command], { cwd: root, stdin: "ignore", stdout: "pipe", stderr: "inherit" });
  const text = (await child.stdout.text()).trim();
  if ((await child.exited) === 0) return text;
  process.stderr.write(`${command.join(" ")} failed\n`);
  return process.exit(1);
}

/** What installed packages declare. */
async function licensesOf(packages: readonly LockedPackage[]): Promise<ReadonlyMap<string, string>> {
  const declared = new Map<string, string>();
  const wanted = new Set(packages.map(idOf));
  const manifests = new Bun.Glob("**/package.json").scan({ cwd: join(root, "node_modules"), followSymlinks: false });
  for await (const path of manifests) {
    const manifest: { readonly name?: string; readonly version?: string; readonly license?: unknown } = await Bun.file(
      join(root, "node_modules", path),
    )
      .json()
      .catch(() => ({}));
    const id = idOf({ name: manifest.name ?? "", version: manifest.version ?? "" });
    if (wanted.has(id) && typeof manifest.license === "string") declared.set(id, manifest.license);
  }
  return declared;
}

function sha256(content: string | Uint8Array): string {
  return createHash("sha256").update(content).digest("hex");
}
