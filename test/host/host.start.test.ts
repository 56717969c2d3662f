import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, mkdtempDisposable, readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { leavesFolder } from "../../host/generation/plugins/plugin-tree.ts";
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

test("a host creates its certificate in another thread: neither its own thread nor its memory holds the library", async () => {
  await using lab = await SandboxLab.open();
  const preload = join(lab.azure.folder, "reporter.ts");
  await Bun.write(preload, reporter);
  const host = lab.start({ environment: { BUN_OPTIONS: `--preload=${preload}` } });
  await host.until("it leads", ({ running }) => running);
  expect(await host.stop()).toBe(0);
  const packages = packagesLoaded(host.stderr);
  expect(packages).toContain("@azure/arm-compute");
  expect(packages.filter((name) => /^@peculiar\/|^reflect-metadata$/u.test(name))).toEqual([]);
});

/** Prints, at the end of the process, which packages of the Azure SDK had been loaded first after a turn of the event loop. */
const turnsReporter = `const seen = new Set();
const turns = [];
const look = () => {
  const names = Object.keys(require.cache).map((path) => /@azure\\/(arm-\\w+|core-rest-pipeline)\\//.exec(path)?.[1]);
  const loaded = [...new Set(names)].filter((name) => name !== undefined && !seen.has(name));
  if (loaded.length > 0) turns.push(loaded);
  for (const name of loaded) seen.add(name);
  if (seen.size < 3) setImmediate(look);
};
look();
process.on("exit", () => console.error("turns " + JSON.stringify(turns)));`;

test("a start loads each package of the Azure SDK in a turn of its own: all of them block the event loop for a third of a second", async () => {
  await using lab = await SandboxLab.open();
  const preload = join(lab.azure.folder, "reporter.ts");
  await Bun.write(preload, turnsReporter);
  const host = lab.start({ environment: { BUN_OPTIONS: `--preload=${preload}` } });
  await host.until("it leads", ({ running }) => running);
  expect(await host.stop()).toBe(0);
  const turns: readonly (readonly string[])[] = JSON.parse(/^turns (.*)$/mu.exec(host.stderr)?.[1] ?? "[]");
  expect(turns).toEqual([["core-rest-pipeline"], ["arm-compute"], ["arm-network"]]);
});

test.each(["missing", "released"])(
  "a first list under way is not sent again when a Lease that was %s is won",
  async (state) => {
    await using lab = await SandboxLab.open();
    if (state === "released") {
      const former = lab.start();
      await former.until("it leads", ({ leading }) => leading);
      expect(await former.stop()).toBe(0);
      expect(lab.lease()).toMatchObject({ holderIdentity: "" });
    }
    lab.api.requests.reset();
    const list = { verb: /^(list|watch)$/u, resource: "nodes" };
    lab.api.faults.add({ match: list, effect: "hang", times: 1_000 });
    const host = lab.start();
    await host.until("it leads", ({ leading }) => leading);
    // What its caches wait for is decided when it begins to lead.
    await Bun.sleep(1_000);
    expect(lab.api.requests.count(list)).toBe(1);
    await host.stop();
  },
);

test("a SIGHUP that arrives while a host starts does not end it, and requests a reload once it runs", async () => {
  await using lab = await SandboxLab.open();
  const flag = await lab.plugin(
    "early",
    `import { defineController } from "cloud-controller-host/sdk";
    process.kill(process.pid, "SIGHUP");
    await Bun.sleep(10);
    export default defineController({ name: "early", construct: () => () => ({ run: (signal) => new Promise((end) => signal.addEventListener("abort", end)) }) });`,
  );
  const host = lab.start({ flags: [flag] });
  await Promise.race([host.until("it leads", ({ running }) => running), host.ended()]);
  await host.eventually("the reload was requested", () => host.stderr.includes("SIGHUP"));
  expect(await host.stop()).toBe(0);
});

test.each([
  ["SIGTERM", 143],
  ["SIGINT", 130],
] as const)(
  "a %s that arrives while a host starts ends it at once, with its files, also as the first process of a container",
  async (signal, status) => {
    await using lab = await SandboxLab.open();
    const name = signal.toLowerCase();
    const flag = await lab.plugin(
      name,
      `import { defineController } from "cloud-controller-host/sdk";
       process.kill(process.pid, "${signal}");
       await Bun.sleep(60_000);
       export default defineController({ name: "${name}", construct: () => () => ({ run: async () => {} }) });`,
    );
    await using temporary = await mkdtempDisposable(join(tmpdir(), "starting-"));
    const host = Bun.spawn([process.execPath, main, ...lab.flags([flag])], {
      env: { PATH: process.env["PATH"], HOME: process.env["HOME"], TMPDIR: temporary.path },
      stdout: "ignore",
      stderr: "ignore",
      timeout: 50_000,
      killSignal: "SIGKILL",
    });
    expect([await host.exited, host.signalCode]).toEqual([status, null]);
    expect(await readdir(temporary.path)).toEqual([]);
  },
);

test("no bundled plugin imports from outside its folder: Bun would call back for each relative import of the Azure SDK", async () => {
  const folder = join(import.meta.dir, "..", "..", "plugins");
  const leaving: string[] = [];
  const files = [...new Bun.Glob("*/**/*.{ts,md,json}").scanSync({ cwd: folder })];
  expect(files).toContain("azure-cloud/tsconfig.json");
  for (const path of files) {
    const [, ...inside] = path.split("/");
    if (leavesFolder(inside.join("/"), Buffer.from(await Bun.file(join(folder, path)).bytes()))) leaving.push(path);
  }
  expect(leaving).toEqual([]);
});

/** Runs the host's command line from another working folder, as a user may: without bunfig.toml and without flags of Bun. */
async function runElsewhere(
  folder: string,
  argv: readonly string[],
  environment: Readonly<Record<string, string>> = {},
) {
  const env = { PATH: process.env["PATH"], HOME: folder, ...environment };
  const child = Bun.spawn([process.execPath, main, ...argv], { cwd: folder, env, stdout: "pipe", stderr: "pipe" });
  const [stdout, stderr, status] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { stdout, stderr, status };
}

async function writeFiles(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await Bun.write(join(folder, path), text);
  }
}

test.each([
  ["the plugin", { "plugins/needy/plugin.ts": 'import "left-pad";' }],
  [
    "a file outside of its folder",
    { "plugins/needy/plugin.ts": 'import "../../a.ts";', "a.ts": 'import "./b.ts";', "b.ts": 'import "left-pad";' },
  ],
])(
  "a package that %s imports and that is not installed is never downloaded, wherever the host is started",
  async (_, files) => {
    await using folder = await mkdtempDisposable(join(tmpdir(), "elsewhere-"));
    await writeFiles(folder.path, files);
    const requests: string[] = [];
    using registry = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch(request) {
        requests.push(new URL(request.url).pathname);
        return new Response("not found", { status: 404 });
      },
    });
    const strict = [`--plugin-dir=${join(folder.path, "plugins")}`, "--plugin-failure-policy=exit"];
    const ended = await runElsewhere(folder.path, strict, { BUN_CONFIG_REGISTRY: registry.url.href });
    expect(requests).toEqual([]);
    expect(ended.status).toBe(1);
    expect(ended.stderr).toMatch(/needy\/plugin\.ts cannot be imported: .*left-pad/u);
  },
);

test.each([[["--help"]], [["help"]], [["--version"]]])(
  "%p ends within the limit of a plugin's import that hangs, and names the plugin",
  async (argv) => {
    await using folder = await mkdtempDisposable(join(tmpdir(), "hanging-"));
    const source = "await new Promise(() => {});";
    await writeFiles(folder.path, { "plugins/stuck/plugin.ts": source });
    const [command = "", ...more] = argv;
    const began = performance.now();
    const flags = [`--plugin-dir=${join(folder.path, "plugins")}`, "--plugin-init-timeout=3s"];
    const { stdout, stderr, status } = await runElsewhere(folder.path, [command, ...more, ...flags]);
    // The bundled plugins load within the same limit each.
    expect(performance.now() - began).toBeLessThan(60_000);
    expect([status, stderr]).toEqual([
      0,
      `Warning: left out: plugin ${join(folder.path, "plugins/stuck/plugin.ts")} cannot be imported: import of ${join(folder.path, "plugins/stuck/plugin.ts")} did not return within 3 s (--plugin-init-timeout)\n`,
    ]);
    expect(stdout).toMatch(/leader-elect|v\d+\.\d+\.\d+/u);
  },
);
