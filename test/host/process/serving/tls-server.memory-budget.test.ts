import { afterEach, describe, expect, test } from "bun:test";
import { once } from "node:events";
import { type ClientHttp2Session, connect as connectHttp2 } from "node:http2";
import { connect, type TLSSocket } from "node:tls";

import { eventually } from "cloud-controller-host/sdk/testing";

import type { Served } from "../../../../host/process/serving/tls-server.ts";
import { serveLocally } from "../../../kit/serve.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

const KB = 1024;
/** More than the kernel takes for a client that does not read. */
const largeBytes = 12 * KB * KB;
/** Requests in progress, by path. */
let running: string[] = [];

/** Reads bodies, answers /large with 12 MB and /known as to an authenticated client; /wait waits for the end of the test. */
async function start(maxHeldBytes: number): Promise<Served> {
  const over = Promise.withResolvers<void>();
  running = [];
  const served = await serveLocally({
    limits: { maxHeldBytes, bodyTimeMs: 60_000 },
    handler: async (request, peer) => {
      const { pathname } = new URL(request.url);
      running.push(pathname);
      if (pathname.startsWith("/known")) peer.authenticated();
      if (pathname.endsWith("wait")) await over.promise;
      const { length } = await request.text();
      return new Response(pathname.endsWith("large") ? "x".repeat(largeBytes) : `read ${length}`);
    },
  });
  stack.defer(async () => {
    over.resolve();
    await served.close();
  });
  return served;
}

async function open({ port }: Served, head = ""): Promise<TLSSocket> {
  const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false });
  socket.on("error", () => undefined);
  stack.defer(() => void socket.destroy());
  await once(socket, "secureConnect");
  socket.resume();
  socket.write(head);
  return socket;
}

const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`;
/** The head of a request, and a part of its body. */
const post = (path: string, bytes: number): string =>
  `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: ${1000 * KB}\r\n\r\n${"x".repeat(bytes)}`;

async function read({ port }: Served, path = "/", body?: string): Promise<string> {
  const init = body === undefined ? {} : { method: "POST", body };
  const reply = await fetch(`https://127.0.0.1:${port}${path}`, {
    keepalive: false,
    tls: { rejectUnauthorized: false },
    ...init,
  });
  return reply.text();
}

const closedOnes = (sockets: readonly { readonly closed: boolean }[]): readonly boolean[] =>
  sockets.map(({ closed }) => closed);
/** A client's bytes have reached the handler once a later request is answered. */
const until = (count: number): Promise<true> => eventually(`${count} requests run`, () => running.length >= count);

describe("the memory of requests in progress, over all connections", () => {
  test("disconnects the client that sent most when unfinished bodies hold too much memory", async () => {
    const served = await start(700 * KB);
    const sockets: TLSSocket[] = [];
    for (const kilobytes of [100, 300, 200]) {
      sockets.push(await open(served, post("/", kilobytes * KB)));
      await until(sockets.length);
    }
    await Bun.sleep(50);
    expect(closedOnes(sockets)).toEqual([false, false, false]);
    expect(await read(served, "/", "x".repeat(100 * KB))).toBe(`read ${100 * KB}`);
    await eventually("the largest is cut", () => sockets[1]?.closed === true);
    expect(closedOnes(sockets)).toEqual([false, true, false]);
  });

  test("disconnects the oldest client when replies that are not read over HTTP/1.1 hold too much memory", async () => {
    const served = await start(30 * KB * KB);
    const sockets: TLSSocket[] = [];
    for (let i = 1; i <= 3; i++) {
      const socket = await open(served);
      socket.pause();
      socket.write(get("/large"));
      sockets.push(socket);
      await until(i);
      await Bun.sleep(20);
    }
    expect(await read(served)).toBe("read 0");
    sockets.forEach((socket) => socket.resume());
    await eventually("the oldest is cut", () => sockets[0]?.closed === true);
    expect(closedOnes(sockets)).toEqual([true, false, false]);
  });

  test("limits the memory of replies that are not read over HTTP/2 with a window of 0", async () => {
    const served = await start(30 * KB * KB);
    const sessions: ClientHttp2Session[] = [];
    for (let i = 1; i <= 3; i++) {
      const settings = { initialWindowSize: 0 };
      const session = connectHttp2(`https://127.0.0.1:${served.port}`, { rejectUnauthorized: false, settings });
      session.on("error", () => undefined);
      stack.defer(() => session.destroy());
      session.request({ ":path": "/large" }).on("error", () => undefined);
      sessions.push(session);
      await until(i);
      await Bun.sleep(20);
    }
    await eventually("the oldest is cut", () => sessions[0]?.destroyed === true);
    expect(sessions.map(({ destroyed }) => destroyed)).toEqual([true, false, false]);
    expect(await read(served)).toBe("read 0");
  });

  test("limits the number of requests in progress, as each costs 32 KB", async () => {
    const served = await start(10 * 33 * KB);
    const sockets: TLSSocket[] = [];
    for (let i = 1; i <= 12; i++) {
      sockets.push(await open(served, get("/wait")));
      await until(i);
    }
    await eventually("two are cut", () => closedOnes(sockets).filter((closed) => closed).length === 2);
    expect(closedOnes(sockets).slice(0, 3)).toEqual([true, true, false]);
    expect(await read(served)).toBe("read 0");
  });

  test("disconnects strangers before authenticated clients, and these only when no stranger holds any memory", async () => {
    const served = await start(600 * KB);
    const known = await open(served, get("/known"));
    await until(1);
    known.write(post("/known", 300 * KB));
    await until(2);
    const stranger = await open(served, post("/", 200 * KB));
    await until(3);
    await Bun.sleep(50);
    expect(closedOnes([known, stranger])).toEqual([false, false]);
    known.write("x".repeat(100 * KB));
    await eventually("the stranger is cut", () => stranger.closed);
    expect(known.closed).toBeFalse();
    known.write("x".repeat(200 * KB));
    await eventually("the authenticated client is cut", () => known.closed);
    expect(await read(served)).toBe("read 0");
  });

  test("releases the memory of requests that have been read or have ended", async () => {
    const served = await start(14 * KB * KB);
    const witness = await open(served, post("/", 100 * KB));
    await until(1);
    for (let i = 0; i < 6; i++) {
      expect(await read(served, "/large")).toHaveLength(largeBytes);
      expect(await read(served, "/", "x".repeat(900 * KB))).toBe(`read ${900 * KB}`);
      (await open(served, post("/", 200 * KB))).destroy();
    }
    const session = connectHttp2(`https://127.0.0.1:${served.port}`, { rejectUnauthorized: false });
    session.on("error", () => undefined);
    stack.defer(() => session.destroy());
    for (let i = 0; i < 3; i++) {
      const stream = session.request({ ":path": "/large" }).resume();
      await once(stream, "end");
    }
    expect([witness.closed, session.destroyed]).toEqual([false, false]);
  });
});

test("a client has at most 16 requests in progress over one HTTP/2 connection", async () => {
  const served = await start(64 * KB * KB);
  const session = connectHttp2(`https://127.0.0.1:${served.port}`, { rejectUnauthorized: false });
  session.on("error", () => undefined);
  stack.defer(() => session.destroy());
  await once(session, "remoteSettings");
  for (let i = 0; i < 40; i++) session.request({ ":path": "/wait" }).on("error", () => undefined);
  await until(16);
  await Bun.sleep(100);
  expect(running).toHaveLength(16);
});
