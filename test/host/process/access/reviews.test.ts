import { fullGC, heapSize } from "bun:jsc";
import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";

import { ApiError } from "cloud-controller-host/sdk";
import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import { createClient } from "../../../../host/kube/connection/client.ts";
import { createTransport } from "../../../../host/kube/connection/transport.ts";
import { authorizeBy, type Authorizer } from "../../../../host/process/access/authorization.ts";
import { bearerTokens } from "../../../../host/process/access/bearer-token.ts";
import { createBundleCheck } from "../../../../host/process/access/client-certificate.ts";
import { readDelegatedAuthConfig } from "../../../../host/process/access/delegated-auth-config.ts";
import { accessMetrics } from "../../../../host/process/access/metrics.ts";
import { ReviewClient } from "../../../../host/process/access/reviews.ts";
import type { User } from "../../../../host/process/access/user.ts";
import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { rejection } from "../../../kit/rejection.ts";
import { StubApi } from "../../kube/stub-api.ts";

setDefaultTimeout(120_000);

let api: StubApi;
let clock: ReturnType<typeof manualClock>;
beforeEach(async () => {
  api = await StubApi.start();
  clock = manualClock();
});
afterEach(() => api.stop());

const replying = (...statuses: readonly object[]): void => {
  let next = 0;
  api.intercept = () => ({
    status: 201,
    body: { metadata: {}, status: statuses[Math.min(next++, statuses.length - 1)] },
  });
};
const client = () => createClient(createTransport(api.access(), { userAgent: "test", qps: -1 }));
const metrics = () => accessMetrics(new MetricsRegistry().root);

const authorizer = (alwaysAllowPaths: readonly string[] = []): Authorizer =>
  authorizeBy({
    client: client(),
    clock,
    metrics: metrics(),
    alwaysAllowPaths,
    allowedTtlMs: 10_000,
    deniedTtlMs: 10_000,
  });
const jane: User = { name: "jane", uid: "1", groups: ["dev"], extra: { scope: ["a"] } };
const read = { verb: "get", path: "/metrics" };
const decisions = async (authorize: Authorizer, ...users: readonly User[]): Promise<readonly string[]> => {
  const results: string[] = [];
  for (const user of users) results.push((await authorize(user, read)).result);
  return results;
};

const peer = {
  address: "",
  port: 0,
  httpVersion: 1,
  certificate: undefined,
  headerValues: () => [],
  authenticated: () => undefined,
};

describe("a decision", () => {
  test.each([
    ["name", { name: "john" }],
    ["UID", { uid: "2" }],
    ["groups", { groups: ["ops"] }],
    ["extra", { extra: { scope: ["b"] } }],
  ])("is not shared with a user that differs only in %s", async (_, difference) => {
    replying({ allowed: true }, { allowed: false });
    expect(await decisions(authorizer(), jane, { ...jane, ...difference }, jane)).toEqual([
      "allowed",
      "no-opinion",
      "allowed",
    ]);
    expect(api.requests).toHaveLength(2);
  });

  test.each([
    ["/livez", "allowed"],
    ["/livez/ping", "no-opinion"],
    ["/x/livez", "no-opinion"],
    ["/debug/", "allowed"],
    ["/debug/pprof", "allowed"],
    ["/debug", "no-opinion"],
    ["/x/debug/pprof", "no-opinion"],
    ["/", "no-opinion"],
  ])("about %s, with /livez and debug/* always allowed, is: %s", async (path, result) => {
    replying({ allowed: false });
    const decision = await authorizer(["/livez", "debug/*"])(jane, { verb: "get", path });
    expect(decision).toMatchObject({ result });
  });

  test("is not shared between paths or verbs", async () => {
    replying({ allowed: true }, { allowed: false });
    const authorize = authorizer();
    expect((await authorize(jane, read)).result).toBe("allowed");
    expect((await authorize(jane, { verb: "get", path: "/configz" })).result).toBe("no-opinion");
    expect((await authorize(jane, { verb: "put", path: "/metrics" })).result).toBe("no-opinion");
  });

  test("is not cached for a user whose attributes exceed 10,000 characters", async () => {
    replying({ allowed: true }, { allowed: false });
    const large = { ...jane, groups: ["x".repeat(10_000)] };
    expect(await decisions(authorizer(), large, large)).toEqual(["allowed", "no-opinion"]);
  });

  test("is cached without the path that a stranger has sent, which may be long", async () => {
    const replies = { create: async <T>(_: unknown, review: T): Promise<T> => ({ ...review, status: {} }) };
    const authorize = authorizeBy({
      client: { ...client(), ...replies },
      clock,
      metrics: metrics(),
      alwaysAllowPaths: [],
      allowedTtlMs: 10_000,
      deniedTtlMs: 10_000,
    });
    await authorize(jane, read);
    fullGC();
    const before = heapSize();
    for (let i = 0; i < 1_000; i++) await authorize(jane, { verb: "get", path: `/${i}/${"x".repeat(9_000)}` });
    fullGC();
    expect((heapSize() - before) / 1e6).toBeLessThan(3);
  });

  test("a decision that is both allowed and denied is denied", async () => {
    replying({ allowed: true, denied: true, reason: "policy" });
    expect(await authorizer()(jane, read)).toEqual({ result: "denied", reason: "policy" });
  });

  test("expires after its TTL", async () => {
    replying({ allowed: true }, { allowed: false });
    const authorize = authorizer();
    expect(await decisions(authorize, jane)).toEqual(["allowed"]);
    await clock.advance(9_999);
    expect(await decisions(authorize, jane)).toEqual(["allowed"]);
    await clock.advance(1);
    expect(await decisions(authorize, jane)).toEqual(["no-opinion"]);
  });

  test("is not cached as a refusal when the authorizer could not evaluate it", async () => {
    replying({ allowed: false, evaluationError: "webhook is down" }, { allowed: true });
    expect(await decisions(authorizer(), jane, jane)).toEqual(["no-opinion", "allowed"]);
  });
});

describe("a token", () => {
  const authenticator = (counted = metrics()) => {
    const authenticate = bearerTokens({ client: client(), clock, metrics: counted, ttlMs: 10_000 });
    return (token = "abc") =>
      authenticate(new Request("https://x/", { headers: { Authorization: `Bearer ${token}` } }), peer);
  };
  const known = { authenticated: true, user: { username: "jane" } };

  test("is reviewed again when the cached reply has expired", async () => {
    replying(known, { authenticated: false });
    const authenticate = authenticator();
    expect(await authenticate()).toMatchObject({ name: "jane" });
    await clock.advance(9_999);
    expect(await authenticate()).toMatchObject({ name: "jane" });
    await clock.advance(1);
    expect(await rejection(authenticate())).toBe("invalid bearer token");
  });

  test("does not share its reply with another token, cached or in flight", async () => {
    replying(known, { authenticated: true, user: { username: "john" } });
    const authenticate = authenticator();
    const names = await Promise.all([authenticate("abc"), authenticate("abd")]);
    expect(new Set(names.map((user) => user?.name))).toEqual(new Set(["jane", "john"]));
    expect((await authenticate("abc"))?.name).not.toBe((await authenticate("abd"))?.name);
    expect(api.requests).toHaveLength(2);
  });

  test("a token whose review failed is reviewed again, and returns the failure's message", async () => {
    replying({ authenticated: false, error: "oidc: provider is down" }, known);
    const registry = new MetricsRegistry();
    const authenticate = authenticator(accessMetrics(registry.root));
    expect(await rejection(authenticate())).toBe("token review failed: oidc: provider is down");
    // As documented by `help TokenReview`.
    expect(api.requests).toHaveLength(1);
    expect(await authenticate()).toMatchObject({ name: "jane" });
    const fetches = await registry.samples("authentication_token_cache_fetch_total");
    expect(fetches.map(({ labels, value }) => [labels["status"], value])).toEqual([
      ["error", 1],
      ["ok", 1],
    ]);
  });

  test("counts as a review in flight, and its further requests as blocked, until they are answered", async () => {
    const registry = new MetricsRegistry();
    const counts = async (): Promise<readonly (number | undefined)[]> => {
      const samples = await registry.samples("authentication_token_cache_active_fetch_count");
      return ["in_flight", "blocked"].map((status) => samples.find(({ labels }) => labels["status"] === status)?.value);
    };
    api.intercept = () => "hang";
    const authenticate = authenticator(accessMetrics(registry.root));
    const waiting = ["abc", "abc", "abc", "abd"].map((token) => rejection(authenticate(token)));
    await eventually("both reviews are there", () => api.requests.length === 2);
    expect(await counts()).toEqual([2, 2]);
    await eventually("they end", async () => {
      await clock.advance(10_000);
      return (await counts()).every((count) => count === 0);
    });
    await Promise.all(waiting);
  });

  test("a token that is rejected without an error is cached as rejected", async () => {
    replying({ authenticated: false }, known);
    const authenticate = authenticator();
    for (let i = 0; i < 3; i++) expect(await rejection(authenticate())).toBe("invalid bearer token");
    expect(api.requests).toHaveLength(1);
  });
});

describe("a review", () => {
  test("a review without a reply ends after 10 s and is not retried", async () => {
    api.intercept = () => "hang";
    const refused = rejection(authorizer()(jane, read));
    await eventually("the review is sent", () => api.requests.length === 1);
    await clock.advance(9_999);
    let isOver = false;
    void refused.then(() => (isOver = true));
    await Bun.sleep(20);
    expect(isOver).toBeFalse();
    await clock.advance(1);
    expect(await refused).toBe("no reply within 10 s");
    expect(api.requests).toHaveLength(1);
  });

  test.each([
    ["429", { status: 429 }],
    ["500", { status: 500 }],
    ["504", { status: 504 }],
    ["a reset connection", "reset" as const],
  ])("is retried after %s, five attempts in all", async (_, reply) => {
    api.intercept = () => reply;
    let isOver = false;
    const refused = rejection(authorizer()(jane, read)).finally(() => (isOver = true));
    // Small steps: the reply must arrive long before the clock reaches the time limit of an attempt.
    await eventually("it gives up", async () => {
      await clock.advance(200);
      await Bun.sleep(10);
      return isOver;
    });
    await refused;
    expect(api.requests).toHaveLength(5);
  });

  test("a review is not retried where no server listens", async () => {
    const review = authorizer();
    await api[Symbol.asyncDispose]();
    expect(await rejection(review(jane, read))).toContain("cannot reach the API server");
    expect(clock.sleepers).toBe(0);
  });

  test("succeeds when a later attempt does", async () => {
    let attempts = 0;
    api.intercept = () =>
      ++attempts < 3 ? { status: 500 } : { status: 201, body: { metadata: {}, status: { allowed: true } } };
    let result = "";
    void authorizer()(jane, read).then((decision) => (result = decision.result));
    // Small steps, as above.
    await eventually("it is decided", async () => {
      await clock.advance(200);
      await Bun.sleep(10);
      return result === "allowed";
    });
  });

  test("is canceled at its time limit", async () => {
    const reviews = new ReviewClient(clock, () => undefined);
    let sent: AbortSignal | undefined;
    const late = rejection(reviews.send((signal) => new Promise(() => (sent = signal))));
    await eventually("it is sent", () => sent !== undefined);
    expect(sent?.aborted).toBeFalse();
    await clock.advance(10_000);
    await late;
    expect(sent?.aborted).toBeTrue();
  });

  test.each([429, 503])("is retried no sooner than the Retry-After of a reply with status %d", async (status) => {
    const reviews = new ReviewClient(clock, () => undefined);
    let attempts = 0;
    const sending = reviews.send(async () => {
      if (++attempts === 1) throw new ApiError(status, "Busy", "busy", { retryAfterMs: 30_000 });
    });
    // The pause begins some microtasks after the failure.
    await Bun.sleep(10);
    await clock.advance(29_999);
    expect(attempts).toBe(1);
    await clock.advance(1);
    await sending;
    expect(attempts).toBe(2);
  });

  test("is not retried after 403", async () => {
    api.intercept = () => ({ status: 403 });
    await rejection(authorizer()(jane, read));
    expect(api.requests).toHaveLength(1);
  });

  test("leaves its place in the queue once its client has gone, which the next one takes", async () => {
    const reviews = new ReviewClient(clock, () => undefined);
    const releases: (() => void)[] = [];
    const sent: number[] = [];
    const send = (number: number, signal?: AbortSignal): Promise<void> =>
      reviews.send(() => {
        sent.push(number);
        return new Promise((resolve) => releases.push(resolve));
      }, signal);
    const inFlight = Array.from({ length: 64 }, (_, number) => send(number));
    const leaving = new AbortController();
    const waiting = [send(64, leaving.signal), send(65), send(66, leaving.signal), send(67)];
    await Bun.sleep(10);
    leaving.abort(new Error("gone"));
    releases.splice(0, 2).forEach((release) => release());
    expect(await Promise.all([0, 2].map((at) => rejection(waiting[at] ?? Promise.resolve())))).toEqual([
      "gone",
      "gone",
    ]);
    await eventually("the others are sent", () => sent.length === 66);
    expect(sent.slice(64)).toEqual([65, 67]);
    releases.forEach((release) => release());
    await Promise.all([...inFlight, waiting[1], waiting[3]]);
    expect(await rejection(send(68, leaving.signal))).toBe("gone");
    expect(sent).toHaveLength(66);
  });

  test("is not tried again once its client has gone", async () => {
    const reviews = new ReviewClient(clock, () => undefined);
    const leaving = new AbortController();
    let attempts = 0;
    const sending = reviews.send(async () => {
      attempts++;
      throw new ApiError(429, "TooManyRequests", "busy", { retryAfterMs: 3_600_000 });
    }, leaving.signal);
    await eventually("it pauses", () => clock.sleepers === 1);
    leaving.abort(new Error("gone"));
    expect(await rejection(sending)).toBe("gone");
    expect([attempts, clock.sleepers]).toEqual([1, 0]);
  });

  test("a review of a token is given up as it waits when the clients of all its requests have gone, and begun again for a later one", async () => {
    api.intercept = () => "hang";
    const authenticate = bearerTokens({ client: client(), clock, metrics: metrics(), ttlMs: 10_000 });
    const send = (token: string, signal?: AbortSignal): Promise<unknown> =>
      authenticate(
        new Request("https://x/", { headers: { Authorization: `Bearer ${token}` }, ...(signal && { signal }) }),
        peer,
      );
    const others = Array.from({ length: 64 }, (_, number) => rejection(send(`other-${number}`)));
    await eventually("64 are in flight", () => api.requests.length === 64);
    const [one, two] = [new AbortController(), new AbortController()];
    let ended = 0;
    const both = [one, two].map(({ signal }) => rejection(send("token", signal)).finally(() => ended++));
    one.abort(new Error("gone"));
    await Bun.sleep(20);
    expect(ended).toBe(0);
    two.abort(new Error("gone"));
    const later = [send("token")];
    expect(await Promise.all(both)).toEqual(["gone", "gone"]);
    later.push(send("token"));
    expect(await rejection(send("token", two.signal))).toBe("gone");
    replying({ authenticated: true, user: { username: "jane" } });
    await clock.advance(10_000);
    await Promise.all(others);
    expect(await Promise.all(later)).toMatchObject([{ name: "jane" }, { name: "jane" }]);
    expect(api.requests).toHaveLength(65);
  });

  test("a review of access is given up as it waits when its client has gone", async () => {
    api.intercept = () => "hang";
    const authorize = authorizer();
    const paths = Array.from({ length: 64 }, (_, number) => ({ verb: "get", path: `/${number}` }));
    const others = paths.map((attributes) => rejection(authorize(jane, attributes)));
    await eventually("64 are in flight", () => api.requests.length === 64);
    const gone = new AbortController();
    const waiting = rejection(authorize(jane, read, gone.signal));
    gone.abort(new Error("gone"));
    expect(await waiting).toBe("gone");
    await clock.advance(10_000);
    await Promise.all(others);
    expect(api.requests).toHaveLength(64);
  });

  test("waits while 64 are in flight, so that unauthenticated clients do not starve lease renewal", async () => {
    const reviews = new ReviewClient(clock, () => undefined);
    const release = Promise.withResolvers<void>();
    let inFlight = 0;
    let most = 0;
    const all = Array.from({ length: 200 }, () =>
      reviews.send(async () => {
        most = Math.max(most, ++inFlight);
        await release.promise;
        inFlight--;
      }),
    );
    await Bun.sleep(10);
    expect(inFlight).toBe(64);
    release.resolve();
    await Promise.all(all);
    expect(most).toBe(64);
  });
});

test("a read of the published authentication config is of the API server's cache, and ends with its signal", async () => {
  api.intercept = () => "hang";
  const stop = new AbortController();
  const reading = rejection(readDelegatedAuthConfig(client(), createBundleCheck(), stop.signal));
  await eventually("it is sent", () => api.requests.length === 1);
  expect(api.requests[0]?.query.get("resourceVersion")).toBe("0");
  stop.abort(new Error("the process ends"));
  expect(await reading).toBe("the process ends");
});
