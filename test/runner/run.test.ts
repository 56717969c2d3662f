import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, rm, statfs } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { compilation } from "../kit/compilation.ts";
import { hostMainVariable } from "../kit/host-main.ts";
import { measuringFiles } from "./measuring-files.ts";
import { waitingFiles } from "./waiting-files.ts";

/** Fails the first time that it runs. */
const flaky = `test("flaky", async () => {
  const marker = Bun.file("marker");
  const isFirst = !(await marker.exists());
  await marker.write("");
  expect(isFirst).toBe(false);
});`;
/** Leaves folders and a file, and notes where. */
const leaving = `test("leaves", async () => {
  const { mkdtempSync, writeFileSync } = await import("node:fs");
  const { tmpdir } = await import("node:os");
  for (const _ of [1, 2]) mkdtempSync(tmpdir() + "/left-behind-");
  writeFileSync(tmpdir() + "/left.txt", "");
  await Bun.write("seen", tmpdir());
});`;
const failing = `test("fails", () => expect(1).toBe(2));`;
const passing = `test("passes", () => {});`;

/** This process may itself be one that the runner has started. */
const withoutSettings = Object.fromEntries(Object.entries(process.env).filter(([name]) => !(name in compilation)));

/** What the runner prints, and its status, for files with these contents by name; in a list, 0.test.ts and so on. */
async function run(
  contents: readonly string[] | Readonly<Record<string, string>>,
  args: readonly string[] = [],
  look: (folder: string) => Promise<unknown> = () => Promise.resolve(),
  // No host is needed, and none is bundled when there is one.
  hostMain: Readonly<Record<string, string | undefined>> = { [hostMainVariable]: "none" },
): Promise<readonly string[]> {
  const folder = await mkdtemp(join(tmpdir(), "run-test-"));
  try {
    for (const [name, content] of Object.entries(contents))
      await Bun.write(join(folder, `${name}.test.ts`), `import { expect, test } from "bun:test";\n${content}`);
    const child = Bun.spawn([process.execPath, join(import.meta.dir, "../run.ts"), ...args], {
      cwd: folder,
      // No control plane is needed, and looking for one here ends at once.
      env: { ...withoutSettings, ...hostMain, KUBEBUILDER_ASSETS: join(folder, "none"), TMPDIR: tmpdir() },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "ignore",
    });
    const [printed, exitCode] = await Promise.all([child.stdout.text(), child.exited]);
    await look(folder);
    return [...printed.trimEnd().split("\n"), `exit ${exitCode}`];
  } finally {
    await rm(folder, { recursive: true });
  }
}

test("the files that measure and those that wait are there, and none is both", () => {
  const root = join(import.meta.dir, "../..");
  const all = [...measuringFiles, ...waitingFiles];
  expect(all.filter((file) => !existsSync(join(root, file)))).toEqual([]);
  expect(new Set(all).size).toBe(all.length);
});

test("files that wait run one after another beside all others, and their failures count as theirs", async () => {
  const meet = (own: string, other: string): string => `test("meets", async () => {
    await Bun.write("${own}", "");
    while (!(await Bun.file("${other}").exists())) await Bun.sleep(10);
  });`;
  const alone = `test("alone", async () => {
    const { mkdirSync, rmdirSync } = await import("node:fs");
    mkdirSync("running");
    await Bun.sleep(300);
    rmdirSync("running");
  });`;
  const [first = "", second = ""] = waitingFiles.map((file) => file.replace(/\.test\.ts$/u, ""));
  const [one, other] = [meet("a", "b") + alone + failing, meet("c", "d") + alone];
  const lines = await run({ "0": meet("b", "a"), "1": meet("d", "c"), [first]: one, [second]: other });
  const repeated = lines.slice(lines.indexOf("failed beside other files, and run again alone:") + 1);
  // Another one would have run twice, or at the same time as the first one.
  expect(repeated.filter((line) => !line.startsWith("bun test "))).toEqual([
    `  ${first}.test.ts`,
    "6 passed, 1 failed",
    "exit 1",
  ]);
}, 120_000);

test("a file that measures runs once all others have ended, and its failures count and are repeated as theirs", async () => {
  const slow = `test("slow", async () => { await Bun.sleep(1_000); await Bun.write("ended", ""); });`;
  const measuring = `test("measures", async () => expect(await Bun.file("ended").exists()).toBe(true));`;
  const [first = "", second = ""] = measuringFiles.map((file) => file.replace(/\.test\.ts$/u, ""));
  const lines = await run({ "0": slow, "1": passing, [first]: measuring, [second]: flaky });
  expect(lines.slice(-4)).toEqual([
    "FLAKY: failed beside other files, and passed when run again alone:",
    `  ${second}.test.ts: flaky`,
    "4 passed, 0 failed",
    "exit 0",
  ]);
}, 120_000);

test("temporary files are in the folder that TMPDIR names, else in memory where there is room", async () => {
  const root = async (environment: Readonly<Record<string, string>>): Promise<string> => {
    const script = `const { temporaryRoot } = await import(process.argv[1]); console.log(await temporaryRoot());`;
    const { TMPDIR: _, ...rest } = process.env;
    const command = [process.execPath, "-e", script, join(import.meta.dir, "temporary-root.ts")];
    const child = Bun.spawn(command, { env: { ...rest, ...environment }, stdout: "pipe" });
    return (await child.stdout.text()).trim();
  };
  expect(await root({ TMPDIR: "/elsewhere" })).toBe("/elsewhere");
  const memory = await statfs("/dev/shm").catch(() => undefined);
  const hasRoom = memory !== undefined && memory.bavail * memory.bsize > 3 * 2 ** 30;
  if (hasRoom) expect(await root({})).toBe("/dev/shm");
});

test("a file that failed beside others runs again alone, and its test is named in the last lines", async () => {
  const lines = await run([passing, flaky]);
  expect(lines[lines.indexOf("failed beside other files, and run again alone:") + 1]).toBe("  1.test.ts");
  expect(lines.join("\n")).toMatch(/the costliest files.*\n +\d+\.\d +\d+\.\d {2}[01]\.test\.ts$/m);
  expect(lines.slice(-4)).toEqual([
    "FLAKY: failed beside other files, and passed when run again alone:",
    "  1.test.ts: flaky",
    "2 passed, 0 failed",
    "exit 0",
  ]);
}, 120_000);

test("the processor time of each file and of its children is reported, the costliest first", async () => {
  const busy = "const end = Date.now() + 60_000; while (process.cpuUsage().user < 5e5 && Date.now() < end);";
  const inChild = `test("child", async () => { await Bun.spawn([process.execPath, "-e", ${JSON.stringify(busy)}]).exited; });`;
  const lines = await run([passing, inChild, passing]);
  const rows = lines.slice(lines.findIndex((line) => line.startsWith("the costliest files")) + 1);
  const costs = rows.slice(0, 3).map((row) => Number(/^ +(\d+\.\d)/.exec(row)?.[1]));
  expect(rows[0]).toEndWith("1.test.ts");
  expect(costs[0]).toBeWithin(0.5, 10);
  expect(Math.max(costs[1] ?? NaN, costs[2] ?? NaN)).toBeLessThan(costs[0] ?? 0);
  expect(rows[3]).toMatch(/^ +\d+\.\d {2}all files$/);
}, 120_000);

test("test files and what they start compile only functions that run often", async () => {
  const child = `Bun.spawn([process.execPath, "-p", "JSON.stringify(process.env)"], { stdout: "pipe" }).stdout.json()`;
  const settings = `test("settings", async () => expect(await ${child}).toMatchObject(${JSON.stringify(compilation)}));`;
  expect((await run([settings, passing])).slice(-2)).toEqual(["2 passed, 0 failed", "exit 0"]);
}, 120_000);

test("hosts are bundled for a run of all files, and the bundle goes with it; a file that is named runs them from source", async () => {
  const seen: string[] = [];
  const noting = `test("notes", async () => {
    const main = process.env.${hostMainVariable} ?? "source";
    if (main !== "source") expect(await Bun.file(main).text()).toContain("//# sourceMappingURL=");
    await Bun.write("seen", main);
  });`;
  const look = async (folder: string): Promise<unknown> => seen.push(await Bun.file(join(folder, "seen")).text());
  for (const args of [[], ["./0.test.ts"]])
    expect((await run([noting], args, look, { [hostMainVariable]: undefined })).slice(-2)).toEqual([
      "1 passed, 0 failed",
      "exit 0",
    ]);
  const [bundled = "", named] = seen;
  expect([bundled.endsWith("/app/host/main.ts"), existsSync(bundled), named]).toEqual([true, false, "source"]);
}, 120_000);

test("a file that fails again has failed", async () => {
  const lines = await run([passing, failing]);
  expect(lines.slice(-2)).toEqual(["1 passed, 1 failed", "exit 1"]);
  expect(lines.join("\n")).not.toContain("FLAKY");
}, 120_000);

test("a file that was named on the command line runs only once", async () => {
  const lines = await run([passing, flaky], ["./1.test.ts"]);
  expect(lines.slice(-2)).toEqual(["0 passed, 1 failed", "exit 1"]);
  expect(lines.join("\n")).not.toContain("again");
}, 120_000);

test("what tests leave in the folder for temporary files is named, and goes with it", async () => {
  let temporary = "";
  const lines = await run([passing, leaving], [], async (folder) => {
    temporary = await Bun.file(join(folder, "seen")).text();
  });
  const at = lines.indexOf("left in the folder for temporary files:");
  expect(lines.slice(at + 1, at + 4)).toEqual(["  left-behind-* (2)", "  left.txt", ""]);
  expect(lines.slice(-2)).toEqual(["2 passed, 0 failed", "exit 0"]);
  expect(dirname(dirname(temporary))).toBe(tmpdir());
  expect(await readdir(dirname(temporary)).catch(() => "gone")).toBe("gone");
  expect(await run([passing])).not.toContain("left in the folder for temporary files:");
}, 120_000);
