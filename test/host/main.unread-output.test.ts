import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { eventually } from "cloud-controller-host/sdk/testing";

import { freePort } from "../envtest/free-port.ts";
import { simulateAzure } from "../kit/azure.ts";
import { StuckPipe } from "../kit/stuck-pipe.ts";
import { SandboxLab } from "./sandbox-lab.ts";

setDefaultTimeout(120_000);

const main = join(import.meta.dir, "..", "..", "host", "main.ts");
const serving = (port: number): readonly string[] => ["--bind-address=127.0.0.1", `--secure-port=${port}`];
const patienceMs = 60_000;
/** Ctrl-S. */
const suspend = "\u0013";

interface Output {
  readonly stdout?: number;
  readonly stderr?: number;
}

/** A process with an output that is not read. Killed when it is disposed of. */
class Unread implements Disposable {
  readonly #process: Bun.Subprocess;

  constructor(args: readonly string[], output: Output) {
    const quiet = { stdin: "ignore", stdout: "ignore", stderr: "ignore" } as const;
    this.#process = Bun.spawn([process.execPath, main, ...args], { ...quiet, ...output });
  }

  /** Its exit status, and how long it took to end, in milliseconds. */
  async end(limitMs = 20_000) {
    const began = performance.now();
    const ended = (await Promise.race([this.#process.exited, Bun.sleep(limitMs)])) ?? "still running";
    return { ended, signal: this.#process.signalCode, tookMs: performance.now() - began };
  }

  async stop() {
    this.#process.kill("SIGTERM");
    return this.end();
  }

  [Symbol.dispose](): void {
    this.#process.kill("SIGKILL");
  }
}

describe("a host whose log is a full pipe that nothing reads", () => {
  for (const [format, output] of [
    ["text", "stderr"],
    ["json", "stdout"],
  ] as const)
    test(`leads, serves, and ends with status 0 within 6 s of SIGTERM when the log is ${format} on ${output}`, async () => {
      await using lab = await SandboxLab.open();
      using pipe = new StuckPipe();
      const port = freePort();
      const flags = [...serving(port), "--v=4", `--logging-format=${format}`];
      using host = new Unread(lab.flags(flags), { [output]: pipe.fd });
      const livez = (): Promise<Response> =>
        fetch(`https://127.0.0.1:${port}/livez`, { tls: { rejectUnauthorized: false } });
      await eventually("it leads", () => lab.lease()?.holderIdentity, patienceMs);
      await eventually("it serves", async () => (await livez()).ok, patienceMs);
      const { ended, tookMs } = await host.stop();
      expect(ended).toBe(0);
      expect(tookMs).toBeLessThan(6_000);
      expect(lab.lease()?.holderIdentity).toBe("");
    });

  test("ends with status 1 when it cannot start", async () => {
    await using lab = await SandboxLab.open();
    using pipe = new StuckPipe();
    using taken = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => undefined } });
    using host = new Unread(lab.flags(serving(taken.port)), { stderr: pipe.fd });
    expect(await host.end()).toMatchObject({ ended: 1 });
  });
});

test("a host whose log is a suspended terminal ends with status 0 within 6 s of SIGTERM", async () => {
  await using lab = await SandboxLab.open();
  let log = "";
  const data = (_: Bun.Terminal, bytes: Uint8Array): void => void (log += Buffer.from(bytes).toString());
  const host = Bun.spawn([process.execPath, main, ...lab.flags(["--secure-port=0", "--v=4"])], { terminal: { data } });
  await eventually("it leads", () => log.includes("Successfully acquired lease"), patienceMs);
  host.terminal?.write(suspend);
  await Bun.sleep(500);
  const began = performance.now();
  host.kill("SIGTERM");
  const ended = await Promise.race([host.exited, Bun.sleep(20_000)]);
  host.kill("SIGKILL");
  expect(ended).toBe(0);
  expect(performance.now() - began).toBeLessThan(6_000);
  expect(lab.lease()?.holderIdentity).toBe("");
});

test("a plan whose progress goes to a suspended terminal ends its requests at its time limit", async () => {
  await using azure = await simulateAzure();
  const closed = Promise.withResolvers<string>();
  const socket = { data: () => undefined, close: () => closed.resolve("closed") };
  using silent = Bun.listen({ hostname: "127.0.0.1", port: 0, socket });
  const kubeconfig = join(azure.folder, "kubeconfig");
  const cluster = { name: "c", cluster: { server: `http://127.0.0.1:${silent.port}` } };
  const context = { name: "c", context: { cluster: "c", user: "u" } };
  const users = [{ name: "u", user: { token: "x" } }];
  const config = { apiVersion: "v1", kind: "Config", clusters: [cluster], contexts: [context], users };
  await Bun.write(kubeconfig, JSON.stringify({ ...config, "current-context": "c" }));
  const args = ["plan", "--only=services", `--kubeconfig=${kubeconfig}`, `--cloud-config=${azure.config}`];
  const shown = Promise.withResolvers<void>();
  const data = (): void => shown.resolve();
  const command = Bun.spawn([process.execPath, main, ...args, "--plan-timeout=5"], { terminal: { data } });
  try {
    await shown.promise;
    command.terminal?.write(suspend);
    expect(await Promise.race([closed.promise, Bun.sleep(20_000)])).toBe("closed");
  } finally {
    command.kill("SIGKILL");
  }
});

test("a sandbox on a terminal that was suspended as it started runs, and ends with status 0 within 6 s of SIGTERM", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "suspended-"));
  const directory = join(folder.path, "sandbox");
  const sandbox = Bun.spawn([process.execPath, main, "sandbox", `--directory=${directory}`], { terminal: {} });
  try {
    sandbox.terminal?.write(suspend);
    const log = Bun.file(join(directory, "host.log"));
    await eventually("it leads", async () => (await log.text()).includes("Successfully acquired lease"), patienceMs);
    await eventually("it takes commands", () => existsSync(join(directory, "control.json")), patienceMs);
    const began = performance.now();
    sandbox.kill("SIGTERM");
    expect(await Promise.race([sandbox.exited, Bun.sleep(20_000)])).toBe(0);
    expect(performance.now() - began).toBeLessThan(6_000);
  } finally {
    sandbox.kill("SIGKILL");
  }
});

/** Runs a sandbox in a terminal that it fills and does not read; kills what has not ended 6 s after SIGTERM. */
const unreadTerminal = `
  const [main, directory] = process.argv.slice(1);
  const listening = Promise.withResolvers();
  let screen = "";
  const data = (_, bytes) => {
    screen += Buffer.from(bytes).toString();
    if (screen.includes("Unknown key")) listening.resolve();
  };
  const command = [process.execPath, main, "sandbox", "--directory=" + directory];
  const sandbox = Bun.spawn(command, { terminal: { data } });
  const pressing = setInterval(() => sandbox.terminal.write("z"), 100);
  await listening.promise;
  clearInterval(pressing);
  sandbox.terminal.write("?".repeat(2_000));
  await Bun.sleep(20);
  Bun.sleepSync(3_000);
  sandbox.kill("SIGTERM");
  Bun.sleepSync(6_000);
  sandbox.kill("SIGKILL");
  console.log(await sandbox.exited, sandbox.signalCode);
`;

test("a sandbox on a terminal that is no longer read ends with status 0 within 6 s of SIGTERM", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "unread-terminal-"));
  const args = ["-e", unreadTerminal, main, join(folder.path, "sandbox")];
  await using terminal = Bun.spawn([process.execPath, ...args], { stdout: "pipe", timeout: patienceMs });
  expect(await terminal.stdout.text()).toBe("0 null\n");
});

describe("a command whose output is a full pipe that nothing reads", () => {
  test.each([
    ["succeeds", "version", "stdout"],
    ["fails", "no-such-command", "stderr"],
  ])(
    "waits for a reader when it %s, and ends at SIGTERM also where unhandled signals are ignored",
    async (_, name, to) => {
      using pipe = new StuckPipe();
      using command = new Unread([name], { [to]: pipe.fd });
      expect(await command.end(6_000)).toMatchObject({ ended: "still running" });
      // Not by the signal's default action, which the first process of a container does not have.
      expect(await command.stop()).toMatchObject({ ended: 143, signal: null });
    },
  );

  test("ends with status 0 within 6 s of SIGTERM when it is a sandbox", async () => {
    using pipe = new StuckPipe();
    await using folder = await mkdtempDisposable(join(tmpdir(), "unread-"));
    const directory = join(folder.path, "sandbox");
    using command = new Unread(["sandbox", `--directory=${directory}`], { stdout: pipe.fd });
    const log = Bun.file(join(directory, "host.log"));
    await eventually("it leads", async () => (await log.text()).includes("Successfully acquired lease"), patienceMs);
    const { ended, tookMs } = await command.stop();
    expect(ended).toBe(0);
    expect(tookMs).toBeLessThan(6_000);
  });
});
