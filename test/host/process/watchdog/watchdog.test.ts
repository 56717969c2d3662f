import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { createLoopOwner, readOwner } from "../../../../host/async/loop-owner.ts";
import { StuckPipe } from "../../../kit/stuck-pipe.ts";

setDefaultTimeout(120_000);

const fixture = join(import.meta.dir, "fixtures", "blocking.ts");

function start(...args: readonly string[]) {
  return Bun.spawn([process.execPath, fixture, ...args], { stdin: "ignore", stdout: "pipe", stderr: "pipe" });
}

describe("the watchdog of the event loop", () => {
  test("ends a process whose loop is blocked for longer than the limit, naming the controller", async () => {
    await using child = start("20000", "text");
    const [stderr] = await Promise.all([child.stderr.text(), child.exited]);
    expect(child.signalCode).toBe("SIGKILL");
    expect(stderr).toMatch(
      /^E\d{4} .*watchdog\] "Event loop blocked .*" controller="busy-controller" running=true blockedMs=\d+/m,
    );
  });

  test("names the last controller of a loop that is blocked once its work has ended, and says that it does not run", async () => {
    await using child = start("20000", "text", "500", "leader", "", "1", "after");
    const [stderr] = await Promise.all([child.stderr.text(), child.exited]);
    expect(stderr).toMatch(/^E.*watchdog\] "Event loop blocked .*" controller="busy-controller" running=false /m);
  });

  test("logs one JSON object on stdout under --logging-format=json", async () => {
    await using child = start("20000", "json");
    const [stdout] = await Promise.all([child.stdout.text(), child.exited]);
    const line: unknown = JSON.parse(stdout.split("\n").at(-2) ?? "");
    expect(line).toMatchObject({ level: "error", logger: "watchdog", controller: "busy-controller", running: true });
  });

  test("ends a process whose loop is blocked although nothing reads its report", async () => {
    using pipe = new StuckPipe();
    await using child = Bun.spawn([process.execPath, fixture, "20000", "text"], {
      stdio: ["ignore", "ignore", pipe.fd],
    });
    await Promise.race([child.exited, Bun.sleep(10_000)]);
    expect(child.signalCode).toBe("SIGKILL");
  });

  test("does not keep a process that has nothing left to do", async () => {
    const path = (name: string): string => JSON.stringify(join(import.meta.dir, "../../../../host", name));
    const code = `
      const { createLoopOwner } = await import(${path("async/loop-owner.ts")});
      const { startWatchdog } = await import(${path("process/watchdog/watchdog.ts")});
      startWatchdog({ limitMs: 20_000, format: "text", owner: createLoopOwner(), log: console, leads: () => true });
      await Bun.sleep(500);`;
    await using child = Bun.spawn([process.execPath, "--no-install", "-e", code], { timeout: 20_000 });
    expect([await child.exited, child.signalCode]).toEqual([0, null]);
  });

  test("leaves a process alone whose loop is blocked for less than the limit", async () => {
    await using child = start("60", "text", "5000");
    const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
    expect([stdout, child.exitCode, child.signalCode]).toEqual(["ready\nblocking\ndone\n", 0, null]);
    expect(stderr).toBe("");
  });

  test("logs once a minute, with the controller, that the loop of a process was blocked for a large part of the limit", async () => {
    await using child = start("2000", "text", "5000", "standby", "", "2");
    const [stderr] = await Promise.all([child.stderr.text(), child.exited]);
    const lines = stderr.split("\n").filter((line) => line.includes("Event loop was blocked"));
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/^W.*; leases, probes and watches waited" controller="busy-controller" running=true /);
    expect(Number(/blockedMs=(\d+)/u.exec(lines[0] ?? "")?.[1])).toBeWithin(1_500, 30_000);
  });

  test("logs nothing of a loop that was blocked for a small part of the limit, although the watchdog has seen that", async () => {
    const folder = await mkdtemp(join(tmpdir(), "watchdog-"));
    const enough = join(folder, "enough");
    // The watchdog looks every two seconds, and reports what was blocked for more than six.
    await using child = start("0", "text", "20000", "leader", enough);
    const reader = child.stdout.getReader();
    const decoder = new TextDecoder();
    for (let printed = ""; !printed.includes("blocking");) printed += decoder.decode((await reader.read()).value);
    await Bun.sleep(2_500);
    await writeFile(enough, "");
    const [stderr] = await Promise.all([child.stderr.text(), child.exited]);
    await rm(folder, { recursive: true });
    expect([stderr, child.exitCode]).toEqual(["", 0]);
  });

  test("leaves a process that does not lead alone for six times the limit, and ends it then", async () => {
    await using child = start("60000", "text", "1000", "standby");
    const [stderr] = await Promise.all([child.stderr.text(), child.exited]);
    expect(child.signalCode).toBe("SIGKILL");
    expect(Number(/blockedMs=(\d+)/u.exec(stderr)?.[1])).toBeWithin(6_000, 20_000);
  });

  test("leaves a process alone that was suspended as a whole, also in the middle of a short block", async () => {
    const folder = await mkdtemp(join(tmpdir(), "watchdog-"));
    const enough = join(folder, "enough");
    await using child = start("0", "text", "6000", "leader", enough);
    const reader = child.stdout.getReader();
    const decoder = new TextDecoder();
    for (let printed = ""; !printed.includes("blocking");) printed += decoder.decode((await reader.read()).value);
    // The watchdog has looked at the blocked loop.
    await Bun.sleep(1_500);
    child.kill("SIGSTOP");
    await Bun.sleep(7_500);
    child.kill("SIGCONT");
    // Two looks of the watchdog at a loop that is still blocked.
    await Bun.sleep(1_500);
    await writeFile(enough, "");
    await child.exited;
    await rm(folder, { recursive: true });
    expect([child.exitCode, child.signalCode]).toEqual([0, null]);
  });
});

describe("the owner of the event loop", () => {
  test("is the innermost name while its work runs, and the last name afterwards", () => {
    const owner = createLoopOwner();
    expect(readOwner(owner.memory)).toEqual({ current: "", last: "" });
    const inside = owner.run("outer", () => [
      owner.run("inner", () => readOwner(owner.memory)),
      readOwner(owner.memory),
    ]);
    expect(inside).toEqual([
      { current: "inner", last: "inner" },
      { current: "outer", last: "inner" },
    ]);
    expect(readOwner(owner.memory)).toEqual({ current: "", last: "inner" });
  });

  test("is restored when its work throws, and names are bounded in length and number", () => {
    const owner = createLoopOwner();
    expect(() => owner.run("x".repeat(5000), () => JSON.parse("{"))).toThrow(SyntaxError);
    expect(readOwner(owner.memory)).toEqual({ current: "", last: "x".repeat(248) });
    for (let index = 0; index < 100; index++) owner.run(`controller-${index}`, () => undefined);
    expect(readOwner(owner.memory).current).toBe("");
  });
});
