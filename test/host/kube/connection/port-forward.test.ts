import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { connect, type Socket } from "node:net";

import { eventually } from "cloud-controller-host/sdk/testing";

import type { ApiServer, Credentials } from "../../../../host/kube/connection/credentials.ts";
import { type ForwardLimits, forwardPort } from "../../../../host/kube/connection/port-forward.ts";
import { proxyTo } from "../connect-proxy.ts";
import { status, StubApi } from "../stub-api.ts";

setDefaultTimeout(120_000);

const megabyte = 1024 * 1024;
const piece = Buffer.alloc(megabyte + 1, 7).fill(0, 0, 1);
const limits: ForwardLimits = { openMs: 10_000, maxUnreadBytes: 64 * megabyte, maxUnsentBytes: megabyte };

let running = new AsyncDisposableStack();

afterEach(async () => {
  await running.disposeAsync();
  running = new AsyncDisposableStack();
});

interface Pod {
  /** Pieces of a megabyte that it sends at once. */
  readonly pieces?: number;
  readonly closes?: boolean;
  /** What kubelet sends in place of a connection. */
  readonly error?: string;
  /** It never answers the request for a WebSocket. */
  readonly hangs?: boolean;
}

/** An API server with one Pod, and a port forwarded to it. */
async function forwarded(
  pod: Pod,
  more: Partial<ForwardLimits> = {},
  credentials = Promise.resolve<Credentials>(none),
  throughProxy = false,
) {
  const counts = { opened: 0, closed: 0, received: 0 };
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request, own) {
      if (pod.hangs === true) await new Promise((resolve) => request.signal.addEventListener("abort", resolve));
      const headers = { "Sec-WebSocket-Protocol": "v4.channel.k8s.io" };
      return own.upgrade(request, { headers, data: undefined }) ? undefined : new Response("upgrade", { status: 400 });
    },
    websocket: {
      backpressureLimit: 1024 * megabyte,
      open(client) {
        counts.opened += 1;
        for (const channel of [0, 1]) client.send(Buffer.from([channel, 1, 0]));
        if (pod.error !== undefined) client.send(Buffer.concat([Buffer.of(1), Buffer.from(pod.error)]));
        for (let sent = 0; sent < (pod.pieces ?? 0); sent++) client.send(piece);
        if (pod.closes === true) client.close();
      },
      message: (_, data) => void (counts.received += data.length - 1),
      close: () => void (counts.closed += 1),
    },
  });
  running.defer(() => server.stop(true));
  const url = `http://127.0.0.1:${server.port}`;
  const proxy = throughProxy ? running.use(await proxyTo(url)) : undefined;
  const api: ApiServer = {
    url: proxy === undefined ? url : "http://api.test:6443",
    proxy: proxy?.url,
    credentials: () => credentials,
  };
  const target = { namespace: "kube-system", pod: "host", port: 1 };
  const forward = running.use(await forwardPort(api, target, { ...limits, ...more }));
  return { forward, port: forward.port, counts, proxied: proxy?.targets };
}

const none: Credentials = { tls: {}, headers: {} };

/** A client that reads nothing until it is resumed. */
async function pausedClient(port: number): Promise<{ readonly socket: Socket; readonly closed: Promise<unknown> }> {
  const socket = connect(port, "127.0.0.1").pause();
  socket.on("error", () => socket.destroy());
  running.defer(() => void socket.destroy());
  await new Promise((resolve) => socket.once("connect", resolve));
  return { socket, closed: new Promise((resolve) => socket.once("close", resolve)) };
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await Bun.sleep(20);
}

test("a forwarded port reaches the Pod through the proxy of the API server", async () => {
  const { port, proxied } = await forwarded({ pieces: 1, closes: true }, {}, Promise.resolve(none), true);
  const { socket, closed } = await pausedClient(port);
  let received = 0;
  socket.on("data", (chunk: Buffer) => (received += chunk.length));
  socket.resume();
  await closed;
  expect([received, proxied]).toEqual([megabyte, ["api.test:6443"]]);
});

test("a forwarded port delivers all that the Pod has sent to a client that reads it after the Pod has closed", async () => {
  const { port, counts } = await forwarded({ pieces: 12, closes: true });
  const { socket, closed } = await pausedClient(port);
  await until(() => counts.closed === 1);
  let bytes = 0;
  socket.on("data", (data) => (bytes += data.length));
  socket.resume();
  await closed;
  expect(bytes).toBe(12 * megabyte);
});

test("a forwarded port that is closed ends its connections, at both ends", async () => {
  const { forward, port, counts } = await forwarded({});
  const { socket, closed } = await pausedClient(port);
  socket.resume();
  await until(() => counts.opened === 1);
  await forward[Symbol.asyncDispose]();
  await closed;
  await until(() => counts.closed === 1);
});

test("a forwarded port disconnects a Pod that floods a client that does not read", async () => {
  const { port, counts } = await forwarded({ pieces: 32 }, { maxUnreadBytes: 8 * megabyte });
  await pausedClient(port);
  await until(() => counts.closed === 1);
});

test("a forwarded port closes a connection that does not reach the Pod in time", async () => {
  const { port, counts } = await forwarded({ hangs: true }, { openMs: 100 });
  const { socket, closed } = await pausedClient(port);
  socket.resume();
  await closed;
  expect(counts.opened).toBe(0);
});

test("a forwarded port connects to no Pod for a client that has left before there are credentials", async () => {
  const waiting = Promise.withResolvers<Credentials>();
  const { port, counts } = await forwarded({}, {}, waiting.promise);
  const { socket, closed } = await pausedClient(port);
  socket.destroy();
  await closed;
  await Bun.sleep(50);
  waiting.resolve(none);
  await Bun.sleep(200);
  expect(counts.opened).toBe(0);
});

test("a forwarded port keeps what kubelet says about a Pod that cannot be reached", async () => {
  const { forward, counts } = await forwarded({ error: "error forwarding port 1 to pod: exit status 1" });
  const { socket, closed } = await pausedClient(forward.port);
  socket.resume();
  await closed;
  expect(counts.opened).toBe(1);
  expect(forward.failure).toBe("error forwarding port 1 to pod: exit status 1");
});

test("a forwarded port keeps the first 500 characters of what kubelet says, without the white space around them", async () => {
  const { forward } = await forwarded({ error: `\n ${"x".repeat(600)}\n` });
  const { socket, closed } = await pausedClient(forward.port);
  socket.resume();
  await closed;
  expect(forward.failure).toBe("x".repeat(500));
});

test("a forwarded port keeps a connection to the Pod for longer than it may take to open", async () => {
  const { port, counts } = await forwarded({}, { openMs: 500 });
  const { socket } = await pausedClient(port);
  socket.resume();
  await until(() => counts.opened === 1);
  await Bun.sleep(1_000);
  expect([counts.closed, socket.destroyed]).toEqual([0, false]);
});

test("a forwarded port disconnects its client when credentials cannot be read, and serves the next one", async () => {
  const waiting = Promise.withResolvers<Credentials>();
  const { port, counts } = await forwarded({}, {}, waiting.promise);
  const first = await pausedClient(port);
  first.socket.resume();
  await Bun.sleep(100);
  waiting.reject(new Error("no credentials"));
  await first.closed;
  const second = await pausedClient(port);
  second.socket.resume();
  await second.closed;
  expect(counts.opened).toBe(0);
});

test("a forwarded port keeps why the API server opens no WebSocket, and no connection to it", async () => {
  const server = running.use(await StubApi.start());
  server.intercept = () => status(404, "NotFound", 'pods "host" not found');
  const target = { namespace: "kube-system", pod: "host", port: 1 };
  const forward = running.use(await forwardPort(server.access(), target, limits));
  const { socket, closed } = await pausedClient(forward.port);
  socket.resume();
  await closed;
  expect(forward.failure).toBe('pods "host" not found');
  // Well before the server itself closes a connection that is idle.
  await eventually("the connection is closed", () => server.openConnections === 0, 300);
});

test("a forwarded port that the user may not open names the role of the console", async () => {
  const server = running.use(await StubApi.start());
  const message = 'pods "host" is forbidden: User "u" cannot create resource "pods/portforward" in API group ""';
  server.intercept = () => status(403, "Forbidden", message);
  const target = { namespace: "kube-system", pod: "host", port: 1 };
  const forward = running.use(await forwardPort(server.access(), target, limits));
  const { socket, closed } = await pausedClient(forward.port);
  socket.resume();
  await closed;
  expect(forward.failure).toContain("`cloud-controller-host rbac --console` prints that of the console");
});

/** A client of a forwarded port, and the WebSocket's own connection at the API server, paused. */
async function upgraded() {
  const pod = Promise.withResolvers<Socket>();
  const server = createServer().on("upgrade", ({ headers }, socket: Socket) => {
    const accept = createHash("sha1").update(`${headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`);
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\nSec-WebSocket-Accept: ${accept.digest("base64")}\r\n\r\n`,
    );
    socket.pause();
    pod.resolve(socket);
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  running.defer(() => void server.close());
  const address = server.address();
  const url = `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`;
  const api: ApiServer = { url, proxy: undefined, credentials: () => Promise.resolve(none) };
  const target = { namespace: "kube-system", pod: "host", port: 1 };
  const { port } = running.use(await forwardPort(api, target, limits));
  const { socket, closed } = await pausedClient(port);
  const remote = await pod.promise;
  running.defer(() => void remote.destroy());
  return { socket, closed, remote };
}

test.each([
  ["is cut", (remote: Socket) => void remote.destroy()],
  ["has an invalid frame", (remote: Socket) => void remote.write(Buffer.alloc(10, 0xff))],
])("a forwarded port disconnects its client when the WebSocket %s", async (_, fails) => {
  const { socket, closed, remote } = await upgraded();
  socket.resume();
  fails(remote);
  await closed;
});

test("a forwarded port lets a client wait while the Pod reads nothing, and delivers all of it then", async () => {
  const { socket, remote } = await upgraded();
  const sent = 64 * megabyte;
  for (let written = 0; written < sent; written += megabyte) socket.write(piece.subarray(1));
  const taken: number[] = [];
  // Two seconds: what is taken grows by megabytes, with pauses between.
  await until(() => taken.push(sent - socket.writableLength) > 100 && taken.at(-1) === taken.at(-100));
  // Beside the limit, the kernel's own buffers of two connections.
  expect(taken.at(-1)).toBeLessThan(32 * megabyte);
  let received = 0;
  remote.on("data", (data) => (received += data.length)).resume();
  await until(() => received >= sent);
});
