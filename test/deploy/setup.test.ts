import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { cp, mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { describeUnlessMissing } from "./needs.ts";

setDefaultTimeout(120_000);

const root = join(import.meta.dir, "../..");
const main = `${process.execPath} --no-install ${join(root, "host/main.ts")}`;
let folder = "";
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), "setup-"))));
afterAll(() => rm(folder, { recursive: true, force: true }));

interface Outcome {
  readonly status: number;
  readonly text: string;
}

async function run(command: readonly string[], environment: Readonly<Record<string, string>> = {}): Promise<Outcome> {
  const child = Bun.spawn([...command], { env: { ...process.env, ...environment }, stdout: "pipe", stderr: "pipe" });
  const [stdout, stderr, status] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { status, text: stdout + stderr };
}

/** The part of a clone that an installation needs. */
async function project(name: string): Promise<string> {
  const copy = join(folder, name);
  for (const file of ["package.json", "bun.lock", "deploy/setup.ts"]) await cp(join(root, file), join(copy, file));
  return copy;
}

describe("bun run setup", () => {
  test("prints nothing when all packages are installed", async () => {
    expect(await run([process.execPath, "deploy/setup.ts"])).toEqual({ status: 0, text: "" });
  });

  test("names the registry, the folder and the cause when the network is missing", async () => {
    const copy = await project("offline");
    const registry = "http://127.0.0.1:9/";
    const environment = { BUN_CONFIG_REGISTRY: registry, BUN_INSTALL_CACHE_DIR: join(folder, "empty-cache") };
    const { status, text } = await run([process.execPath, join(copy, "deploy/setup.ts")], environment);
    expect(status).toBe(1);
    expect(text).toMatch(/ConnectionRefused downloading .* \(and \d+ more\)\n$/u);
    expect(text).toContain(`Error: cannot install packages from ${registry} into ${join(copy, "node_modules")}: `);
  });
});

const noMounts =
  process.platform === "linux" && process.getuid?.() === 0 && Bun.which("unshare") !== null
    ? undefined
    : "a small file system needs root on Linux";

/** Runs a command line where `small` is a file system that is full or read-only. */
async function within(small: string, state: "full" | "ro", command: string): Promise<Outcome> {
  await mkdir(small, { recursive: true });
  const fill = state === "full" ? "dd if=/dev/zero of=fill bs=1k count=256 2>/dev/null || true" : "true";
  const mode = state === "ro" ? `mount -o remount,ro ${small}` : "true";
  const script = `mount -t tmpfs -o size=64k tmpfs ${small}; cd ${small}; ${fill}; ${mode}; cd ${small}; ${command}`;
  return run(["unshare", "--mount", "sh", "-c", script]);
}

describeUnlessMissing(noMounts, "on a disk that is full or read-only", () => {
  test.each([
    ["full", "sandbox --check --directory=DIR/sandbox", "no space left on device", "DIR/sandbox"],
    ["ro", "sandbox --check --directory=DIR/sandbox", "EROFS", "DIR/sandbox"],
    ["full", "new controller my-controller", "no space left on device", "DIR/my-controller"],
    ["ro", "new controller my-controller", "EROFS", "DIR/my-controller"],
  ] as const)(
    "(%s) `%s` fails with one line that names the cause and the folder",
    async (state, args, cause, where) => {
      const small = join(folder, "small");
      const { status, text } = await within(small, state, `${main} ${args.replace("DIR", small)}`);
      expect(status).toBe(1);
      expect(text.trim().split("\n")).toEqual([expect.stringContaining(cause)]);
      expect(text).toContain(where.replace("DIR", small));
    },
  );

  test("(full) `new` leaves no folder behind that the next attempt would refuse", async () => {
    const command = `${main} new controller my-controller; ls`;
    const { text } = await within(join(folder, "small"), "full", command);
    expect(text).not.toMatch(/^my-controller$/mu);
  });

  test("(ro) the installation names the folder that it cannot write", async () => {
    const copy = await project("read-only");
    const script = `mount --bind ${copy} ${copy}; mount -o remount,ro,bind ${copy}; ${process.execPath} ${copy}/deploy/setup.ts`;
    const { status, text } = await run(["unshare", "--mount", "sh", "-c", script]);
    expect([status, text]).toEqual([1, expect.stringContaining(`into ${copy}/node_modules: EROFS`)]);
    expect(await readdir(copy)).not.toContain("node_modules");
  });
});
