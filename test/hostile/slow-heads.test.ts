import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { once } from "node:events";
import { connect as connectTcp, createServer, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

import type { Served } from "../../host/process/serving/tls-server.ts";
import { frame, headers, preface } from "../kit/http2-frames.ts";
import { serveLocally } from "../kit/serve.ts";

setDefaultTimeout(120_000);

const headerTimeMs = 1_500;
const idleTimeMs = 2_500;
/** Of a timer on a busy machine. */
const latenessMs = 2_500;
/** So often a byte comes: the connection is never silent. */
const periodMs = 10;
const clients = 20;

let served: Served;
beforeAll(async () => {
  served = await serveLocally({
    limits: { headerTimeMs, idleTimeMs },
    handler: async () => new Response("hello"),
  });
});
afterAll(() => served.close());

/** The first message of a TLS client, as one sends it to a server that reads it. */
async function clientHello(): Promise<Buffer> {
  const heard = Promise.withResolvers<Buffer>();
  const server = createServer((socket) => socket.on("error", () => undefined).once("data", heard.resolve));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  const port = address !== null && typeof address === "object" ? address.port : 0;
  const client = connectTls({ host: "127.0.0.1", port, rejectUnauthorized: false }).on("error", () => undefined);
  const hello = await heard.promise;
  client.destroy();
  server.close();
  return hello;
}

async function connected(protocol: string | undefined): Promise<Socket> {
  const at = { host: "127.0.0.1", port: served.port };
  const options = { ...at, rejectUnauthorized: false, ALPNProtocols: protocol === undefined ? [] : [protocol] };
  const socket: Socket = protocol === undefined ? connectTcp(at) : connectTls(options);
  socket.on("error", () => undefined).resume();
  await once(socket, protocol === undefined ? "connect" : "secureConnect");
  return socket;
}

/** Sends a byte at a time until the connection ends, `bytes` again and again; returns how long it took. */
async function drip(socket: Socket, bytes: Uint8Array): Promise<number> {
  const began = performance.now();
  for (let i = 0; !socket.destroyed && performance.now() - began < 20_000; i++) {
    socket.write(bytes.subarray(i % bytes.length, (i % bytes.length) + 1));
    await Bun.sleep(periodMs);
  }
  const tookMs = performance.now() - began;
  socket.destroy();
  return tookMs;
}

const line = Buffer.from("GET / HTTP/1.1\r\nHost: x\r\n");
const manyHeaders = Buffer.from("X-A: b\r\n");
const request = Buffer.from("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
const largeHeaders = Buffer.concat([frame(1, 0x4, 3, Buffer.alloc(4_000, headers))]);
const manySettings = frame(4, 0, 0, Buffer.alloc(12_000, Buffer.from([0, 3, 0, 0, 0, 100])));
const nothing = Buffer.alloc(0);

const drips: readonly {
  readonly what: string;
  readonly protocol: string | undefined;
  /** Sent at once. */
  readonly first: Buffer;
  readonly bytes: Buffer | (() => Promise<Buffer>);
  readonly limitMs: number;
}[] = [
  { what: "their TLS handshake", protocol: undefined, first: nothing, bytes: clientHello, limitMs: headerTimeMs },
  {
    what: "their request line",
    protocol: "http/1.1",
    first: nothing,
    bytes: Buffer.from(`GET /${"a".repeat(5_000)}`),
    limitMs: headerTimeMs,
  },
  { what: "their headers", protocol: "http/1.1", first: line, bytes: manyHeaders, limitMs: headerTimeMs },
  {
    what: "the headers of their second request",
    protocol: "http/1.1",
    first: Buffer.concat([request, line]),
    bytes: manyHeaders,
    limitMs: idleTimeMs,
  },
  { what: "their HTTP/2 settings", protocol: "h2", first: preface, bytes: manySettings, limitMs: headerTimeMs },
  {
    what: "the start of their HTTP/2 connection",
    protocol: "h2",
    first: nothing,
    bytes: Buffer.concat([preface.subarray(0, 24), manySettings]),
    limitMs: headerTimeMs,
  },
  { what: "their HTTP/2 headers", protocol: "h2", first: preface, bytes: largeHeaders, limitMs: headerTimeMs },
  {
    what: "their HTTP/2 continuations",
    protocol: "h2",
    first: Buffer.concat([preface, frame(1, 0, 1, headers)]),
    bytes: frame(9, 0, 1, Buffer.from("a")),
    limitMs: headerTimeMs,
  },
  {
    what: "the headers of their second HTTP/2 request",
    protocol: "h2",
    first: Buffer.concat([preface, frame(1, 0x5, 1, headers)]),
    bytes: largeHeaders,
    limitMs: idleTimeMs,
  },
];

for (const { what, protocol, first, bytes, limitMs } of drips)
  test(`twenty clients that send ${what} a byte at a time are cut off in time, and delay no other`, async () => {
    const dripped = typeof bytes === "function" ? await bytes() : bytes;
    const ended = new AbortController();
    const attack = async (): Promise<number> => {
      const socket = await connected(protocol);
      if (first.length > 0) socket.write(first);
      return drip(socket, dripped);
    };
    const attacks = Promise.all(Array.from({ length: clients }, attack)).finally(() => ended.abort());
    const delays: number[] = [];
    while (!ended.signal.aborted) {
      const began = performance.now();
      const reply = await fetch(`https://127.0.0.1:${served.port}/`, {
        keepalive: false,
        tls: { rejectUnauthorized: false },
      });
      expect(await reply.text()).toBe("hello");
      delays.push(performance.now() - began);
      await Bun.sleep(50);
    }
    const tookMs = await attacks;
    expect(Math.max(...tookMs)).toBeLessThan(limitMs + latenessMs);
    // The load of the machine delays one or another.
    expect(delays.toSorted((a, b) => a - b)[Math.floor(delays.length / 2)]).toBeLessThan(500);
  });
