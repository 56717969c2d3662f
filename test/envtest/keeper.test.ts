import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";

import { eventually } from "cloud-controller-host/sdk/testing";

import { createKeeper } from "./keeper.ts";

/** A killed process that its parent has not waited for yet is a zombie: gone for all that matters. */
async function isRunning(pid: number): Promise<boolean> {
  const state = await Bun.spawn(["ps", "-o", "stat=", "-p", String(pid)]).stdout.text();
  return state.trim() !== "" && !state.trim().startsWith("Z");
}

test("stops its processes and removes its folder when disposed", async () => {
  const keeper = await createKeeper("keeper-test");
  const program = keeper.start("sleeper", ["sleep", "1000"]);
  expect(program.exitCode()).toBeUndefined();
  await keeper[Symbol.asyncDispose]();
  expect(await isRunning(program.pid)).toBe(false);
  expect(existsSync(keeper.directory)).toBe(false);
});

test("leaves no process behind when its owner is killed", async () => {
  const script = `
    import { createKeeper } from ${JSON.stringify(join(import.meta.dir, "keeper.ts"))};
    const keeper = await createKeeper("keeper-test");
    const [first, second] = [1, 2].map((name) => keeper.start(String(name), ["sleep", "1000"]));
    await first.kill();
    console.log(JSON.stringify({ pid: second.pid, directory: keeper.directory }));
    setTimeout(() => process.kill(process.pid, "SIGKILL"), 1);
  `;
  // In Bun's mode without orphans the kernel ends the programs, and the guardian before it has removed the folder.
  const env = { ...process.env, BUN_FEATURE_FLAG_NO_ORPHANS: "0" };
  const owner = Bun.spawn([process.execPath, "-e", script], { env, stderr: "inherit" });
  const { pid, directory } = JSON.parse(await owner.stdout.text());
  await owner.exited;
  await eventually(
    "the program and its folder are gone",
    async () => !(await isRunning(pid)) && !existsSync(directory),
  );
});

test("reports the last output of a failed process", async () => {
  await using keeper = await createKeeper("keeper-test");
  const program = keeper.start("failing", ["sh", "-c", "echo one; echo two >&2; exit 3"]);
  await eventually("the program has failed", () => program.exitCode() === 3);
  expect(await program.lastWords()).toBe("one\ntwo");
});
