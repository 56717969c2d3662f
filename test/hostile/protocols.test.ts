import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";

import type { Served } from "../../host/process/serving/tls-server.ts";
import { exchange, serveLocally } from "../kit/serve.ts";

setDefaultTimeout(120_000);

let served: Served;
let handled = 0;
beforeAll(async () => {
  served = await serveLocally({
    limits: { headerTimeMs: 2_000 },
    handler: async () => {
      handled++;
      return new Response("hello");
    },
  });
});
afterAll(() => served.close());

const get = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/** What the server may do: nothing at all, or reject it over HTTP/1. */
const rejected = /^(HTTP\/1\.1 4\d\d .*)?$/s;
/** Frames of HTTP/2 without a reply: SETTINGS, GOAWAY, RST_STREAM and the like. */
const noReply = /^(?!.*hello).*$/s;

const oddities: readonly (readonly [name: string, protocols: readonly string[], bytes: string, reply: RegExp])[] = [
  ["offers only HTTP/3", ["h3"], get, rejected],
  ["offers only SPDY", ["spdy/3.1"], get, rejected],
  ["offers a protocol of 255 bytes", ["x".repeat(255)], get, rejected],
  ["begins HTTP/2 after it negotiated HTTP/1.1", ["http/1.1"], preface, rejected],
  ["sends HTTP/1.1 after it negotiated HTTP/2", ["h2"], get, noReply],
  ["sends half a preface", ["h2"], preface.slice(0, 12), noReply],
  ["sends HTTP/0.9", ["http/1.1"], "GET /\r\n\r\n", rejected],
  ["claims HTTP/2.0 in a request of HTTP/1", ["http/1.1"], "GET / HTTP/2.0\r\nHost: x\r\n\r\n", rejected],
  ["claims HTTP/1.2", ["http/1.1"], "GET / HTTP/1.2\r\nHost: x\r\n\r\n", rejected],
  ["connects as to a proxy", ["http/1.1"], "CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n", rejected],
  ["names a whole URL", ["http/1.1"], "GET https://x/livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", rejected],
  ["uses an unknown method", ["http/1.1"], "EVIL / HTTP/1.1\r\nHost: x\r\n\r\n", rejected],
  ["separates with line feeds alone", ["http/1.1"], "GET / HTTP/1.1\nHost: x\n\n", rejected],
  ["has a space before the colon of a header", ["http/1.1"], "GET / HTTP/1.1\r\nHost : x\r\n\r\n", rejected],
  ["has a NUL in its path", ["http/1.1"], "GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n", rejected],
  ["sends TLS within TLS", ["http/1.1"], "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", rejected],
];

for (const [name, protocols, bytes, expected] of oddities)
  test(`a client that ${name} reaches no handler, and the next one is served`, async () => {
    handled = 0;
    expect(await exchange(served, Buffer.from(bytes, "latin1"), { protocols })).toMatch(expected);
    expect(handled).toBe(0);
    expect(await exchange(served, Buffer.from(get), { protocols: ["http/1.1"] })).toContain("hello");
  });
