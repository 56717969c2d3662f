import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { leavesFolder } from "../../host/generation/plugin-tree.ts";
import { createCertificateAuthority } from "../envtest/certificate-authority.ts";
import { SandboxLab } from "./sandbox-lab.ts";

setDefaultTimeout(120_000);

const main = join(import.meta.dir, "..", "..", "host", "main.ts");

/** Prints, at the end of the process, the packages of which modules were loaded. */
const reporter = `process.on("exit", () => {
  const names = Object.keys(require.cache).map((path) => /node_modules\\/((?:@[^/]+\\/)?[^/]+)/.exec(path)?.[1]);
  console.error("loaded " + JSON.stringify([...new Set(names)].filter((name) => name !== undefined)));
});`;

function packagesLoaded(output: string): readonly string[] {
  const packages: readonly string[] = JSON.parse(/^loaded (.*)$/mu.exec(output)?.[1] ?? "[]");
  return packages;
}

/** Each takes between 0.1 and 0.6 s of processor time. */
const heavy = /^@azure\/|^@peculiar\/|^@opentelemetry\/sdk|^@typespec\/|^reflect-metadata$|^jsonwebtoken$/u;

test("reading the flags loads neither the Azure SDK nor what creates certificates", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "start-"));
  const preload = join(folder.path, "reporter.ts");
  await Bun.write(preload, reporter);
  const child = Bun.spawn([process.execPath, `--preload=${preload}`, main, "--version"], { stderr: "pipe" });
  const output = await child.stderr.text();
  expect(await child.exited).toBe(0);
  const packages = packagesLoaded(output);
  expect(packages).toContain("prom-client");
  expect(packages.filter((name) => heavy.test(name))).toEqual([]);
});

test("a host with a certificate loads neither tracing nor what creates certificates until a client shows one", async () => {
  await using lab = await SandboxLab.open();
  const preload = join(lab.azure.folder, "reporter.ts");
  await Bun.write(preload, reporter);
  const { certPem, keyPem } = await (await createCertificateAuthority()).issueServer(["localhost"]);
  const [cert, key] = [join(lab.azure.folder, "tls.crt"), join(lab.azure.folder, "tls.key")];
  await Promise.all([Bun.write(cert, certPem), Bun.write(key, keyPem)]);
  const flags = [`--tls-cert-file=${cert}`, `--tls-private-key-file=${key}`];
  const host = lab.start({ flags, environment: { BUN_OPTIONS: `--preload=${preload}` } });
  await host.until("it leads", ({ running }) => running);
  expect(await host.stop()).toBe(0);
  const packages = packagesLoaded(host.stderr);
  expect(packages).toContain("@azure/arm-compute");
  expect(packages.filter((name) => /^@opentelemetry\/sdk|^@peculiar\/|^reflect-metadata$/u.test(name))).toEqual([]);
});

test("no bundled plugin imports from outside its folder: Bun would call back for each relative import of the Azure SDK", async () => {
  const folder = join(import.meta.dir, "..", "..", "plugins");
  const leaving: string[] = [];
  for (const path of new Bun.Glob("*/**/*.ts").scanSync({ cwd: folder })) {
    const [, ...inside] = path.split("/");
    if (leavesFolder(inside.join("/"), Buffer.from(await Bun.file(join(folder, path)).bytes()))) leaving.push(path);
  }
  expect(leaving).toEqual([]);
});
