import { expect, test } from "bun:test";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { bundleHead } from "../../../host/bundle/bundle.ts";
import { actions } from "../../../host/sandbox/actions.ts";
import { runSandbox, sandboxUsage } from "../../../host/sandbox/command.ts";

/** Runs `sandbox` with arguments that start no sandbox. */
async function run(...argv: readonly string[]) {
  let [stdout, stderr] = ["", ""];
  const output = { stdout: (text: string) => void (stdout += text), stderr: (text: string) => void (stderr += text) };
  const status = await runSandbox(argv, output, () => Promise.reject(new Error("a sandbox was started")));
  return { status, stdout, stderr };
}

test("the help text lists every command and fits into 80 columns", () => {
  const lines = sandboxUsage().split("\n");
  for (const { key, command } of actions)
    expect(lines.some((line) => line.startsWith(`  ${key}  ${command} `))).toBe(true);
  expect(lines.filter((line) => line.length > 80)).toEqual([]);
});

test.each([[["--help"]], [["-h"]], [["vm", "--help"]], [["cloud", "fail", "--help"]], [["--nodes=x", "-h"]]])(
  "%j prints the help text, which explains each command",
  async (argv) => {
    expect(await run(...argv)).toEqual({ status: 0, stdout: sandboxUsage(), stderr: "" });
  },
);

test("--check=true is --check, which has a temporary folder", async () => {
  const silent = { stdout: () => undefined, stderr: () => undefined };
  const kubeconfigs: string[] = [];
  await runSandbox(["--check=true"], silent, (argv) => {
    kubeconfigs.push(argv.find((flag) => flag.startsWith("--kubeconfig=")) ?? "");
    return Promise.reject(new Error("a sandbox was started"));
  });
  expect(kubeconfigs).toEqual([expect.stringContaining(`=${tmpdir()}/`)]);
});

test("--help after -- is a flag of the host", async () => {
  expect((await run("--check", "--", "--help")).stderr).toContain("a sandbox was started");
});

const commands = actions.map(({ command }) => command).join(", ");
const vmCommands = "vm add, vm poweroff, vm deallocate, vm start, vm delete";

test.each([
  [["vm"], `unknown command "sandbox vm"; the commands are ${vmCommands}`],
  [["vm", "ad"], `unknown command "sandbox vm ad" (did you mean vm add?); the commands are ${vmCommands}`],
  [["start"], `unknown command "sandbox start"; the commands are ${commands}`],
  [["vm", "delete", "a", "b"], "sandbox vm delete takes at most one argument; see sandbox --help"],
  [["--nodes=x"], "--nodes=x: expected a whole number from 0 to 5000"],
  [["--nodes="], "--nodes=: expected a whole number from 0 to 5000"],
  [["--nodes"], "--nodes: expected a whole number from 0 to 5000"],
  [
    ["--check=yes", "--directory=", "--nodes=-1"],
    "3 problems:\n  - --check=yes: must be true or false\n  - --directory: name a folder\n  - --nodes=-1: expected a whole number from 0 to 5000",
  ],
  [
    ["vm", "add", "--directory=/nowhere"],
    'no sandbox runs in /nowhere; start one with "sandbox", or name its folder with --directory',
  ],
  [
    ["--chek"],
    'unknown option --chek (did you mean --check?); flags of the host come after "--": sandbox -- --chek ("bun run" removes one "--": write host/main.ts in place of run)',
  ],
])("%j is refused with the reason", async (argv, reason) => {
  expect(await run(...argv)).toEqual({ status: 1, stdout: "", stderr: `Error: ${reason}\n` });
});

test("an error that quotes a bundle shows its control characters, and sends none to the terminal", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "sandbox-bundle-"));
  const path = join(folder.path, "bundle");
  const escape = "\u001B]0;title\u0007";
  const kinds = { group: "", version: "v1", plural: "nodes", kind: "Node", namespaced: false };
  await writeFile(
    path,
    JSON.stringify({
      ...bundleHead,
      anonymized: false,
      cloudProvider: "azure",
      flags: [],
      cloudConfig: {},
      kinds: [{ ...kinds, objects: [{ metadata: { name: "n", labels: { [escape]: 1 } } }] }],
      resources: [],
    }),
  );
  const { status, stderr } = await run("--check", `--from=${path}`);
  expect([status, stderr.includes("\\u{001b}]0;title"), stderr.includes("\u001B")]).toEqual([1, true, false]);
});
