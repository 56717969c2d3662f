import { expect, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { connect } from "node:tls";

import { eventually } from "cloud-controller-host/sdk/testing";

import { freePort } from "../envtest/free-port.ts";
import { SandboxLab } from "../host/sandbox-lab.ts";
import { usageOf } from "../kit/process-usage.ts";

const main = join(import.meta.dir, "../../host/main.ts");

test("strangers that hold more connections than a leader has file descriptors cost neither its lease nor a processor", async () => {
  await using lab = await SandboxLab.open();
  const port = freePort();
  const words = [process.execPath, main, "--bind-address=127.0.0.1", `--secure-port=${port}`, ...lab.flags()];
  const run = join(lab.azure.folder, "run.sh");
  const quoted = words.map((word) => `'${word}'`).join(" ");
  await writeFile(run, `ulimit -n 64\nexec ${quoted} '--authorization-always-allow-paths=/*'\n`);
  const environment = { PATH: process.env["PATH"], HOME: process.env["HOME"] };
  await using host = Bun.spawn(["bash", run], { stdout: "ignore", stderr: "pipe", env: environment });
  const log = host.stderr.text();
  const isLeading = async (): Promise<boolean> => {
    const url = `https://127.0.0.1:${port}/statusz`;
    const reply = await fetch(url, { keepalive: false, tls: { rejectUnauthorized: false } }).catch(() => undefined);
    const status: { leading?: boolean; running?: boolean } = reply === undefined ? {} : JSON.parse(await reply.text());
    return status.leading === true && status.running === true;
  };
  await eventually("it leads", isLeading, 60_000);
  const before = await usageOf(host.pid);
  const sockets = Array.from({ length: 100 }, () => {
    const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false });
    return socket.on("error", () => undefined);
  });
  try {
    await Bun.sleep(4_000);
    expect(await isLeading()).toBeTrue();
    expect(host.exitCode).toBeNull();
    expect((await usageOf(host.pid)).cpuSeconds - before.cpuSeconds).toBeLessThan(2);
    host.kill("SIGKILL");
    expect(await log).not.toContain("File descriptors are exhausted");
  } finally {
    for (const socket of sockets) socket.destroy();
  }
}, 120_000);
