import { expect, test } from "bun:test";
import { connect as connectTcp, createServer } from "node:net";

import { createLogger } from "../../../../host/process/log/log.ts";
import { affordableConnections, descriptorLimit, listen } from "../../../../host/process/serving/listener.ts";

test.each([
  [1_048_576, 256],
  [1_024, 256],
  [256, 104],
  [64, 8],
  [20, 4],
])("a process with %d file descriptors holds %d connections at most on each port", (limit, connections) => {
  expect(Math.min(256, affordableConnections(limit))).toBe(connections);
});

test("a system that does not publish the limit of file descriptors limits no connections", () => {
  for (const file of ["/absent/limits", "/dev/null"])
    expect(affordableConnections(descriptorLimit(file))).toBe(Number.POSITIVE_INFINITY);
});

const path = (name: string): string => JSON.stringify(require.resolve(`../../../../host/process/${name}.ts`));

test("a process's limit of file descriptors is that of the system", () => {
  const own = `console.log((await import(${path("serving/listener")})).affordableConnections())`;
  const { stdout } = Bun.spawnSync(["bash", "-c", 'ulimit -n 256 && exec "$0" -e "$1"', process.execPath, own]);
  expect(stdout.toString().trim()).toBe("104");
});

test("a server that listens has one listener of errors, and none that waits to listen", async () => {
  const server = createServer();
  const log = createLogger({ format: "text", verbosity: 0, write: () => undefined });
  const counts = (): readonly number[] => ["error", "listening"].map((event) => server.listenerCount(event));
  const before = counts();
  const listener = await listen(server, { address: "127.0.0.1", port: 0, log });
  expect(counts()).toEqual([(before[0] ?? 0) + 1, before[1] ?? 0]);
  await listener.close();
});

test("a listener that was closed does not listen again, as it does where descriptors were exhausted", async () => {
  const server = createServer();
  const log = createLogger({ format: "text", verbosity: 0, write: () => undefined });
  const listener = await listen(server, { address: "127.0.0.1", port: 0, log });
  await listener.close();
  await Bun.sleep(1_500);
  expect(server.listening).toBeFalse();
});

/** Serves in a process of its own; a line on stdin uses up its descriptors, a second one closes them. */
const script = `
  const { closeSync, openSync } = await import("node:fs");
  const { serve } = await import(${path("serving/tls-server")});
  const { selfSigned } = await import(${path("serving/self-signed")});
  const { createLogger } = await import(${path("log/log")});
  const log = createLogger({ format: "text", verbosity: 0, write: (line) => process.stdout.write(line) });
  const certificate = await selfSigned("", Date.now());
  const handler = async () => new Response("ok");
  const served = await serve({ address: "127.0.0.1", port: 0, certificate, log, handler });
  const files = [];
  process.stdin.once("data", () => {
    try { while (true) files.push(openSync("/dev/null")); } catch {}
    console.log("exhausted");
    process.stdin.once("data", () => {
      files.forEach(closeSync);
      process.stdin.once("data", async () => {
        await served.close();
        console.log(process.cpuUsage().user + process.cpuUsage().system);
        process.exit();
      });
    });
  });
  console.log(served.port);
`;

test("a process without file descriptors logs it once, waits without a busy loop, and serves again when some are closed", async () => {
  const command = ["bash", "-c", 'ulimit -n 64 && exec "$0" -e "$1"', process.execPath, script];
  await using child = Bun.spawn(command, { stdin: "pipe", stdout: "pipe", stderr: "inherit" });
  let output = "";
  const lines = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const until = async (text: RegExp): Promise<void> => {
    while (!text.test(output)) output += (await lines.read()).value ?? "";
  };
  await until(/^\d+\n/);
  const port = Number(output.trim());
  await child.stdin.write("\n");
  await child.stdin.flush();
  await until(/exhausted/);
  const waiting = Array.from({ length: 10 }, () => connectTcp({ port, host: "127.0.0.1" }));
  for (const socket of waiting) socket.on("error", () => undefined);
  await until(/File descriptors are exhausted/);
  await Bun.sleep(3_000);
  await child.stdin.write("\n");
  await child.stdin.flush();
  const reply = await (async function retry(): Promise<string> {
    const tls = { rejectUnauthorized: false };
    const answer = await fetch(`https://127.0.0.1:${port}/`, { keepalive: false, tls }).catch(() => undefined);
    return answer === undefined ? Bun.sleep(50).then(retry) : answer.text();
  })();
  expect(reply).toBe("ok");
  for (const socket of waiting) socket.destroy();
  output = output.replace(/^.*exhausted\n/s, "");
  await child.stdin.write("\n");
  await child.stdin.end();
  await until(/^\d+\n$/m);
  expect(await child.exited).toBe(0);
  expect(output.match(/File descriptors are exhausted/g)).toHaveLength(1);
  expect(Number(/^(\d+)$/m.exec(output)?.[1])).toBeLessThan(1_500_000);
}, 120_000);
