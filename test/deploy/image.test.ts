import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import packageFile from "../../package.json" with { type: "json" };
import { Container, type ContainerOptions, noContainers } from "./container.ts";
import { assembleImage, type Image, imageTimeoutMs } from "./image.ts";
import { describeUnlessMissing } from "./needs.ts";

setDefaultTimeout(120_000);

const revision = "0123456789abcdef0123456789abcdef01234567";
const megabyte = 1 << 20;

let image: Image;
let folder = "";
beforeAll(async () => {
  image = await assembleImage({ REVISION: revision });
  folder = await mkdtemp(join(tmpdir(), "image-test-"));
}, imageTimeoutMs);
afterAll(async () => {
  await image[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

const filesIn = (root: string): readonly string[] => [...new Bun.Glob("**/*").scanSync({ cwd: root, dot: true })];

describe("the image", () => {
  test("runs as user 65532, names its version and revision, and starts the sources without installing anything", () => {
    const { config } = image;
    expect(config.user).toBe("65532:65532");
    expect(config.ports).toEqual(["10258"]);
    expect(config.labels.get("org.opencontainers.image.version")).toBe(packageFile.version);
    expect(config.labels.get("org.opencontainers.image.revision")).toBe(revision);
    const options = ["--no-install", "--no-env-file", "--config=/dev/null"];
    expect(config.entrypoint).toEqual(["/usr/local/bin/bun", ...options, "/app/host/main.ts"]);
  });

  test("contains the runtime folders and nothing else", () => {
    const files = filesIn(join(image.root, "app"));
    const tops = new Set(files.map((file) => file.split("/")[0] ?? ""));
    expect([...tops].toSorted()).toEqual(["LICENSE", "host", "node_modules", "package.json", "plugins", "sdk"]);
    const own = files.filter((file) => !file.startsWith("node_modules/"));
    expect(own.filter((file) => /\.test\.ts$|tsconfig\.json$|(^|\/)\.[a-z]/.test(file))).toEqual([]);
    expect(own).toContain("host/console/page.js");
    expect(files.filter((file) => /\.(d\.[cm]?ts|bare)$/.test(file))).toEqual([]);
    expect(files.filter((file) => file.endsWith(".map") && file.startsWith("node_modules/"))).toEqual([]);
    expect(own.filter((file) => /sandbox|simulator|testing|templates|\/new\.ts/.test(file))).toEqual([]);
  });

  test("keeps the license of every package that has one", async () => {
    const packages = filesIn(join(image.root, "app", "node_modules"));
    const licenses = (paths: readonly string[]): readonly string[] =>
      paths.filter((path) => /(^|\/)(licen[sc]e|copying|notice)[^/]*$/i.test(path) && !/\.(js|ts|map)$/.test(path));
    const shipped = new Set(packages.map((path) => dirname(path)));
    const installed = filesIn(join(import.meta.dir, "..", "..", "node_modules"));
    const expected = licenses(installed).filter((path) => shipped.has(dirname(path)));
    expect(expected.length).toBeGreaterThan(150);
    expect(expected.filter((path) => !packages.includes(path))).toEqual([]);
  });

  test("has every dependency in its version, and none that is for development", () => {
    const versionOf = (name: string): string | undefined => {
      const path = join(image.root, "app", "node_modules", name, "package.json");
      if (!existsSync(path)) return undefined;
      const { version }: { readonly version: string } = JSON.parse(readFileSync(path, "utf8"));
      return version;
    };
    for (const [name, version] of Object.entries(packageFile.dependencies))
      expect([name, versionOf(name)]).toEqual([name, version]);
    for (const name of [...Object.keys(packageFile.devDependencies), "@azure/msal-browser"])
      expect([name, versionOf(name)]).toEqual([name, undefined]);
  });

  test("has the packages that every start loads as one file each", async () => {
    const script = `
      const packages = ["@azure/arm-compute", "@azure/arm-network", "@azure/core-rest-pipeline", "@azure/identity",
        "@sinclair/typebox", "@sinclair/typebox/value", "elysia", "prom-client", "reflect-metadata", "yaml", "@peculiar/x509"];
      for (const name of packages) await import(name);
      console.log(Object.keys(require.cache).filter((path) => path.includes("/node_modules/")).length);`;
    const command = [process.execPath, "--no-install", "-e", script];
    const child = Bun.spawn(command, { cwd: join(image.root, "app"), stdout: "pipe" });
    // As published they are 1,500.
    expect(Number(await child.stdout.text())).toBeWithin(20, 150);
  });

  test("has the reader of protobuf as one file", async () => {
    const script = `
      await import("protobufjs/minimal");
      console.log(Object.keys(require.cache).filter((path) => path.includes("/node_modules/")).length);`;
    const command = [process.execPath, "--no-install", "-e", script];
    const child = Bun.spawn(command, { cwd: join(image.root, "app"), stdout: "pipe" });
    // As published they are 18.
    expect(Number(await child.stdout.text())).toBe(1);
  });

  test("has the host as one file with what it imports on demand, and so each plugin", () => {
    const entries = ["host/cli/shown-plan.ts", "host/main.ts", "host/process/profiling/heap-worker.ts"];
    const files = ["host", "plugins", "sdk"].flatMap((top) =>
      filesIn(join(image.root, "app", top))
        .filter((file) => file.endsWith(".ts") && !file.includes("chunk-"))
        .map((file) => `${top}/${file}`),
    );
    const plugins = ["azure-cloud", "azure-node-ipam", "cloud-node", "lifecycle", "route", "service-lb"];
    expect(files.toSorted()).toEqual([
      ...entries,
      "host/process/serving/self-signed-thread.ts",
      "host/process/watchdog/worker.ts",
      ...plugins.map((name) => `plugins/${name}/plugin.ts`),
      "sdk/index.ts",
    ]);
  });

  test("shows the files and lines of the repository in a stack trace", async () => {
    const script = `
      const { forEachConcurrently } = await import("./sdk/index.ts");
      await forEachConcurrently({ workers: 1 }, [1], async () => { throw new Error("no"); }).catch(({ stack }) => console.log(stack));`;
    const child = Bun.spawn([process.execPath, "--no-install", "-e", script], {
      cwd: join(image.root, "app"),
      stdout: "pipe",
    });
    const [, line = "0"] = /\/app\/sdk\/loops\.ts:(\d+):/.exec(await child.stdout.text()) ?? [];
    const source = readFileSync(join(import.meta.dir, "..", "..", "sdk", "loops.ts"), "utf8").split("\n");
    expect(source[Number(line) - 1]).toMatch(/await/);
  });

  test("has of the clients of ARM the operations that the cloud uses", async () => {
    const used = {
      compute: ["availabilitySets", "virtualMachineScaleSetVMs", "virtualMachineScaleSets", "virtualMachines"],
      network: [
        "loadBalancers",
        "networkInterfaces",
        "networkSecurityGroups",
        "privateLinkServices",
        "publicIPAddresses",
        "routeTables",
        "subnets",
      ],
    };
    const script = `
      const { ComputeManagementClient } = await import("@azure/arm-compute");
      const { NetworkManagementClient } = await import("@azure/arm-network");
      const clients = { compute: new ComputeManagementClient({}, "s"), network: new NetworkManagementClient({}, "s") };
      const namesOf = (client) => Object.keys(client).filter((name) => client[name] !== undefined);
      const lists = Object.entries(clients).map(([name, client]) => [name, namesOf(client)]);
      console.log(JSON.stringify(Object.fromEntries(lists)));`;
    const child = Bun.spawn([process.execPath, "--no-install", "-e", script], {
      cwd: join(image.root, "app"),
      stdout: "pipe",
    });
    const found: Readonly<Record<string, readonly string[]>> = JSON.parse(await child.stdout.text());
    expect(found["compute"]).toEqual(expect.arrayContaining(used.compute));
    expect(found["network"]).toEqual(expect.arrayContaining(used.network));
    expect(found["network"]).not.toContain("applicationGateways");
    expect(found["compute"]).not.toContain("galleries");
  });

  test("is built in its own folder alone, so that several can be assembled side by side", async () => {
    const containerfile = await readFile(join(import.meta.dir, "..", "..", "deploy", "Containerfile"), "utf8");
    const commands = containerfile.split(/^(?=[A-Z]+ )/mu).filter((instruction) => instruction.startsWith("RUN "));
    expect(commands.length).toBeGreaterThan(2);
    expect(commands.filter((command) => /[\s"'=](?:\/|~|\$HOME|\$TMPDIR)/u.test(command))).toEqual([]);
  });

  test("raises Bun's limit on requests in flight", () => {
    expect(image.config.environment.get("BUN_CONFIG_MAX_HTTP_REQUESTS")).toBe("4096");
  });

  test("limits how far the heap may grow between collections", () => {
    expect(image.config.environment.get("BUN_JSC_forceRAMSize")).toBe(String(192 * 1024 ** 2));
  });

  test("collects garbage because of allocation, not each second at rest", () => {
    expect(image.config.environment.get("BUN_GC_TIMER_INTERVAL")).toBe("20000");
  });

  test("searches for unused pages once in two seconds, not several times in each", () => {
    expect(image.config.environment.get("MIMALLOC_PURGE_HOLES_MIN_INTERVAL")).toBe("2000");
  });

  test("optimizes code that runs often, not what a start runs a few times", () => {
    const { environment } = image.config;
    expect(environment.get("BUN_JSC_useFTLJIT")).toBe("0");
    expect(environment.get("BUN_JSC_thresholdForOptimizeAfterWarmUp")).toBe("10000");
    expect(environment.get("BUN_JSC_thresholdForOptimizeAfterLongWarmUp")).toBe("10000");
  });

  test("contains no development dependency and no install script of a package", () => {
    const packages = filesIn(join(image.root, "app", "node_modules"));
    for (const name of Object.keys(packageFile.devDependencies))
      expect(packages.filter((file) => file.startsWith(`${name}/`))).toEqual([]);
    expect(packages.filter((file) => file.endsWith(".node"))).toEqual([]);
  });

  test("adds less than 70 MB to its base", () => {
    const sizes = filesIn(join(image.root, "app")).map((file) => Bun.file(join(image.root, "app", file)).size);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(70 * megabyte);
  });
});

interface Ran {
  readonly status: number;
  readonly output: string;
}

/** Runs the image to its end. */
async function run(change: Partial<ContainerOptions>): Promise<Ran> {
  await using container = await Container.start({
    name: "image-test",
    folder,
    image,
    args: [],
    environment: new Map(),
    user: 65532,
    group: 65532,
    mounts: [],
    port: 0,
    ...change,
  });
  return { status: await container.ended(), output: container.output };
}

const withEntrypoint = (...entrypoint: string[]): Pick<ContainerOptions, "image"> => ({
  image: { root: image.root, config: { ...image.config, entrypoint } },
});

describeUnlessMissing(noContainers, "in a container with a read-only root, the image", () => {
  test("prints its version and its flags without warnings", async () => {
    expect(await run({ args: ["--version"] })).toEqual({
      status: 0,
      output: `cloud-controller-host v${packageFile.version}\n`,
    });
    const help = await run({ args: ["--help"] });
    expect(help.status).toBe(0);
    expect(help.output).toContain("Available: azure.");
  });

  test("rejects development commands with a message", async () => {
    for (const command of ["sandbox", "new"])
      expect(await run({ args: [command] })).toEqual({
        status: 1,
        output: `Error: ${command}: the image does not have this command; run it from a clone\n`,
      });
  });

  test("has the commands to run before an installation: version, check-config, check-credentials, rbac, plugins", async () => {
    const config = join(folder, "azure.json");
    await writeFile(config, JSON.stringify({ tenantId: "t", vmType: "vm" }));
    const mounts = [{ source: config, target: "/azure.json" }];
    expect(await run({ args: ["version"] })).toEqual({
      status: 0,
      output: `cloud-controller-host v${packageFile.version}\n`,
    });
    for (const command of ["check-config", "check-credentials"]) {
      const { status, output } = await run({ args: [command, "--cloud-config=/azure.json"], mounts });
      expect([command, status, output]).toEqual([command, 1, expect.stringContaining("subscriptionId is required")]);
    }
    const roles = await run({ args: ["rbac", "--controllers=cloud-node"] });
    expect([roles.status, roles.output]).toEqual([0, expect.stringContaining("kind: ClusterRoleBinding")]);
    expect((await run({ args: ["plugins", "list"] })).output).toContain("service-lb ");
    expect((await run({ args: ["help", "rbac"] })).output).toContain("Usage: cloud-controller-host rbac");
    expect((await run({ args: ["help", "sandbox"] })).output).toContain("the image does not have this command");
  });

  test("runs as an unprivileged user without capabilities, as PID 1, and cannot write anywhere", async () => {
    const script = `
      const { appendFileSync, readFileSync } = require("node:fs");
      const status = readFileSync("/proc/self/status", "utf8");
      const field = (name) => status.match(new RegExp("^" + name + ":\\\\s*(.*)$", "m"))[1];
      const refusals = ["/app/x", "/tmp/x", "/dev/x", "/app/host/main.ts", "/etc/passwd"].map((path) => {
        try { appendFileSync(path, "x"); return path; } catch { return "refused"; }
      });
      console.log(JSON.stringify({
        pid: process.pid, uid: process.getuid(), gid: process.getgid(), cwd: process.cwd(),
        effective: field("CapEff"), permitted: field("CapPrm"), noNewPrivileges: field("NoNewPrivs"), refusals,
      }));`;
    const { output } = await run({ ...withEntrypoint("/usr/local/bin/bun", "-e"), args: [script] });
    const nothing = "0000000000000000";
    expect(JSON.parse(output)).toEqual({
      pid: 1,
      uid: 65532,
      gid: 65532,
      cwd: "/app",
      effective: nothing,
      permitted: nothing,
      noNewPrivileges: "1",
      refusals: Array(5).fill("refused"),
    });
  });

  test("can import every module and every package that it contains", async () => {
    const script = `
      const modules = [...new Bun.Glob("{host,plugins,sdk}/**/*.ts").scanSync({ cwd: "/app" })]
        .filter((module) => !module.endsWith("/worker.ts"));
      const packages = Object.keys(require("/app/package.json").dependencies);
      await import("reflect-metadata");
      const failed = [];
      for (const name of [...modules.map((module) => "/app/" + module), ...packages])
        if (name !== "/app/host/main.ts")
          await import(name).catch((error) => failed.push(name + ": " + error.message));
      console.log(JSON.stringify({ count: modules.length, failed }));
      process.exit(0);`;
    const { output } = await run({ ...withEntrypoint("/usr/local/bin/bun", "--no-install", "-e"), args: [script] });
    const { count, failed } = JSON.parse(output.trim().split("\n").at(-1) ?? "");
    expect(failed).toEqual([]);
    expect(count).toBeGreaterThan(20);
  });

  test("never looks a missing package up in a registry", async () => {
    const plugin = join(folder, "plugins", "lost");
    await mkdir(plugin, { recursive: true });
    await writeFile(join(plugin, "plugin.ts"), 'import "is-odd"; export default {};');
    const mounts = [{ source: join(folder, "plugins"), target: "/plugins" }];
    const { status, output } = await run({
      args: [
        "--plugin-dir=/plugins",
        "--cloud-config=/x",
        "--configure-cloud-routes=false",
        "--plugin-failure-policy=exit",
      ],
      mounts,
    });
    expect(status).toBe(1);
    expect(output).toContain("plugin /plugins/lost/plugin.ts cannot be imported: Cannot find package 'is-odd'");
  });
});
