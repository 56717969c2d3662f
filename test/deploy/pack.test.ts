import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { appendFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { eventually } from "cloud-controller-host/sdk/testing";

import { Shell } from "./shell.ts";

setDefaultTimeout(600_000);

const root = join(import.meta.dir, "../..");
let folder = "";
let tarball = "";

interface Outcome {
  readonly status: number;
  readonly text: string;
}

async function run(cwd: string, ...command: readonly string[]): Promise<Outcome> {
  const child = Bun.spawn([...command], { cwd, stdout: "pipe", stderr: "pipe" });
  const [stdout, stderr, status] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { status, text: stdout + stderr };
}

const succeeded = (text: string | RegExp = "") => ({ status: 0, text: expect.stringMatching(text) });
const bun = process.execPath;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "pack-"));
  expect(await run(root, bun, "deploy/pack.ts", folder)).toEqual(succeeded(".tgz"));
  const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  tarball = join(folder, `cloud-controller-host-${version}.tgz`);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

test("the package holds sources, declarations and an executable, and no tests", async () => {
  const listing = await run(folder, "tar", "tzf", tarball);
  const names = listing.text.trim().split("\n");
  expect(
    names.filter((name) => !/^package\/((sdk|host|plugins|types)\/|package\.json|README\.md|LICENSE)/u.test(name)),
  ).toEqual([]);
  expect(names.filter((name) => /\.test\.|\.sandbox|\.git\//u.test(name))).toEqual([]);
  expect(names).toContain("package/types/sdk/index.d.ts");
});

test("four commands take an author from an empty folder to a tested, running, hot-swapped plugin", async () => {
  const home = join(folder, "author");
  await mkdir(home);
  await writeFile(join(home, "package.json"), "{}");
  const bin = join(home, "node_modules/.bin/cloud-controller-host");
  const plugin = join(home, "greeter-controller");

  expect(await run(home, bun, "add", tarball)).toEqual(succeeded());
  expect(await run(home, bin, "new", "controller", "greeter-controller")).toEqual(succeeded("Created"));
  expect(await run(plugin, bun, "test")).toEqual(succeeded(/\b0 fail\b/u));

  const screen: string[] = [];
  const log = join(home, ".sandbox/host.log");
  const hasLogged = (text: string) => async () => (await readFile(log, "utf8")).includes(text);
  const sandbox = Bun.spawn([bin, "sandbox", "--", "--plugin-dir=."], {
    cwd: home,
    terminal: { cols: 200, rows: 50, data: (_terminal, bytes) => void screen.push(Buffer.from(bytes).toString()) },
  });
  try {
    await eventually("the sandbox is up", () => screen.join("").includes("Changes:"), 60_000);
    await eventually("the plugin works", hasLogged("Annotated node"), 30_000);
    const source = join(plugin, "plugin.ts");
    const changed = (await readFile(source, "utf8"))
      .replaceAll('"seen"', '"swapped"')
      .replace("Annotated node", "Swapped node");
    await writeFile(source, changed);
    sandbox.terminal?.write("r");
    await eventually("the change works", hasLogged("Swapped node"), 30_000);
    await eventually("the screen reports it", () => screen.join("").includes("Generation 2 runs"), 30_000);
    sandbox.terminal?.write("q");
    expect(await sandbox.exited).toBe(0);
  } finally {
    sandbox.kill("SIGKILL");
    await sandbox.exited;
  }
});

describe("installed with npm", () => {
  let home = "";
  let bin = "";

  beforeAll(async () => {
    home = join(folder, "npm");
    bin = join(home, "node_modules/.bin/cloud-controller-host");
    await mkdir(home);
    await writeFile(join(home, "package.json"), "{}");
    expect(await run(home, "npm", "install", "--no-audit", "--no-fund", tarball)).toEqual(succeeded());
    // The printed steps call bun by its name.
    await mkdir(join(home, "bin"));
    await symlink(bun, join(home, "bin/bun"));
  });

  test.each([
    ["controller", 'my-controller] "Starting controller"'],
    ["cloud", "Successfully initialized node with cloud provider"],
    ["webhook", "Serving admission webhooks"],
  ])("the steps that `new %s` prints type-check, test and run the plugin", async (kind, logged) => {
    const { text } = await run(home, bin, "new", kind, `my-${kind}`);
    const steps = [...text.matchAll(/^ {2}(\S.*)$/gmu)].map(([, step = ""]) => step);
    expect(steps).not.toContain("bun install");
    await using shell = new Shell(home, { PATH: `${join(home, "bin")}:${process.env["PATH"]}` });
    const sandbox = steps.pop() ?? "";
    for (const step of steps) expect([step, await shell.run(step), shell.screen]).toEqual([step, 0, expect.anything()]);
    shell.type(sandbox);
    await shell.shows("Changes:");
    const log = join(home, `my-${kind}/.sandbox/host.log`);
    await eventually(logged, async () => (await readFile(log, "utf8")).includes(logged), 60_000);
    shell.type("q");
    await shell.shows("$ ");
  });

  test("a type error is found, and a folder with content is not written to", async () => {
    const cloud = join(home, "my-cloud");
    await appendFile(join(cloud, "plugin.ts"), "export const wrong: Cloud = { name: 1 };\n");
    expect((await run(cloud, bun, "check", "--no-script")).text).toContain("error TS");
    expect((await run(home, bin, "new", "cloud", "my-cloud")).text).toContain("is not empty");
  });
});

test("an import that is not installed is an error and is not downloaded", async () => {
  const plugins = join(folder, "missing");
  await mkdir(join(plugins, "needy"), { recursive: true });
  await writeFile(join(plugins, "needy/plugin.ts"), 'import leftPad from "left-pad";\nexport default leftPad;\n');
  const strict = "--plugin-failure-policy=exit";
  const outcome = await run(folder, join(root, "host/main.ts"), `--plugin-dir=${plugins}`, strict);
  expect(outcome.status).toBe(1);
  expect(outcome.text).toContain("needy");
  expect(outcome.text).toContain("left-pad");
});
