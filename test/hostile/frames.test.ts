import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";

import { createLogger } from "../../host/process/log/log.ts";
import type { Served } from "../../host/process/serving/tls-server.ts";
import { frame, headers as plainHeaders, preface } from "../kit/http2-frames.ts";
import { exchange as exchangeBytes, serveLocally } from "../kit/serve.ts";

setDefaultTimeout(120_000);

const handled: string[] = [];
const lines: string[] = [];
let served: Served;
beforeAll(async () => {
  served = await serveLocally({
    log: createLogger({ format: "text", verbosity: 0, write: (line) => lines.push(line) }),
    limits: { headerTimeMs: 2_000, idleTimeMs: 2_000, bodyTimeMs: 1_000 },
    handler: async (request) => {
      const { pathname } = new URL(request.url);
      const body = await request.text();
      handled.push(`${pathname} ${body} ${[...request.headers.keys()].join()}`.trim());
      return new Response("hello");
    },
  });
});
afterAll(() => served.close());

const exchange = (protocol: string, bytes: Buffer): Promise<string> =>
  exchangeBytes(served, bytes, { protocols: [protocol] });

/** A field that is neither indexed nor compressed. */
const field = (name: string, value: string): Buffer =>
  Buffer.concat([
    Buffer.from([0, name.length]),
    Buffer.from(name, "latin1"),
    Buffer.of(value.length),
    Buffer.from(value),
  ]);
const get = field(":method", "GET");
const post = field(":method", "POST");
const https = field(":scheme", "https");
const authority = field(":authority", "x");
const path = (name: string): Buffer => field(":path", `/${name.replaceAll(" ", "-")}`);

const endHeaders = 0x4;
const complete = 0x5;
const padded = 0x8;
/** The head of a request, with the end of the stream or without. */
const head = (flags: number, ...fields: readonly Buffer[]): Buffer => frame(1, flags, 1, Buffer.concat(fields));

const malformed: Readonly<Record<string, Buffer>> = {
  "a name in upper case": head(complete, get, https, authority, path("upper"), field("X-Upper", "a")),
  "a header of a connection": head(complete, get, https, authority, path("connection"), field("connection", "close")),
  "a transfer encoding": head(complete, get, https, authority, path("encoding"), field("transfer-encoding", "chunked")),
  "te: gzip": head(complete, get, https, authority, path("te"), field("te", "gzip")),
  "without a path": head(complete, get, https, authority),
  "an empty path": head(complete, get, https, authority, field(":path", "")),
  "a URL for a path": head(complete, get, https, authority, field(":path", "https://x/livez")),
  "a path with a space": head(complete, get, https, authority, field(":path", "/livez HTTP/1.1")),
  "without a scheme": head(complete, get, authority, path("scheme")),
  "two paths": head(complete, get, https, authority, path("first"), path("second")),
  "a pseudo-header at the end": head(complete, get, https, authority, field("a", "b"), path("late")),
  "an unknown pseudo-header": head(complete, get, https, authority, path("unknown"), field(":evil", "a")),
  "CONNECT to a protocol": head(
    complete,
    field(":method", "CONNECT"),
    field(":protocol", "websocket"),
    https,
    authority,
    path("ws"),
  ),
  "a line break in a value": head(complete, get, https, authority, path("break"), field("x", "a\r\nauthorization: b")),
  "a NUL in a value": head(complete, get, https, authority, path("nul"), field("x", "a\0b")),
  "a line break in a name": head(complete, get, https, authority, path("name"), field("x\r\ny", "a")),
  "a colon in a name": head(complete, get, https, authority, path("colon"), field("x:y", "a")),
  "an empty name": head(complete, get, https, authority, path("empty"), field("", "a")),
  "an even stream": frame(1, complete, 2, plainHeaders),
  "stream 0": frame(1, complete, 0, plainHeaders),
  "data for an idle stream": frame(0, 0, 9, Buffer.from("x")),
  "a reset of an idle stream": frame(3, 0, 7, Buffer.alloc(4)),
  "a window update of 0": frame(8, 0, 0, Buffer.alloc(4)),
  "a window that overflows": frame(8, 0, 0, Buffer.from([0x7f, 255, 255, 255])),
  "an initial window of 4 GB": frame(4, 0, 0, Buffer.from([0, 4, 255, 255, 255, 255])),
  "a largest frame of 0": frame(4, 0, 0, Buffer.from([0, 5, 0, 0, 0, 0])),
  "half a setting": frame(4, 0, 0, Buffer.alloc(5)),
  "settings of a stream": frame(4, 0, 1),
  "settings in an acknowledgement": frame(4, 1, 0, Buffer.alloc(6)),
  "a table of 256 MB": frame(1, complete, 1, Buffer.from([0x3f, 255, 255, 255, 0x7f])),
  "an index that does not exist": frame(1, complete, 1, Buffer.from([255, 255, 0x7f])),
  "an index without an end": frame(1, complete, 1, Buffer.alloc(20, 255)),
  "an invalid Huffman code": head(complete, get, https, authority, Buffer.from([0, 0x81, 255, 1, 0x61])),
  "a promise": frame(5, endHeaders, 1, Buffer.concat([Buffer.alloc(4, 2), plainHeaders])),
  "more padding than frame": frame(1, complete | padded, 1, Buffer.concat([Buffer.of(255), plainHeaders])),
  "a priority of 4 bytes": frame(2, 0, 3, Buffer.alloc(4)),
  "a ping of 7 bytes": frame(6, 0, 0, Buffer.alloc(7)),
  "a frame of 16 MB": Buffer.from([255, 255, 255, 0, 0, 0, 0, 0, 1]),
  "a continuation without headers": frame(9, endHeaders, 1, plainHeaders),
  "other headers within a continuation": Buffer.concat([
    frame(1, 0, 1, plainHeaders),
    frame(1, complete, 3, plainHeaders),
  ]),
  "fewer bytes than declared": Buffer.concat([
    head(endHeaders, post, https, authority, path("few"), field("content-length", "20")),
    frame(0, 1, 1, Buffer.from("xx")),
  ]),
  "more bytes than declared": Buffer.concat([
    head(endHeaders, post, https, authority, path("many"), field("content-length", "2")),
    frame(0, 1, 1, Buffer.from("xxxxxxxxxx")),
  ]),
  "a body that it resets": Buffer.concat([
    head(endHeaders, post, https, authority, path("reset")),
    frame(0, 0, 1, Buffer.from("x")),
    frame(3, 0, 1, Buffer.from([0, 0, 0, 8])),
  ]),
  "a path in its trailers": Buffer.concat([
    head(endHeaders, post, https, authority, path("trailers")),
    frame(0, 0, 1, Buffer.from("x")),
    head(complete, path("smuggled")),
  ]),
};

test("malformed frames and requests of HTTP/2 are refused one by one, no handler completes one, and the next client is served", async () => {
  handled.length = 0;
  const replies = await Promise.all(
    Object.entries(malformed).map(async ([name, bytes]) => [
      name,
      (await exchange("h2", Buffer.concat([preface, bytes]))).includes("hello"),
    ]),
  );
  expect(replies.filter(([, isServed]) => isServed === true)).toEqual([]);
  expect(handled).toEqual([]);
  const valid = head(complete, get, https, authority, path("valid"));
  expect(await exchange("h2", Buffer.concat([preface, valid]))).toContain("hello");
  expect(handled).toEqual(["/valid"]);
  // Requests of other tests end when their client does.
  expect(lines.filter((line) => !line.includes('path="/endless"'))).toEqual([]);
});

test("fields of a trailer are no headers of their request, over both protocols", async () => {
  handled.length = 0;
  const evil = "authorization: Bearer x\r\nx-remote-user: admin\r\n";
  const one = `POST /one HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n1\r\na\r\n0\r\n${evil}\r\n`;
  expect(await exchange("http/1.1", Buffer.from(one))).toContain("hello");
  const two = [
    head(endHeaders, post, https, authority, path("two")),
    frame(0, 0, 1, Buffer.from("a")),
    head(complete, field("authorization", "Bearer x"), field("x-remote-user", "admin")),
  ];
  expect(await exchange("h2", Buffer.concat([preface, ...two]))).toContain("hello");
  expect(handled).toEqual(["/one a connection,host,transfer-encoding", "/two a"]);
});

test("many fields in a trailer, and an extension of a chunk without an end, end the connection", async () => {
  handled.length = 0;
  const post1 = "POST /endless HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1";
  expect(await exchange("http/1.1", Buffer.from(`${post1}\r\na\r\n0\r\n${"a: b\r\n".repeat(100_000)}\r\n`))).toMatch(
    / 4\d\d /,
  );
  expect(await exchange("http/1.1", Buffer.from(`${post1};${"x".repeat(2_000_000)}`))).toMatch(/ 4\d\d /);
  expect(handled).toEqual([]);
});

const upgrade = (protocol: string): string =>
  `GET /${protocol} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: ${protocol}\r\nHTTP2-Settings: AAMAAABk\r\n` +
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
for (const protocol of ["h2c", "websocket"])
  test(`a request to change to ${protocol} gets the usual answer, and what follows is not read as that protocol`, async () => {
    handled.length = 0;
    const reply = await exchange(
      "http/1.1",
      Buffer.concat([Buffer.from(upgrade(protocol)), preface, frame(1, complete, 1, plainHeaders)]),
    );
    expect(reply).toStartWith("HTTP/1.1 200 ");
    expect(reply).not.toContain(" 101 ");
    expect(handled.map((line) => line.split(" ", 1).join())).toEqual([`/${protocol}`]);
  });

test("a client that may continue with its body and does not is cut off", async () => {
  handled.length = 0;
  const expecting = "POST /expect HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
  const began = performance.now();
  const reply = await exchange("http/1.1", Buffer.from(expecting));
  expect(reply).toStartWith("HTTP/1.1 100 ");
  expect(performance.now() - began).toBeLessThan(5_000);
  expect(handled).toEqual([]);
});
