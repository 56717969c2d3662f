import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { appendFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { eventually } from "cloud-controller-host/sdk/testing";

setDefaultTimeout(180_000);

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
  const steps: { readonly step: string; readonly isCommand: boolean; readonly seconds: number }[] = [];
  const timed = async <T>(step: string, isCommand: boolean, work: () => Promise<T>): Promise<T> => {
    const began = performance.now();
    const result = await work();
    steps.push({ step, isCommand, seconds: (performance.now() - began) / 1000 });
    return result;
  };
  const command = (step: string, cwd: string, ...argv: readonly string[]): Promise<Outcome> =>
    timed(step, true, () => run(cwd, ...argv));

  expect(await command("bun add PACKAGE", home, bun, "add", tarball)).toEqual(succeeded());
  const created = await command("cloud-controller-host new", home, bin, "new", "controller", "greeter-controller");
  expect(created).toEqual(succeeded("Created"));
  expect(await command("bun test", plugin, bun, "test")).toEqual(succeeded(/\b0 fail\b/u));

  const screen: string[] = [];
  const log = join(home, ".sandbox/host.log");
  const hasLogged = (text: string) => async () => (await readFile(log, "utf8")).includes(text);
  const sandbox = Bun.spawn([bin, "sandbox", "--", "--plugin-dir=."], {
    cwd: home,
    terminal: { cols: 200, rows: 50, data: (_terminal, bytes) => void screen.push(Buffer.from(bytes).toString()) },
  });
  try {
    await timed("cloud-controller-host sandbox", true, async () => {
      await eventually("the sandbox is up", () => screen.join("").includes("Changes:"), 60_000);
      await eventually("the plugin works", hasLogged("Annotated node"), 30_000);
    });
    const source = join(plugin, "plugin.ts");
    const changed = (await readFile(source, "utf8"))
      .replaceAll('"seen"', '"swapped"')
      .replace("Annotated node", "Swapped node");
    await timed("save plugin.ts and press r", false, async () => {
      await writeFile(source, changed);
      sandbox.terminal?.write("r");
      await eventually("the change works", hasLogged("Swapped node"), 30_000);
    });
    await eventually("the screen reports it", () => screen.join("").includes("Generation 2 runs"), 30_000);
    sandbox.terminal?.write("q");
    expect(await sandbox.exited).toBe(0);
  } finally {
    sandbox.kill("SIGKILL");
    await sandbox.exited;
  }
  process.stdout.write(steps.map(({ step, seconds }) => `${seconds.toFixed(1).padStart(6)} s  ${step}\n`).join(""));
  expect(steps.filter(({ isCommand }) => isCommand).length).toBeLessThan(5);
});

describe("installed with npm", () => {
  test("a new cloud type-checks, passes its test and finds type errors", async () => {
    const home = join(folder, "npm");
    await mkdir(home);
    await writeFile(join(home, "package.json"), "{}");
    expect(await run(home, "npm", "install", "--no-audit", "--no-fund", tarball)).toEqual(succeeded());
    const bin = join(home, "node_modules/.bin/cloud-controller-host");
    for (const kind of ["controller", "cloud", "webhook"] as const) {
      expect(await run(home, bin, "new", kind, `my-${kind}`)).toEqual(succeeded("Created"));
      const plugin = join(home, `my-${kind}`);
      expect(await run(plugin, bun, "check", "--no-script")).toEqual(succeeded("No type errors"));
    }
    const cloud = join(home, "my-cloud");
    expect(await run(cloud, bun, "test")).toEqual(succeeded(/\b0 fail\b/u));
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
