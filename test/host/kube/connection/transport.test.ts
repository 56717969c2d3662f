import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { getEventListeners, once } from "node:events";
import type { ServerResponse } from "node:http";
import { createServer as createHttpsServer, type Server } from "node:https";
import { createServer } from "node:net";
import { promisify } from "node:util";

import { ApiError, CodedError, isNotFound } from "cloud-controller-host/sdk";
import { eventually, type ManualClock, manualClock } from "cloud-controller-host/sdk/testing";

import { requestMetrics } from "../../../../host/kube/connection/request-metrics.ts";
import { createTransport, type TransportOptions } from "../../../../host/kube/connection/transport.ts";
import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { errorOf } from "../../../kit/rejection.ts";
import { document } from "../protobuf/encode.ts";
import { pem, status, StubApi } from "../stub-api.ts";

let api: StubApi;
beforeEach(async () => {
  api = await StubApi.start();
});
afterEach(() => api.stop());

const get = { method: "GET", path: "/api/v1/nodes" } as const;
const connect = (options: Partial<TransportOptions> = {}, access = api.access()) =>
  createTransport(access, { userAgent: "ccm/1 (test)/unit", qps: -1, ...options });
const connectionsOf = (server: Server): Promise<number> => promisify(server.getConnections.bind(server))();
/** The ways in which a transport sends; each keeps the same promises. */
const ways = [
  ["pooled", { dedicated: false }],
  ["dedicated", { dedicated: true }],
] as const;

/** Moves time on from pause to pause until the call has ended. */
async function settled(clock: ManualClock, call: Promise<unknown>): Promise<void> {
  let ended = false;
  const ending = call.then(() => (ended = true));
  await eventually("the call ends", async () => {
    if (clock.sleepers > 0) await clock.advance(1000);
    return ended;
  });
  await ending;
}

describe.each(ways)("a request over a %s connection", (_, way) => {
  const connectThisWay = (options: Partial<TransportOptions> = {}, access = api.access()) =>
    connect({ ...way, ...options }, access);

  test("has the current client certificate, also after requests that had none", async () => {
    const [anonymous, known] = [api.access(), api.access({ withCertificate: true })];
    let current = anonymous;
    const transport = connectThisWay({}, { ...anonymous, credentials: () => current.credentials() });
    for (current of [anonymous, anonymous, known, known, anonymous]) await transport.send(get);
    expect(api.requests.map(({ clientName }) => clientName !== undefined)).toEqual([false, false, true, true, false]);
    transport.close();
  });

  test("is answered though the client certificate changes while it is in flight", async () => {
    const held = Promise.withResolvers<ServerResponse>();
    const server = createHttpsServer({ cert: pem.cert, key: pem.key }, (request, response) => {
      if (request.url === "/slow") held.resolve(response);
      else response.end("{}");
    });
    server.keepAliveTimeout = 0;
    await once(server.listen(0, "127.0.0.1"), "listening");
    const address = server.address();
    const url = `https://127.0.0.1:${typeof address === "object" ? address?.port : ""}`;
    const [anonymous, known] = [api.access(), api.access({ withCertificate: true })];
    let current = anonymous;
    const transport = connectThisWay({}, { ...anonymous, url, credentials: () => current.credentials() });
    const slow = transport.send({ method: "PUT", path: "/slow", body: {} });
    const response = await held.promise;
    current = known;
    await transport.send(get);
    response.end("{}");
    expect((await slow).status).toBe(200);
    transport.close();
    // Bun closes a connection that was in flight when its session was closed after half a minute.
    if (way.dedicated)
      await eventually("no connection is left", () => connectionsOf(server).then((count) => count === 0));
    server.closeAllConnections();
    server.close();
  });

  test("is sent with user agent, credentials, query and JSON body, uncompressed, over one connection", async () => {
    const transport = connectThisWay({}, api.access({ headers: { Authorization: "Bearer t" }, withCertificate: true }));
    for (let index = 0; index < 3; index++)
      await transport.send({ ...get, method: "POST", query: { a: "b c", none: undefined }, body: { n: index } });
    expect(api.requests).toHaveLength(3);
    expect(api.requests[2]).toMatchObject({ method: "POST", path: "/api/v1/nodes", body: '{"n":2}' });
    expect(api.requests[2]?.query.toString()).toBe("a=b+c");
    expect(api.requests[2]?.clientName).toStartWith("localhost@");
    expect(api.requests[2]?.headers).toMatchObject({
      "user-agent": "ccm/1 (test)/unit",
      authorization: "Bearer t",
      "content-type": "application/json",
      "accept-encoding": "identity",
      accept: "application/json",
    });
    expect(api.connections).toBe(1);
  });

  test("a request of another transport uses its own connection", async () => {
    await connectThisWay().send(get);
    await connectThisWay().send(get);
    expect(api.connections).toBe(2);
  });

  test("a request leaves no connection open once its transport is closed", async () => {
    const transport = connectThisWay();
    await transport.send(get);
    expect(api.openConnections).toBe(1);
    transport.close();
    await eventually("the connection is closed", () => api.openConnections === 0);
  });

  test("a request to a server whose certificate is unknown is refused, naming the server", async () => {
    const stranger = { ...api.access(), credentials: () => Promise.resolve({ tls: {}, headers: {} }) };
    const error = await errorOf(connectThisWay({}, stranger).send(get));
    expect(error).toMatchObject({ code: "ApiServerUnreachable", message: `cannot reach the API server ${api.url}` });
    expect(api.requests).toHaveLength(0);
  });

  test("a request that is refused becomes an ApiError with the message of the Status", async () => {
    api.intercept = () => status(409, "AlreadyExists", 'nodes "a" already exists');
    const error = await errorOf(connectThisWay().send(get));
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ status: 409, reason: "AlreadyExists", message: 'nodes "a" already exists' });
  });

  test("a Status in protobuf describes a request that is refused as one in JSON does", async () => {
    api.intercept = () => ({
      status: 409,
      headers: { "content-type": "application/vnd.kubernetes.protobuf" },
      body: document("Status", { code: 409, reason: "AlreadyExists", message: 'nodes "a" already exists' }),
    });
    expect(await errorOf(connectThisWay().send(get))).toMatchObject({
      status: 409,
      reason: "AlreadyExists",
      message: 'nodes "a" already exists',
    });
  });

  test("a request that is refused without a Status is described by its code", async () => {
    api.intercept = () => ({ status: 503, body: "<html>secret</html>" });
    expect(await errorOf(connectThisWay().send(get))).toMatchObject({
      status: 503,
      reason: "ServiceUnavailable",
      message: "GET /api/v1/nodes: the API server answered 503",
    });
  });

  test.each([
    ["a gateway's page", "default backend - 404"],
    ["a gateway's JSON", { type: "error", status: "404", code: "NotFound", message: "not found" }],
    ["nothing", undefined],
  ])(
    "a 404 with %s in place of a Status proves no absence: something else than the API server has answered",
    async (_name, body) => {
      api.intercept = () => ({ status: 404, body });
      const error = await errorOf(connectThisWay().send(get));
      expect(error).toMatchObject({ status: 404, reason: "Unknown" });
      expect(isNotFound(error)).toBe(false);
      api.intercept = () => status(404, "NotFound", 'nodes "a" not found');
      expect(isNotFound(await errorOf(connectThisWay().send(get)))).toBe(true);
    },
  );

  test("a request that gets no reply in time fails as a timeout", async () => {
    api.intercept = () => "hang";
    const error = await errorOf(connectThisWay({ timeoutMs: 50 }).send({ ...get, query: { secret: "s" } }));
    expect(error).toBeInstanceOf(CodedError);
    expect(error).toMatchObject({ code: "Timeout", message: `GET ${api.url}/api/v1/nodes: no reply within 0.05 s` });
  });

  test("a request that is aborted rejects with the signal's own reason and leaves no listener on it", async () => {
    api.intercept = () => "hang";
    const stop = new AbortController();
    const failure = errorOf(connectThisWay().send({ ...get, signal: stop.signal }));
    await eventually("the request is there", () => api.requests.length === 1);
    const reason = new Error("the generation ends");
    stop.abort(reason);
    expect(await failure).toBe(reason);
    expect(await errorOf(connectThisWay().send({ ...get, signal: stop.signal }))).toBe(reason);
    expect(api.requests).toHaveLength(1);
  });

  test("a request that waits for credentials, such as those of a plugin that hangs, ends with its signal", async () => {
    api.intercept = () => status(401, "Unauthorized", "Unauthorized");
    const access = api.access();
    const never = new Promise<never>(() => undefined);
    const [first, renewed] = [
      () => never,
      (options?: object) => (options === undefined ? access.credentials() : never),
    ];
    for (const hanging of [first, renewed]) {
      const stop = new AbortController();
      const transport = connectThisWay({}, { ...access, credentials: hanging });
      const failure = errorOf(transport.send({ ...get, signal: stop.signal }));
      await eventually("it is sent", () => hanging === first || api.requests.length === 1);
      await Bun.sleep(50);
      const reason = new Error("the generation ends");
      stop.abort(reason);
      expect(await failure).toBe(reason);
      expect(await errorOf(transport.send({ ...get, signal: stop.signal }))).toBe(reason);
      expect(getEventListeners(stop.signal, "abort")).toHaveLength(0);
    }
    expect(api.requests).toHaveLength(1);
  });

  test("leaves nothing on a signal that lives on, however it ends", async () => {
    const { signal } = new AbortController();
    const transport = connectThisWay({ timeoutMs: 500 });
    api.intercept = ({ query }) =>
      query.get("how") === "hang" ? "hang" : query.get("how") === "no" ? status(404, "", "") : undefined;
    for (const how of ["hang", "no", "yes"]) await errorOf(transport.send({ ...get, query: { how }, signal }));
    if (way !== ways[0][1]) return;
    const stream = await transport.send({ ...get, query: { watch: "true" }, stream: true, signal });
    expect(getEventListeners(signal, "abort")).toHaveLength(1);
    await stream.body?.cancel();
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
    await eventually("the server sees the watch end", () => api.watches === 0);
  });

  test("asks its guard right before each try", async () => {
    const clock = manualClock();
    api.intercept = () => ({ ...status(429, "TooManyRequests", "later"), headers: { "retry-after": "1" } });
    const allowed = { tries: 2 };
    const guard = (): void => {
      if (allowed.tries-- === 0) throw new Error("no more");
    };
    const failure = errorOf(connectThisWay({ clock }).send({ ...get, guard }));
    await settled(clock, failure);
    expect(await failure).toMatchObject({ message: "no more" });
    expect(api.requests).toHaveLength(2);
  });
});

describe("retries", () => {
  test("wait as long as the server asks, and give up after ten", async () => {
    const clock = manualClock();
    const began = clock.now();
    const waits: number[] = [];
    api.intercept = () => {
      waits.push(clock.now() - began);
      return { ...status(429, "TooManyRequests", "busy"), headers: { "retry-after": "3" } };
    };
    const failure = errorOf(connect({ clock }).send({ ...get, method: "POST", body: {} }));
    await settled(clock, failure);
    expect(await failure).toMatchObject({ status: 429, retryAfterMs: 3000 });
    expect(waits).toEqual(Array.from({ length: 11 }, (_, index) => index * 3000));
  });

  test("wait for a minute at most, whatever the server asks for", async () => {
    const clock = manualClock();
    const began = clock.now();
    const waits: number[] = [];
    api.intercept = () => {
      waits.push(clock.now() - began);
      const asks = waits.length === 1 ? "86400" : "9".repeat(400);
      return waits.length > 2 ? undefined : { ...status(503, "", "in maintenance"), headers: { "retry-after": asks } };
    };
    const reply = connect({ clock }).send(get);
    await settled(clock, reply);
    expect((await reply).status).toBe(200);
    expect(waits).toEqual([0, 60_000, 120_000]);
  });

  test.each([403, 404, 409])("do not happen for a refusal, whatever the server asks for: %d", async (code) => {
    api.intercept = () => ({ ...status(code, "", "no"), headers: { "retry-after": "0" } });
    expect(await errorOf(connect().send(get))).toMatchObject({ status: code, retryAfterMs: 0 });
    expect(api.requests).toHaveLength(1);
  });

  test("do not happen where the server does not say when", async () => {
    api.intercept = () => status(500, "InternalError", "no");
    expect(await errorOf(connect().send(get))).toMatchObject({ status: 500 });
    expect(api.requests).toHaveLength(1);
  });

  test("repair a read whose connection was cut, but never repeat a write", async () => {
    const clock = manualClock();
    const read = connect({ clock }).send(get);
    let cuts = 0;
    api.intercept = () => (cuts++ < 1 ? "reset" : undefined);
    await eventually("the read waits a second", () => clock.sleepers === 1);
    await clock.advance(1000);
    expect((await read).status).toBe(200);
    // A watch is begun again by its reader, which knows from where.
    for (const call of [{ ...get, method: "POST", body: {} } as const, { ...get, stream: true }]) {
      cuts = 0;
      const before = api.requests.length;
      expect(await errorOf(connect({ clock }).send(call))).toMatchObject({ code: "ApiServerUnreachable" });
      expect(api.requests.length - before).toBe(1);
    }
  });
});

describe("the rate limit", () => {
  test("passes the burst and delays the rest; a negative rate disables the limit", async () => {
    const clock = manualClock();
    const limited = connect({ qps: 2, burst: 3, clock });
    const all = Promise.all(Array.from({ length: 5 }, () => limited.send(get)));
    await eventually("the burst is there", () => api.requests.length === 3 && clock.sleepers === 2);
    await clock.advance(1000);
    await all;
    expect(api.requests).toHaveLength(5);
    const unlimited = connect({ qps: -1, clock });
    await Promise.all(Array.from({ length: 50 }, () => unlimited.send(get)));
    expect(api.requests).toHaveLength(55);
  });

  test("a request of zero is client-go's default of 5 a second with a burst of 10", async () => {
    const clock = manualClock();
    const transport = connect({ qps: 0, burst: 0, clock });
    const all = Promise.all(Array.from({ length: 12 }, () => transport.send(get)));
    await eventually("ten are there", () => api.requests.length === 10 && clock.sleepers === 2);
    await clock.advance(400);
    await all;
  });
});

test("replies that come together reach their callers a few per turn of the event loop", async () => {
  const transport = connect();
  const count = 40;
  const perTurn = new Map<number, number>();
  let turn = 0;
  const counting = setInterval(() => (turn += 1), 0);
  const ask = async (): Promise<void> => {
    await transport.send(get);
    perTurn.set(turn, (perTurn.get(turn) ?? 0) + 1);
    // Further replies come meanwhile.
    for (const until = performance.now() + 5; performance.now() < until;);
  };
  // The second time, all connections are open.
  for (let time = 0; time < 2; time++) await Promise.all(Array.from({ length: count }, ask));
  clearInterval(counting);
  expect([...perTurn.values()].reduce((sum, replies) => sum + replies)).toBe(2 * count);
  expect(Math.max(...perTurn.values())).toBeLessThanOrEqual(8);
});

test("a stream lasts longer than the limit of a request", async () => {
  const transport = connect({ timeoutMs: 500 });
  api.intercept = ({ query }) => (query.has("hang") ? "hang" : undefined);
  const stream = await transport.send({ ...get, query: { watch: "true" }, stream: true });
  const content = stream.text();
  // Sent later, with the same limit.
  expect(await errorOf(transport.send({ ...get, query: { hang: "true" } }))).toMatchObject({ code: "Timeout" });
  api.endWatches();
  expect((await content).trim()).toBe("");
});

test("requests are counted under client-go's metric names", async () => {
  const registry = new MetricsRegistry();
  const clock = manualClock();
  const transport = connect({ qps: 5, clock, observer: requestMetrics(registry.root) });
  let busy = true;
  api.intercept = () => {
    const answer = busy ? { ...status(429, "", ""), headers: { "retry-after": "1" } } : undefined;
    busy = false;
    return answer;
  };
  const sent = transport.send({ ...get, method: "PUT", body: { a: 1 } });
  await eventually("it waits", () => clock.sleepers === 1);
  await clock.advance(1000);
  await sent;
  const stream = await transport.send({ ...get, query: { watch: "true" }, stream: true });
  await stream.body?.cancel();
  const host = new URL(api.url).host;
  const text = (await registry.render()).body;
  expect(text).toContain(`rest_client_requests_total{code="429",method="PUT",host="${host}"} 1\n`);
  expect(text).toContain(`rest_client_requests_total{code="200",method="PUT",host="${host}"} 1\n`);
  expect(text).toContain(`rest_client_requests_total{code="200",method="GET",host="${host}"} 1\n`);
  expect(text).toContain(`rest_client_request_retries_total{code="429",verb="PUT",host="${host}"} 1\n`);
  expect(text).toContain(`rest_client_request_duration_seconds_count{verb="PUT",host="${host}"} 1\n`);
  expect(text).toContain(`rest_client_request_duration_seconds_bucket{le="60",verb="PUT",host="${host}"} 1\n`);
  const [, seconds] = /rest_client_request_duration_seconds_sum{verb="PUT".*} (.*)/.exec(text) ?? [];
  expect(Number(seconds)).toBeWithin(0, 60);
  expect(text).toContain(`rest_client_request_size_bytes_sum{verb="PUT",host="${host}"} 7\n`);
  expect(text).toContain(`rest_client_response_size_bytes_sum{verb="PUT",host="${host}"} 50\n`);
  expect(text).toContain(`rest_client_rate_limiter_duration_seconds_bucket{le="0.005",verb="PUT",host="${host}"} 2\n`);
  expect(text).not.toContain(`rest_client_request_duration_seconds_count{verb="GET"`);
});

test.each(ways)("a server that does not listen is named by a %s connection", async (_, way) => {
  const closed = createServer();
  await new Promise<void>((resolve) => closed.listen(0, "127.0.0.1", resolve));
  const address = closed.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  await new Promise((resolve) => closed.close(resolve));
  const url = `https://127.0.0.1:${port}`;
  expect(await errorOf(connect(way, { ...api.access(), url }).send(get))).toMatchObject({
    code: "ApiServerUnreachable",
    message: `cannot reach the API server ${url}`,
    cause: { code: "ECONNREFUSED" },
  });
});
