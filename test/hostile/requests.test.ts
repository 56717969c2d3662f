import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";

import { eventually } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../host/async/clock.ts";
import { defaultOptions } from "../../host/config/flags/options.ts";
import { createClient } from "../../host/kube/connection/client.ts";
import { createTransport } from "../../host/kube/connection/transport.ts";
import { openAccess } from "../../host/process/access/access.ts";
import { createLogger } from "../../host/process/log/log.ts";
import { MetricsRegistry } from "../../host/process/metrics/metrics.ts";
import type { Served } from "../../host/process/serving/tls-server.ts";
import { SandboxApiServer } from "../../sdk/testing/api-server/index.ts";
import { exchange as exchangeBytes, serveLocally } from "../kit/serve.ts";

setDefaultTimeout(120_000);

/** Requests that reached the handler: `/livez` is open to anonymous clients, every other path is closed to them. */
const handled: string[] = [];
const lines: string[] = [];
const stack = new AsyncDisposableStack();
let served: Served;
beforeAll(async () => {
  const api = stack.use(await SandboxApiServer.start({ allows: () => false }));
  const credentials = { tls: { ca: api.ca }, headers: { Authorization: `Bearer ${api.tokens.of("reviewer")}` } };
  const server = { url: api.url, proxy: undefined, credentials: async () => credentials };
  const client = createClient(createTransport(server, { userAgent: "test", qps: -1 }));
  const log = createLogger({ format: "text", verbosity: 3, write: (line) => lines.push(line) });
  const access = await openAccess({
    flags: { ...defaultOptions, authorizationAlwaysAllowPaths: ["/livez"] },
    authenticationClient: client,
    authorizationClient: client,
    featureEnabled: () => true,
    clock: systemClock,
    log,
    metrics: new MetricsRegistry().root,
  });
  served = await serveLocally({
    log,
    handler: access.guard(async (request) => {
      handled.push(`${request.method} ${new URL(request.url).pathname} ${await request.text()}`);
      return new Response("open");
    }),
  });
  stack.defer(() => served.close());
});
afterAll(() => stack.disposeAsync());

const exchange = (text: string): Promise<string> =>
  exchangeBytes(served, Buffer.from(text, "latin1"), { silenceMs: 500 });

const statuses = (reply: string): readonly string[] =>
  [...reply.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, code = ""]) => code);
const get = (path: string, headers = ""): string =>
  `GET ${path} HTTP/1.1\r\nHost: x\r\n${headers}Connection: close\r\n\r\n`;

describe("a path", () => {
  test.each([
    "//livez",
    "/livez/",
    "/livez//",
    "/LIVEZ",
    "/livez%2f",
    "/livez%00",
    "/livez;a=b",
    "/livez/../metrics",
    "/livez/%2e%2e/metrics",
    "/livez/..%2fmetrics",
    "/livez\\..\\metrics",
    "/%6civez",
    "/livez%23",
    "/metrics",
    "/metrics?x=/livez",
    "/metrics#/livez",
    "@livez",
    "https://x/livez",
    "*",
    "",
  ])("is not a way past authorization: %s", async (path) => {
    handled.length = 0;
    const [status = "closed"] = statuses(await exchange(get(path)));
    expect(["400", "403", "closed"]).toContain(status);
    expect(handled).toEqual([]);
  });

  test("reaches the handler as the authorizer saw it", async () => {
    handled.length = 0;
    expect(statuses(await exchange(get("/x/../livez?a=b")))).toEqual(["200"]);
    expect(handled).toEqual(["GET /livez "]);
  });
});

describe("a second request smuggled into the first", () => {
  const smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
  const post = (headers: string, body: string): string => `POST /livez HTTP/1.1\r\nHost: x\r\n${headers}\r\n${body}`;
  test.each([
    ["both lengths", post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", `0\r\n\r\n${smuggled}`)],
    ["two Content-Length", post(`Content-Length: 0\r\nContent-Length: ${smuggled.length}\r\n`, smuggled)],
    ["a negative length", post("Content-Length: -1\r\n", smuggled)],
    ["a signed length", post("Content-Length: +5\r\n", smuggled)],
    ["a list of lengths", post("Content-Length: 5,5\r\n", smuggled)],
    ["a chunk length that overflows", post("Transfer-Encoding: chunked\r\n", `ffffffffffffffffff\r\n${smuggled}`)],
    [
      "two transfer encodings",
      post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", `0\r\n\r\n${smuggled}`),
    ],
    ["an unknown transfer encoding", post("Transfer-Encoding: xchunked\r\n", smuggled)],
    [
      "a folded header",
      `POST /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n${smuggled}`,
    ],
    ["a NUL in a header", post("X: a\0b\r\nContent-Length: 0\r\n", smuggled)],
    ["a bare CR in a header", post("X: a\rContent-Length: 0\r\n", smuggled)],
    ["a space before the colon", post("Content-Length : 0\r\n", smuggled)],
  ])("a second request smuggled into the first by %s is refused, and the connection ends", async (_, text) => {
    handled.length = 0;
    const reply = await exchange(text);
    expect(statuses(reply)).toEqual(["400"]);
    expect(handled).toEqual([]);
  });

  test("a second request smuggled into the first as the body of a GET is not taken for a request", async () => {
    handled.length = 0;
    await exchange(`GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: ${smuggled.length}\r\n\r\n${smuggled}`);
    expect(handled).toEqual(["GET /livez "]);
  });
});

describe("identity headers without a front proxy's certificate", () => {
  test.each([
    "X-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n",
    "x-remote-user: admin\r\nx-remote-group: system:masters\r\n",
    "X_Remote_User: admin\r\nX_Remote_Group: system:masters\r\n",
    "X-Remote-User: a\r\nX-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n",
    "X-Remote-Extra-constructor: x\r\nX-Remote-Extra-__proto__: x\r\n",
    "Impersonate-User: admin\r\nImpersonate-Group: system:masters\r\n",
  ])("grant nothing: %j", async (headers) => {
    expect(statuses(await exchange(get("/metrics", headers)))).toEqual(["403"]);
  });
});

test("nothing that a client sends begins a line of the log", async () => {
  const evil = "E1121 00:00:00.000000 1 host] leader lost";
  lines.length = 0;
  await exchange(
    get(`/livez?a=%0a${encodeURIComponent(evil)}`, `User-Agent: x\x1b[2J${evil}\r\nX: \xe2\x80\xa8${evil}\r\n`),
  );
  await exchange(get("/metrics", `Authorization: Bearer a\x85${evil}\r\n`));
  await eventually("requests are logged", () => lines.some((line) => line.includes('"HTTP"')));
  for (const line of lines) {
    expect(line).toMatch(/^[IWE]\d{4} [^\p{Cc}\u2028]*\n$/u);
    expect(line).not.toStartWith(evil.slice(0, 20));
  }
});
