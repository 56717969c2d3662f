import { afterEach, beforeAll, describe, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { type ClientHttp2Session, connect as connectHttp2, type IncomingHttpHeaders } from "node:http2";
import { connect as connectTcp } from "node:net";
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from "node:tls";

import { eventually } from "cloud-controller-host/sdk/testing";

import { defaultOptions } from "../../../../host/config/flags/options.ts";
import { keyTypeFor, tlsSettings } from "../../../../host/config/values/tls-names.ts";
import { createLogger } from "../../../../host/process/log/log.ts";
import type { PeerInfo } from "../../../../host/process/serving/peer.ts";
import { type KeyPair, selfSigned } from "../../../../host/process/serving/self-signed.ts";
import { serve, type Served, type ServeOptions } from "../../../../host/process/serving/tls-server.ts";
import { rejection } from "../../../kit/rejection.ts";

let pair: KeyPair;
let otherPair: KeyPair;
beforeAll(async () => {
  [pair, otherPair] = await Promise.all([selfSigned("", 1_900_000_000_000), selfSigned("", 1_900_000_001_000)]);
});

const running: Served[] = [];
const sockets: { destroy(): void }[] = [];
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await Promise.all(running.splice(0).map((served) => served.close()));
});

const lines: string[] = [];
const log = createLogger({ format: "text", verbosity: 5, write: (line) => lines.push(line) });

const hello = (): Promise<Response> => Promise.resolve(new Response("hello"));

async function start(options: Partial<ServeOptions> = {}): Promise<Served> {
  const served = await serve({ address: "127.0.0.1", port: 0, certificate: pair, log, handler: hello, ...options });
  running.push(served);
  return served;
}

const insecure = { rejectUnauthorized: false } as const;
const get = (served: Served, path = "/", init: BunFetchRequestInit = {}): Promise<Response> =>
  fetch(`https://127.0.0.1:${served.port}${path}`, { keepalive: false, tls: insecure, ...init });

async function raw(
  served: Served,
  options: ConnectionOptions & { readonly localAddress?: string; readonly allowHalfOpen?: boolean } = {},
): Promise<TLSSocket> {
  const socket = connectTls({ host: "127.0.0.1", port: served.port, ...insecure, ...options });
  socket.on("error", () => undefined);
  sockets.push(socket);
  await once(socket, "secureConnect");
  return socket;
}

/** Everything that the server sends until it ends the connection. */
async function untilClosed(socket: TLSSocket): Promise<string> {
  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => chunks.push(chunk));
  if (!socket.closed) await once(socket, "close");
  return Buffer.concat(chunks).toString();
}

interface Http2Reply {
  readonly headers: IncomingHttpHeaders & { readonly ":status"?: number };
  readonly body: string;
}
function http2(served: Served, options: ConnectionOptions = {}): ClientHttp2Session {
  const session = connectHttp2(`https://127.0.0.1:${served.port}`, { ...insecure, ...options });
  session.on("error", () => undefined);
  sockets.push(session);
  return session;
}
async function over2(session: ClientHttp2Session, headers: Record<string, string | string[]>): Promise<Http2Reply> {
  const stream = session.request(headers);
  const chunks: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  const [[replied]] = await Promise.all([once(stream, "response"), once(stream, "end")]);
  return { headers: replied, body: Buffer.concat(chunks).toString() };
}

describe("both protocols", () => {
  test("answer over HTTP/2 and HTTP/1.1 with the same handler", async () => {
    const seen: string[] = [];
    const served = await start({
      handler: async (request, peer) => {
        seen.push(`${peer.httpVersion} ${request.method} ${new URL(request.url).pathname}`);
        return new Response(await request.text(), { status: 201, headers: { "X-Own": "1" } });
      },
    });
    const one = await get(served, "/a?b", { method: "POST", body: "text" });
    expect([one.status, one.headers.get("x-own"), await one.text()]).toEqual([201, "1", "text"]);
    const two = await over2(http2(served), { ":path": "/a?b" });
    expect([two.headers[":status"], two.headers["x-own"]]).toEqual([201, "1"]);
    expect(seen).toEqual(["1 POST /a", "2 GET /a"]);
  });

  test("pass the client's certificate to the handler, or that there is none", async () => {
    const peers: PeerInfo[] = [];
    const served = await start({
      handler: (_, peer) => {
        peers.push(peer);
        return Promise.resolve(new Response());
      },
    });
    const shown = { cert: otherPair.certPem, key: otherPair.keyPem };
    await get(served, "/", { tls: { ...insecure, ...shown } });
    await over2(http2(served, shown), { ":path": "/" });
    await get(served);
    await over2(http2(served), { ":path": "/" });
    expect(peers.map(({ httpVersion }) => httpVersion)).toEqual([1, 2, 1, 2]);
    expect(peers.slice(2).map(({ certificate }) => certificate)).toEqual([undefined, undefined]);
    const { subject } = new X509Certificate(peers[0]?.certificate?.raw ?? new Uint8Array());
    expect(subject).toBe("CN=localhost@1900000001");
    expect(peers[1]?.certificate?.raw).toEqual(peers[0]?.certificate?.raw ?? new Uint8Array());
    expect(peers.every(({ address }) => address.includes("127.0.0.1"))).toBeTrue();
  });

  test("keep the values of a repeated header separate", async () => {
    const groups: (readonly string[])[] = [];
    const served = await start({
      handler: (_, peer) => {
        groups.push(peer.headerValues("x-remote-group"));
        return Promise.resolve(new Response());
      },
    });
    const socket = await raw(served);
    socket.write("GET / HTTP/1.1\r\nHost: x\r\nX-Remote-Group: a,b\r\nx-remote-group: c\r\nConnection: close\r\n\r\n");
    await untilClosed(socket);
    await over2(http2(served), { ":path": "/", "x-remote-group": ["a,b", "c"] });
    expect(groups).toEqual([
      ["a,b", "c"],
      ["a,b", "c"],
    ]);
  });

  test("stream a large reply to a slow reader without losing a byte", async () => {
    const chunk = new Uint8Array(64 * 1024).fill(7);
    const served = await start({
      handler: () => {
        let left = 100;
        const body = new ReadableStream<Uint8Array>({
          pull: (controller) => (left-- > 0 ? controller.enqueue(chunk) : controller.close()),
        });
        return Promise.resolve(new Response(body));
      },
    });
    expect((await (await get(served)).bytes()).byteLength).toBe(6_553_600);
    expect((await over2(http2(served), { ":path": "/" })).body.length).toBe(6_553_600);
  });

  test("send no body in reply to HEAD", async () => {
    const served = await start();
    const reply = await get(served, "/", { method: "HEAD" });
    expect([reply.status, await reply.text()]).toEqual([200, ""]);
    expect((await over2(http2(served), { ":path": "/", ":method": "HEAD" })).body).toBe("");
  });

  test("close the connection after a reply that requests it", async () => {
    const served = await start({
      handler: () => Promise.resolve(new Response("no", { status: 401, headers: { Connection: "close" } })),
    });
    const session = http2(served);
    const goaway = once(session, "close");
    expect((await over2(session, { ":path": "/" })).headers[":status"]).toBe(401);
    await goaway;
    const socket = await raw(served);
    socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(await untilClosed(socket)).toContain("HTTP/1.1 401");
  });
});

describe("the listener", () => {
  test("offers only HTTP/1.1 when HTTP/2 is turned off", async () => {
    const on = await raw(await start(), { ALPNProtocols: ["h2", "http/1.1"] });
    expect(on.alpnProtocol).toBe("h2");
    const off = await raw(await start({ http2: false }), { ALPNProtocols: ["h2", "http/1.1"] });
    expect(off.alpnProtocol).toBe("http/1.1");
  });

  for (const state of ["on", "off"])
    test(`disconnects a client that offers only other protocols, HTTP/2 turned ${state}`, async () => {
      const served = await start({ http2: state === "on" });
      const socket = connectTls({ host: "127.0.0.1", port: served.port, ...insecure, ALPNProtocols: ["spdy/3.1"] });
      sockets.push(socket);
      const failed = once(socket, "error");
      await new Promise((resolve) => socket.once("close", resolve));
      await failed;
    });

  test("rejects TLS below the minimum version", async () => {
    const served = await start({ tls: { minVersion: "TLSv1.3" } });
    expect(await rejection(raw(served, { maxVersion: "TLSv1.2" }))).toContain("PROTOCOL_VERSION");
    expect((await raw(served)).getProtocol()).toBe("TLSv1.3");
  });

  test("the listener by default negotiates neither static RSA nor CBC, and every suite that it offers", async () => {
    const certificate = await selfSigned("", Date.now(), "rsa");
    const served = await start({ certificate, tls: tlsSettings(defaultOptions) });
    const negotiated = (ciphers: string): Promise<string> =>
      raw(served, { maxVersion: "TLSv1.2", ciphers }).then((socket) => socket.getCipher().name, String);
    for (const weak of [
      "AES128-SHA",
      "AES256-SHA",
      "AES128-GCM-SHA256",
      "ECDHE-RSA-AES128-SHA",
      "ECDHE-RSA-AES256-SHA",
    ])
      expect(await negotiated(weak)).toContain("HANDSHAKE_FAILURE");
    for (const strong of ["AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305"])
      expect(await negotiated(`ECDHE-RSA-${strong}`)).toBe(`ECDHE-RSA-${strong}`);
  });

  test.each([
    [[], "ECDHE-ECDSA-AES128-GCM-SHA256"],
    [["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_128_GCM_SHA256"], "ECDHE-RSA-AES128-GCM-SHA256"],
  ])("negotiates TLS 1.2 with a generated certificate and --tls-cipher-suites=%p", async (tlsCipherSuites, suite) => {
    const options = { ...defaultOptions, tlsCipherSuites };
    const certificate = await selfSigned("", Date.now(), keyTypeFor(options));
    const served = await start({ certificate, tls: tlsSettings(options) });
    expect((await raw(served, { maxVersion: "TLSv1.2", ciphers: suite })).getCipher().name).toBe(suite);
  });

  test("serves a new certificate from the next connection on", async () => {
    const served = await start();
    const before = await raw(served);
    served.setCertificate(otherPair);
    const after = await raw(served);
    expect(before.getPeerCertificate().subject.CN).toBe("localhost@1900000000");
    expect(after.getPeerCertificate().subject.CN).toBe("localhost@1900000001");
    before.write("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    expect(await untilClosed(before)).toContain("200 OK");
  });

  test("selects a certificate by the client's server name (SNI)", async () => {
    const served = await start({
      tls: { byServerName: (name) => (name === "other.test" ? otherPair : undefined) },
    });
    const named = await raw(served, { servername: "other.test" });
    expect(named.getPeerCertificate().subject.CN).toBe("localhost@1900000001");
    const unknown = await raw(served, { servername: "unknown.test" });
    expect(unknown.getPeerCertificate().subject.CN).toBe("localhost@1900000000");
  });

  test("reports a port in use in one line with the flag's name", async () => {
    const { port } = await start();
    const message = await rejection(start({ port }));
    expect(message).toBe(
      `--secure-port: 127.0.0.1:${port} is already in use by another process; stop that, or choose another port`,
    );
  });

  test("serves both IP families on the unspecified address", async () => {
    const served = await start({ address: "0.0.0.0" });
    expect((await get(served)).status).toBe(200);
  });

  test("ends connections that are kept alive once their last request is answered, over both protocols", async () => {
    const entered = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    let count = 0;
    const served = await start({
      handler: async () => {
        if (++count === 2) entered.resolve();
        await release.promise;
        return new Response("hello");
      },
    });
    const socket = await raw(served);
    socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    const reply = over2(http2(served), { ":path": "/" });
    await entered.promise;
    const startedAt = performance.now();
    const closed = served.close(60_000);
    release.resolve();
    expect((await reply).body).toBe("hello");
    expect(await untilClosed(socket)).toEndWith("hello");
    await closed;
    expect(performance.now() - startedAt).toBeLessThan(20_000);
  });

  test("finishes requests in flight when it closes gracefully, and accepts no others", async () => {
    const release = Promise.withResolvers<void>();
    const entered = Promise.withResolvers<void>();
    const served = await start({
      handler: async () => {
        entered.resolve();
        await release.promise;
        return new Response("late");
      },
    });
    const idle = await raw(served);
    const reply = get(served);
    await entered.promise;
    const closed = served.close(10_000);
    await untilClosed(idle);
    expect(await rejection(get(served))).not.toBe("");
    release.resolve();
    expect(await (await reply).text()).toBe("late");
    await closed;
    running.splice(0);
  });

  test("aborts requests in flight when it closes without grace", async () => {
    const entered = Promise.withResolvers<AbortSignal>();
    const served = await start({
      handler: (request) => {
        entered.resolve(request.signal);
        return new Promise(() => undefined);
      },
    });
    const reply = rejection(get(served));
    const signal = await entered.promise;
    await served.close();
    running.splice(0);
    expect(await reply).not.toBe("");
    await eventually("the handler's signal aborts", () => signal.aborted);
  });
});

/** The server still answers others. */
async function alive(served: Served): Promise<void> {
  expect(await (await get(served)).text()).toBe("hello");
}

describe("a client that misbehaves", () => {
  test("a client that never completes its handshake is disconnected", async () => {
    const served = await start({ limits: { headerTimeMs: 400 } });
    const socket = connectTcp(served.port, "127.0.0.1");
    sockets.push(socket);
    await once(socket, "close");
    await alive(served);
  });

  test("a client that never completes its request head is disconnected", async () => {
    const served = await start({ limits: { headerTimeMs: 400 } });
    const socket = await raw(served);
    socket.write("GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ");
    await untilClosed(socket);
    await alive(served);
  });

  test("a client that sends nothing over HTTP/2 is disconnected", async () => {
    const served = await start({ limits: { headerTimeMs: 400 } });
    await once(http2(served), "close");
    await alive(served);
  });

  test("a client that stays idle is disconnected, over both protocols", async () => {
    const served = await start({ limits: { idleTimeMs: 50 } });
    const socket = await raw(served);
    socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(await untilClosed(socket)).toContain("200 OK");
    const session = http2(served);
    const closed = once(session, "close");
    await over2(session, { ":path": "/" });
    await closed;
  });

  test("a client with a body that never ends gets 504 and is disconnected", async () => {
    const served = await start({
      limits: { requestTimeMs: 50, idleTimeMs: 50 },
      handler: async (request) => new Response(request.method === "GET" ? "hello" : await request.text()),
    });
    const socket = await raw(served);
    socket.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
    expect(await untilClosed(socket)).toContain("HTTP/1.1 504");
    const session = http2(served);
    const stream = session.request({ ":path": "/", ":method": "POST" });
    stream.write("abc");
    const [headers] = await once(stream, "response");
    expect(headers[":status"]).toBe(504);
    await alive(served);
  });

  test("a client that does not read its reply is disconnected", async () => {
    const ended = Promise.withResolvers<void>();
    const served = await start({
      limits: { requestTimeMs: 100 },
      handler: (request) => {
        if (new URL(request.url).pathname === "/") return Promise.resolve(new Response("hello"));
        request.signal.addEventListener("abort", () => ended.resolve());
        return Promise.resolve(new Response(new Uint8Array(12 * 1024 * 1024)));
      },
    });
    const socket = await raw(served);
    socket.pause();
    socket.write("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
    await ended.promise;
    await alive(served);
  });

  test("a client with too large a body is rejected, with or without a declared length", async () => {
    const served = await start({
      limits: { maxBodyBytes: 1000 },
      handler: async (request) => {
        if (request.method === "GET") return new Response("hello");
        return request.text().then(
          () => new Response("read"),
          (error: unknown) => new Response(String(error), { status: 400 }),
        );
      },
    });
    expect((await get(served, "/", { method: "POST", body: "x".repeat(1001) })).status).toBe(413);
    expect((await get(served, "/", { method: "POST", body: "x".repeat(1000) })).status).toBe(200);
    const socket = await raw(served);
    socket.write("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n");
    socket.write(`3e9\r\n${"x".repeat(1001)}\r\n0\r\n\r\n`);
    expect(await untilClosed(socket)).toContain("HTTP/1.1 400");
    await alive(served);
  });

  test("a client that sends garbage is rejected, without effect on other clients", async () => {
    const served = await start({ limits: { headerTimeMs: 2_000, maxHeaderBytes: 8192 } });
    for (const nonsense of [
      "garbage\r\n\r\n",
      "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
      "GET http://elsewhere/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
      "OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
      `GET / HTTP/1.1\r\nHost: x\r\nX-Long: ${"x".repeat(20_000)}\r\n\r\n`,
    ]) {
      const socket = await raw(served);
      socket.write(nonsense);
      expect(await untilClosed(socket)).toMatch(/^HTTP\/1.1 4\d\d/);
    }
    const plain = connectTcp(served.port, "127.0.0.1");
    sockets.push(plain);
    plain.on("error", () => undefined);
    plain.write("GET / HTTP/1.1\r\n\r\n");
    await once(plain, "close");
    const second = await raw(served, { ALPNProtocols: ["h2"] });
    second.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\xff".repeat(100));
    await untilClosed(second);
    await alive(served);
  });

  test.each([
    ["its header was rejected", "431", "GET / HTTP/1.1\r\nHost: x\r\nX-Long: "],
    ["the last reply", "200", "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"],
    ["the last reply of HTTP/1.0", "200", "GET / HTTP/1.0\r\n\r\n"],
    ["a request for another protocol", "200", "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"],
    [
      "the reply, within its body",
      "200",
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
    ],
  ])("a client that continues to send after %s is disconnected with the rest unread", async (_, status, head) => {
    const served = await start({ limits: { maxHeaderBytes: 8192 } });
    const socket = await raw(served, { allowHalfOpen: true });
    let received = "";
    socket.on("data", (chunk: Buffer) => (received += chunk.toString()));
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.write(head);
    if (status === "200") await once(socket, "data");
    const chunk = Buffer.alloc(1024 * 1024, "x");
    let sentMB = 0;
    for (; !socket.destroyed && sentMB < 300; sentMB++)
      if (!socket.write(chunk)) await Promise.race([new Promise((resolve) => socket.once("drain", resolve)), closed]);
    expect(received).toMatch(new RegExp(`^HTTP/1.[01] ${status}`));
    expect(sentMB).toBeLessThan(50);
    await alive(served);
  });

  test("a client that sends a body after the reply to its head uses the connection again", async () => {
    const served = await start();
    const socket = await raw(served, { allowHalfOpen: true });
    let received = "";
    socket.on("data", (chunk: Buffer) => (received += chunk.toString()));
    socket.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n");
    await eventually("the reply", () => received.includes("hello"));
    socket.write("late");
    await Bun.sleep(10);
    socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    await eventually("the second reply", () => received.split("hello").length === 3);
  });

  test("a client that sends garbage again and again is rejected once", async () => {
    const served = await start();
    const socket = await raw(served);
    lines.length = 0;
    socket.write("garbage\r\n\r\n".repeat(200));
    expect((await untilClosed(socket)).match(/HTTP\/1.1 400/g)).toHaveLength(1);
    expect(lines.filter((line) => line.includes("HTTP/1 error"))).toHaveLength(1);
  });

  test("a client that takes its time for a reply may, whatever the limit for its headers", async () => {
    const served = await start({
      limits: { headerTimeMs: 400 },
      handler: async () => {
        await Bun.sleep(800);
        return new Response("late");
      },
    });
    const socket = await raw(served);
    socket.write("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    expect(await untilClosed(socket)).toEndWith("late");
  });

  test("a client that cancels requests before their turn causes no work", async () => {
    let requests = 0;
    const served = await start({
      limits: { maxStreams: 100 },
      handler: () => {
        requests++;
        return hello();
      },
    });
    const socket = await raw(served, { ALPNProtocols: ["h2"] });
    socket.resume();
    const headersOf = (id: number): readonly number[] => [0, 0, 6, 1, 5, 0, 0, 0, id, 0x82, 0x84, 0x87, 0x41, 1, 0x78];
    const resetOf = (id: number): readonly number[] => [0, 0, 4, 3, 0, 0, 0, 0, id, 0, 0, 0, 8];
    const ids = Array.from({ length: 60 }, (_, i) => 1 + 2 * i);
    const frames = [...ids.flatMap(headersOf), ...ids.flatMap(resetOf)];
    const settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    socket.write(
      Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Buffer.from([...settings, ...frames])]),
    );
    await eventually("the first turn began", () => requests > 0);
    await alive(served);
    expect(requests).toBe(16 + 1);
  });

  test("a client that cancels more HTTP/2 streams than it may have in progress is disconnected", async () => {
    let requests = 0;
    const served = await start({
      limits: { maxStreams: 20 },
      handler: () => {
        requests++;
        return hello();
      },
    });
    const socket = await raw(served, { ALPNProtocols: ["h2"] });
    socket.resume();
    const closed = new Promise((resolve) => socket.once("close", resolve));
    // :method GET, :path /, :scheme https, :authority x; then RST_STREAM.
    const stream = (id: number): readonly number[] => {
      const ofStream = [0, 0, 0, (id >> 8) & 0xff, id & 0xff].slice(-4);
      return [0, 0, 6, 1, 5, ...ofStream, 0x82, 0x84, 0x87, 0x41, 1, 0x78, 0, 0, 4, 3, 0, ...ofStream, 0, 0, 0, 8];
    };
    const settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const streams = Array.from({ length: 1000 }, (_, i) => stream(1 + 2 * i)).flat();
    socket.write(
      Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Buffer.from([...settings, ...streams])]),
    );
    await closed;
    expect(requests).toBeGreaterThan(0);
    expect(requests).toBeLessThan(100);
    await alive(served);
  });

  test("a client that sends two Host headers, a fragment or another version over HTTP/1 is rejected", async () => {
    const served = await start();
    for (const head of [
      "GET / HTTP/1.1\r\nHost: a\r\nHost: b",
      "GET / HTTP/1.1",
      "GET /livez#x HTTP/1.1\r\nHost: a",
      "GET / HTTP/2.0\r\nHost: a",
      "GET / HTTP/0.9\r\nHost: a",
    ]) {
      const socket = await raw(served);
      socket.write(`${head}\r\nConnection: close\r\n\r\n`);
      expect(await untilClosed(socket)).toStartWith("HTTP/1.1 400");
    }
  });

  test("a client that declares a body and sends none gets its reply at once and is disconnected, over both protocols", async () => {
    const served = await start();
    const startedAt = performance.now();
    const socket = await raw(served);
    socket.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
    const [first] = await once(socket, "data");
    expect(String(first)).toStartWith("HTTP/1.1 200");
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    await untilClosed(socket);
    expect(performance.now() - startedAt).toBeLessThan(9_000);
    const stream = http2(served).request({ ":path": "/", ":method": "POST" });
    stream.on("error", () => undefined);
    stream.write("abc");
    const closed = once(stream, "close");
    const [headers] = await once(stream, "response");
    expect(headers[":status"]).toBe(200);
    stream.resume();
    await closed;
    await alive(served);
  });

  test("a client that sends its body too slowly is disconnected after the body timeout", async () => {
    const served = await start({
      limits: { bodyTimeMs: 100 },
      handler: async (request) => new Response(request.method === "GET" ? "hello" : await request.text()),
    });
    const socket = await raw(served);
    socket.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
    expect(await untilClosed(socket)).toContain("the request body did not arrive in time");
    await alive(served);
  });
});

describe("too many connections", () => {
  /** Marks connections of requests to /known as authenticated. */
  const handler: ServeOptions["handler"] = async (request, peer) => {
    if (new URL(request.url).pathname === "/known") peer.authenticated();
    return new Response("hello");
  };
  const keepAlive = async (served: Served, path: string): Promise<TLSSocket> => {
    const socket = await raw(served);
    socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
    await once(socket, "data");
    return socket;
  };

  test("the oldest connection is closed and the newest one is served", async () => {
    const served = await start({ limits: { maxConnections: 3 } });
    const held = [await raw(served), await raw(served), await raw(served)] as const;
    await alive(served);
    await untilClosed(held[0]);
    expect(held.map(({ closed }) => closed)).toEqual([true, false, false]);
  });

  test("an authenticated connection is kept, however old", async () => {
    const served = await start({ limits: { maxConnections: 2 }, handler });
    const known = await keepAlive(served, "/known");
    const stranger = await keepAlive(served, "/");
    await alive(served);
    await untilClosed(stranger);
    await alive(served);
    expect(known.closed).toBeFalse();
  });

  test("a new connection is rejected until one is closed when there are too many and all are authenticated", async () => {
    const served = await start({ limits: { maxConnections: 2 }, handler });
    const known = [await keepAlive(served, "/known"), await keepAlive(served, "/known")];
    expect(await rejection(raw(served))).not.toBe("");
    for (const socket of known) socket.destroy();
    await eventually("there is room again", async () => {
      const reply = await get(served).catch(() => undefined);
      return reply?.status === 200;
    });
  });

  test("the oldest connection of an address is closed when that address has too many, not one of another", async () => {
    const served = await start({ address: "0.0.0.0", limits: { maxConnectionsPerAddress: 2 } });
    const other = await raw(served, { localAddress: "127.0.0.2" });
    const held = [await raw(served), await raw(served)] as const;
    await alive(served);
    await untilClosed(held[0]);
    expect([other.closed, held[1].closed]).toEqual([false, false]);
  });

  test("the oldest connection of the address with the most is closed when there are too many in all, not the only one of another", async () => {
    const served = await start({ address: "0.0.0.0", limits: { maxConnections: 3 } });
    const probe = await raw(served, { localAddress: "127.0.0.2" });
    const held = [await raw(served), await raw(served)] as const;
    await alive(served);
    await untilClosed(held[0]);
    expect([probe.closed, held[1].closed]).toEqual([false, false]);
  });

  test("closed connections reduce the count of their address", async () => {
    const served = await start({ limits: { maxConnectionsPerAddress: 2 } });
    for (let i = 0; i < 5; i++) await alive(served);
    const held = await raw(served);
    await alive(served);
    expect(held.closed).toBeFalse();
  });
});

test("headers of requests in progress are bounded over all connections: the oldest connection is closed", async () => {
  const release = Promise.withResolvers<void>();
  const served = await start({
    limits: { maxHeldBytes: 180_000 },
    handler: async (request) => {
      if (new URL(request.url).pathname === "/wait") await release.promise;
      return new Response("hello");
    },
  });
  const waiting: TLSSocket[] = [];
  for (let i = 0; i < 4; i++) {
    const socket = await raw(served);
    socket.write(`GET /wait HTTP/1.1\r\nHost: x\r\nX-Long: ${"x".repeat(15_000)}\r\n\r\n`);
    waiting.push(socket);
    await Bun.sleep(20);
  }
  const [oldest, ...others] = waiting;
  if (oldest !== undefined) await untilClosed(oldest);
  expect(others.map(({ closed }) => closed)).toEqual([false, false, false]);
  release.resolve();
  await alive(served);
});

describe("a handler that fails", () => {
  test("is answered with a 500 and a fixed text, and its error is logged", async () => {
    const served = await start({ handler: () => Promise.reject(new Error("private reason")) });
    const reply = await get(served);
    expect(reply.status).toBe(500);
    expect(await reply.text()).not.toContain("private");
    expect(lines.join("")).toContain("private reason");
    expect((await over2(http2(served), { ":path": "/" })).headers[":status"]).toBe(500);
  });

  test("a handler that fails in the middle of its reply is answered with a 500", async () => {
    const served = await start({
      handler: () => {
        let first = true;
        const body = new ReadableStream<Uint8Array>({
          pull(controller) {
            if (!first) throw new Error("no more");
            first = false;
            controller.enqueue(new Uint8Array(10));
          },
        });
        return Promise.resolve(new Response(body));
      },
    });
    expect((await get(served)).status).toBe(500);
  });

  test("is notified by its signal when the client disconnects", async () => {
    const entered = Promise.withResolvers<AbortSignal>();
    const served = await start({
      handler: (request) => {
        entered.resolve(request.signal);
        return new Promise(() => undefined);
      },
    });
    const leave = new AbortController();
    const reply = rejection(get(served, "/", { signal: leave.signal }));
    const signal = await entered.promise;
    leave.abort();
    await reply;
    await eventually("the handler's signal aborts", () => signal.aborted);
  });
});
