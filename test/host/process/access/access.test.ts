import "reflect-metadata";

import { afterEach, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect as connectHttp2 } from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";

import {
  BasicConstraintsExtension,
  PemConverter,
  X509Certificate as PeculiarCertificate,
  X509CertificateGenerator,
} from "@peculiar/x509";
import { kinds, type KubeClient } from "cloud-controller-host/sdk";
import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../../host/async/clock.ts";
import { defaultOptions } from "../../../../host/config/flags/options.ts";
import { createClient } from "../../../../host/kube/connection/client.ts";
import { createTransport } from "../../../../host/kube/connection/transport.ts";
import { type AccessFlags, type AccessOptions, openAccess } from "../../../../host/process/access/access.ts";
import { CertificateVerifier, parseBundle } from "../../../../host/process/access/client-certificate.ts";
import { requestHeaders } from "../../../../host/process/access/request-header.ts";
import { createLogger } from "../../../../host/process/log/log.ts";
import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { headerValues } from "../../../../host/process/serving/peer.ts";
import { type KeyPair, selfSigned } from "../../../../host/process/serving/self-signed.ts";
import { serve, type Served } from "../../../../host/process/serving/tls-server.ts";
import { type ApiServerOptions, SandboxApiServer } from "../../../../sdk/testing/api-server/index.ts";
import {
  type CertificateAuthority,
  createCertificateAuthority,
  openCertificateAuthority,
} from "../../../envtest/certificate-authority.ts";
import { rejection } from "../../../kit/rejection.ts";

setDefaultTimeout(120_000);

let serving: KeyPair;
let clientCA: CertificateAuthority;
let proxyCA: CertificateAuthority;
let strangerCA: CertificateAuthority;
let directory: string;
beforeAll(async () => {
  [serving, clientCA, proxyCA, strangerCA] = await Promise.all([
    selfSigned("", Date.now()),
    createCertificateAuthority("clients"),
    createCertificateAuthority("proxies"),
    createCertificateAuthority("strangers"),
  ]);
});
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "access-"));
});

const ending = new Set<() => unknown>();
afterEach(async () => {
  for (const end of [...ending].toReversed()) await end();
  ending.clear();
  await rm(directory, { recursive: true });
});

interface Requested {
  readonly username: string;
  readonly groups: readonly string[];
  readonly verb: string;
  readonly path: string;
}

interface Lab {
  readonly api: SandboxApiServer;
  readonly client: KubeClient;
  /** Questions about access, oldest first. */
  readonly requested: Requested[];
  readonly lines: string[];
  readonly metrics: MetricsRegistry;
  readonly served: Served;
  /** Headers that reached the handler with the last request. */
  readonly seen: () => Headers | undefined;
  readonly get: (path: string, init?: BunFetchRequestInit) => Promise<Response>;
}

interface LabOptions {
  readonly flags?: Partial<AccessFlags>;
  readonly allows?: NonNullable<ApiServerOptions["allows"]>;
  readonly access?: Partial<AccessOptions>;
  /** Puts the cluster's settings for authentication there. */
  readonly published?: boolean;
}

async function lab({ flags, allows = () => true, access, published = true }: LabOptions = {}): Promise<Lab> {
  const requested: Requested[] = [];
  const lines: string[] = [];
  const api = await SandboxApiServer.start({
    allows: ({ username, groups, verb, path, ...rest }) => {
      requested.push({ username, groups, verb, path });
      return allows({ username, groups, verb, path, ...rest });
    },
  });
  ending.add(() => api.close());
  const headers = { Authorization: `Bearer ${api.tokens.of("cloud-controller-manager")}` };
  const credentials = { tls: { ca: api.ca }, headers };
  const server = { url: api.url, proxy: undefined, credentials: async () => credentials };
  const transport = createTransport(server, { userAgent: "access", qps: -1 });
  ending.add(() => transport.close());
  const client = createClient(transport);
  if (published) await publish(client);
  const metrics = new MetricsRegistry();
  const log = createLogger({ format: "text", verbosity: 4, write: (line) => lines.push(line) });
  const guard = await openAccess({
    flags: { ...defaultOptions, ...flags },
    authenticationClient: client,
    authorizationClient: client,
    featureEnabled: () => true,
    clock: systemClock,
    log,
    metrics: metrics.root,
    ...access,
  });
  let seen: Headers | undefined;
  const handler = guard.guard((request) => {
    seen = request.headers;
    return Promise.resolve(new Response("in"));
  });
  const served = await serve({ address: "127.0.0.1", port: 0, certificate: serving, log, handler });
  ending.add(() => served.close());
  return {
    api,
    client,
    requested,
    lines,
    metrics,
    served,
    seen: () => seen,
    get: (path, init = {}) =>
      fetch(`https://127.0.0.1:${served.port}${path}`, {
        keepalive: false,
        ...init,
        tls: { rejectUnauthorized: false, ...init.tls },
      }),
  };
}

const publishedName = { namespace: "kube-system", name: "extension-apiserver-authentication" } as const;

async function publish(client: KubeClient, data: Readonly<Record<string, string>> = {}): Promise<void> {
  await client.create(kinds.ConfigMap, {
    metadata: publishedName,
    data: {
      "client-ca-file": clientCA.certPem,
      "requestheader-client-ca-file": proxyCA.certPem,
      "requestheader-username-headers": '["X-Remote-User"]',
      "requestheader-uid-headers": '["X-Remote-Uid"]',
      "requestheader-group-headers": '["X-Remote-Group"]',
      "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
      "requestheader-allowed-names": '["front-proxy"]',
      ...data,
    },
  });
}

const showing = ({ certPem, keyPem }: KeyPair): BunFetchRequestInit => ({ tls: { cert: certPem, key: keyPem } });
const bearing = (token: string): BunFetchRequestInit => ({ headers: { Authorization: `Bearer ${token}` } });

describe("requests to the secure port", () => {
  test("anonymous /healthz is allowed, anonymous /metrics is forbidden with the API server's message", async () => {
    const { get, requested } = await lab({ allows: () => false });
    expect((await get("/healthz")).status).toBe(200);
    const refused = await get("/metrics");
    expect(refused.status).toBe(403);
    expect(refused.headers.get("content-type")).toBe("application/json");
    expect(refused.headers.get("x-content-type-options")).toBe("nosniff");
    expect(refused.headers.get("cache-control")).toBe("no-cache, private");
    const body = await refused.text();
    expect(body).toBe(
      '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",' +
        String.raw`"message":"forbidden: User \"system:anonymous\" cannot get path \"/metrics\"",` +
        '"reason":"Forbidden","details":{},"code":403}\n',
    );
    expect(requested).toEqual([
      { username: "system:anonymous", groups: ["system:unauthenticated"], verb: "get", path: "/metrics" },
    ]);
  });

  test("/healthz is allowed and /metrics is a 500 when the authorizer is unavailable, unless always allowed", async () => {
    const broken = await lab();
    broken.api.faults.add({ match: { resource: "subjectaccessreviews" }, effect: { status: 403 }, times: 99 });
    expect((await broken.get("/healthz")).status).toBe(200);
    const failed = await broken.get("/metrics?a=<b>");
    expect(failed.status).toBe(500);
    expect(await failed.text()).toStartWith('Internal Server Error: "/metrics?a=%3Cb%3E": ');
    expect(broken.lines.join("")).toMatch(/"Unable to authorize the request" .* srcIP="127\.0\.0\.1:\d+"/);
    const open = await lab({ flags: { authorizationAlwaysAllowPaths: ["/healthz", "metrics"] } });
    open.api.faults.add({ match: { resource: "subjectaccessreviews" }, effect: { status: 403 }, times: 99 });
    expect((await open.get("/metrics")).status).toBe(200);
  });

  test("only always-allowed paths are authorized without an API server", async () => {
    const none = { authenticationClient: undefined, authorizationClient: undefined };
    const { get } = await lab({ access: none, flags: { authorizationAlwaysAllowPaths: ["/open/*"] } });
    expect((await get("/open/a", bearing("whatever"))).status).toBe(200);
    expect((await get("/open")).status).toBe(403);
    expect((await get("/healthz")).status).toBe(403);
  });
});

describe("a bearer token", () => {
  test("a bearer token that the API server accepts authenticates its user, with one TokenReview", async () => {
    const { api, get, requested, seen, metrics } = await lab();
    const token = api.tokens.of("system:serviceaccount:monitoring:prometheus");
    for (let i = 0; i < 3; i++) expect((await get("/metrics", bearing(token))).status).toBe(200);
    expect(api.requests.count({ resource: "tokenreviews" })).toBe(1);
    expect(requested).toHaveLength(1);
    expect(requested[0]?.username).toBe("system:serviceaccount:monitoring:prometheus");
    expect(requested[0]?.groups).toContain("system:authenticated");
    expect(seen()?.has("authorization")).toBeFalse();
    const { body } = await metrics.render();
    expect(body).toContain('authentication_token_cache_request_total{status="hit"} 2');
    expect(body).toContain('authentication_token_cache_fetch_total{status="ok"} 1');
    expect(body).toContain('authentication_attempts{result="success"} 3');
    expect(body).toContain('authorization_attempts_total{result="allowed"} 3');
    expect(body).toContain('apiserver_delegated_authn_request_total{code="201"} 1');
    expect(body).toContain('authenticated_user_requests{username="other"} 3');
  });

  test("a bearer token that is unknown is a 401, on always-allowed paths too, and never appears in the log", async () => {
    const { get, lines } = await lab();
    for (const path of ["/metrics", "/healthz"]) {
      const refused = await get(path, bearing("not-a-known-token"));
      expect(refused.status).toBe(401);
      expect(await refused.text()).toBe(
        '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}\n',
      );
    }
    expect(lines.join("")).toMatch(/invalid bearer token.* srcIP="127\.0\.0\.1:\d+"/);
    expect(lines.join("")).not.toContain("not-a-known-token");
  });

  test("a bearer token whose review fails is a 401, and is reviewed again by the next request", async () => {
    const { api, get } = await lab();
    const token = api.tokens.of("bob");
    const fault = api.faults.add({ match: { resource: "tokenreviews" }, effect: { status: 403 }, times: 99 });
    expect((await get("/metrics", bearing(token))).status).toBe(401);
    fault.remove();
    expect((await get("/metrics", bearing(token))).status).toBe(200);
  });

  test("a bearer token in concurrent requests is reviewed once", async () => {
    const { api, get } = await lab();
    api.faults.latency(50);
    const token = api.tokens.of("bob");
    const replies = await Promise.all(Array.from({ length: 10 }, () => get("/metrics", bearing(token))));
    expect(replies.every(({ status }) => status === 200)).toBeTrue();
    expect(api.requests.count({ resource: "tokenreviews" })).toBe(1);
  });

  test("is reviewed for every request when caching is disabled", async () => {
    const { api, get } = await lab({ flags: { authenticationTokenWebhookCacheTtl: 0 } });
    const token = api.tokens.of("bob");
    for (let i = 0; i < 3; i++) await get("/metrics", bearing(token));
    expect(api.requests.count({ resource: "tokenreviews" })).toBe(3);
  });

  test("a bearer token under another scheme than Bearer is ignored: the request is anonymous", async () => {
    const { get, requested } = await lab();
    await get("/metrics", { headers: { Authorization: "Basic dXNlcjpwYXNz" } });
    expect(requested[0]?.username).toBe("system:anonymous");
  });

  test("a bearer token of a member of system:masters needs no SubjectAccessReview", async () => {
    const { api, get, requested } = await lab({ allows: () => false });
    expect((await get("/metrics", bearing(api.tokens.of("root")))).status).toBe(200);
    expect(requested).toEqual([]);
  });
});

describe("a client certificate", () => {
  test("a client certificate of the cluster's client CA authenticates the user and the groups", async () => {
    const { get, requested, metrics } = await lab();
    const pair = await clientCA.issueClient("jane", ["dev", "ops"]);
    expect((await get("/metrics", showing(pair))).status).toBe(200);
    expect(requested[0]).toMatchObject({ username: "jane", groups: ["dev", "ops", "system:authenticated"] });
    expect((await metrics.render()).body).toContain("apiserver_client_certificate_expiration_seconds_count 1");
  });

  test("a client certificate of an untrusted CA is a 401, and so is a server certificate", async () => {
    const { get, requested } = await lab();
    expect((await get("/healthz", showing(await strangerCA.issueClient("jane")))).status).toBe(401);
    expect((await get("/healthz", showing(await clientCA.issueServer(["jane"])))).status).toBe(401);
    expect((await get("/healthz", showing(serving))).status).toBe(401);
    expect(requested).toEqual([]);
  });

  test("a client certificate that is untrusted does not invalidate a valid token", async () => {
    const { api, get, requested } = await lab();
    const stranger = showing(await strangerCA.issueClient("jane"));
    expect((await get("/metrics", { ...stranger, ...bearing(api.tokens.of("bob")) })).status).toBe(200);
    expect(requested).toEqual([]);
  });

  test("is verified through an intermediate CA that the client sends", async () => {
    const { get, requested } = await lab();
    const between = await intermediateOf(clientCA, "between", true);
    const leaf = await between.issueClient("jane", ["dev"]);
    expect((await get("/metrics", showing(leaf))).status).toBe(401);
    const bundle = { ...leaf, certPem: `${leaf.certPem}${between.certPem}` };
    expect((await get("/metrics", showing(bundle))).status).toBe(200);
    expect(requested.map(({ username }) => username)).toEqual(["jane"]);
  });

  test("issued by a certificate that is not a CA is rejected, whatever chain the client sends", async () => {
    const { get } = await lab();
    const pretender = await intermediateOf(clientCA, "pretender", false);
    const leaf = await pretender.issueClient("root", ["system:masters"]);
    const bundle = { ...leaf, certPem: `${leaf.certPem}${pretender.certPem}` };
    expect((await get("/metrics", showing(bundle))).status).toBe(401);
  });

  test("a client certificate that has expired is a 401", async () => {
    const clock = { ...systemClock, now: () => Date.now() + 2 * 86_400_000 };
    const { get } = await lab({ access: { clock } });
    expect((await get("/metrics", showing(await clientCA.issueClient("jane")))).status).toBe(401);
  });

  test("is ignored when lookups are skipped and no CA file is set", async () => {
    const { get, requested } = await lab({ flags: { authenticationSkipLookup: true } });
    expect((await get("/metrics", showing(await strangerCA.issueClient("jane")))).status).toBe(200);
    expect(requested[0]?.username).toBe("system:anonymous");
  });

  test("is verified by the CA file instead of the cluster's client CA when a file is set", async () => {
    const { get } = await lab({ flags: { clientCaFile: await file("ca.crt", strangerCA.certPem) } });
    expect((await get("/metrics", showing(await strangerCA.issueClient("jane")))).status).toBe(200);
    expect((await get("/metrics", showing(await clientCA.issueClient("jane")))).status).toBe(401);
  });
});

describe("a trusted proxy", () => {
  test("sets the user of a request, and its headers do not reach the handler", async () => {
    const { get, requested, seen } = await lab();
    const proxy = showing(await proxyCA.issueClient("front-proxy"));
    expect(
      (
        await get("/metrics", {
          ...proxy,
          headers: [
            ["X-Remote-User", "alice"],
            ["X-Other", "1"],
          ],
        })
      ).status,
    ).toBe(200);
    expect(requested[0]?.username).toBe("alice");
    expect([...(seen()?.keys() ?? [])]).not.toContain("x-remote-user");
    expect(seen()?.get("x-other")).toBe("1");
  });

  test("sets one group per header value, commas included, over both protocols", async () => {
    const { served, requested } = await lab();
    const { certPem: cert, keyPem: key } = await proxyCA.issueClient("front-proxy");
    const session = connectHttp2(`https://127.0.0.1:${served.port}`, { rejectUnauthorized: false, cert, key });
    ending.add(() => session.destroy());
    const stream = session.request({
      ":path": "/metrics",
      "x-remote-user": "alice",
      "x-remote-group": ["a,b", "c"],
    });
    stream.resume();
    await once(stream, "end");
    const socket = connectTls({ host: "127.0.0.1", port: served.port, rejectUnauthorized: false, cert, key });
    ending.add(() => socket.destroy());
    const memberships = ["X-Remote-Group: d,e", "X-Remote-Group:", "X-Remote-Group: f"];
    const head = ["GET /configz HTTP/1.1", "Host: x", "X-Remote-User: bob", ...memberships];
    const next = ["GET /flagz HTTP/1.1", "Host: x", "X-Remote-User: eve", "X-Remote-Group: system:unauthenticated"];
    const last = ["GET /statusz HTTP/1.1", "Host: x", "X-Remote-User: system:anonymous", "Connection: close"];
    socket.write([head, next, last].map((lines) => `${lines.join("\r\n")}\r\n\r\n`).join(""));
    socket.resume();
    await once(socket, "close");
    expect(requested.map(({ username, groups }) => [username, groups])).toEqual([
      ["alice", ["a,b", "c", "system:authenticated"]],
      ["bob", ["d,e", "f", "system:authenticated"]],
      ["eve", ["system:unauthenticated"]],
      ["system:anonymous", []],
    ]);
  });

  test("a trusted proxy that names no user is none itself: its certificate is not a client's", async () => {
    const { get, requested } = await lab();
    const proxy = showing(await proxyCA.issueClient("front-proxy"));
    expect(
      (await get("/metrics", { ...proxy, headers: { "X-Remote-User": "", "X-Remote-Group": "admins" } })).status,
    ).toBe(401);
    expect(requested).toEqual([]);
  });

  test("sets a UID and extra fields with percent-decoded keys", async () => {
    const { certPem } = await proxyCA.issueClient("front-proxy");
    const raw = new X509Certificate(certPem).raw;
    const proxies = {
      verifier: new CertificateVerifier(parseBundle(proxyCA.certPem, "the test"), systemClock),
      usernameHeaders: ["X-None", "X-Remote-User"],
      uidHeaders: ["X-Remote-Uid"],
      groupHeaders: ["X-Remote-Group"],
      extraHeaderPrefixes: ["X-Remote-Extra-"],
      allowedNames: [],
    };
    const authenticate = requestHeaders(() => proxies, { uids: true });
    const pairs = [
      "X-None",
      "",
      "X-Remote-User",
      "alice",
      "X-Remote-Uid",
      "42",
      "X-Remote-Extra-Example%2ecom%2FA",
      "1",
    ];
    const all = [...pairs, "x-remote-extra-example.com%2FA", "2", "X-Remote-Extra-Bad%zz", "3"];
    const names = all.filter((_, index) => index % 2 === 0);
    const request = new Request("https://x/", { headers: names.map((name) => [name, "x"]) });
    const certificate = { raw, intermediates: [] };
    const peer = {
      address: "",
      port: 0,
      httpVersion: 1,
      certificate,
      headerValues: headerValues(all),
      authenticated: () => undefined,
    };
    expect(await authenticate(request, peer)).toEqual({
      name: "alice",
      uid: "42",
      groups: [],
      extra: { "example.com/a": ["1", "2"], "bad%zz": ["3"] },
    });
  });

  test("a trusted proxy with a common name that is not allowed, or of another CA, is a 401", async () => {
    const { get } = await lab();
    const as = { headers: { "X-Remote-User": "alice" } };
    expect((await get("/metrics", { ...showing(await proxyCA.issueClient("other")), ...as })).status).toBe(401);
    expect((await get("/metrics", { ...showing(await strangerCA.issueClient("front-proxy")), ...as })).status).toBe(
      401,
    );
  });

  test("is recognized by its certificate, not by its headers", async () => {
    const { get, requested, seen } = await lab();
    expect(
      (await get("/metrics", { headers: { "X-Remote-User": "alice", "X-Remote-Group": "system:masters" } })).status,
    ).toBe(200);
    expect(
      (await get("/metrics", { ...showing(await clientCA.issueClient("jane")), headers: { "X-Remote-User": "alice" } }))
        .status,
    ).toBe(200);
    expect(requested.map(({ username }) => username)).toEqual(["system:anonymous", "jane"]);
    expect(seen()?.has("x-remote-user")).toBeFalse();
  });

  test("is configured by the files and headers that the flags name", async () => {
    const { get, requested, seen } = await lab({
      flags: {
        requestheaderClientCaFile: await file("proxy.crt", strangerCA.certPem),
        requestheaderUsernameHeaders: ["X-User"],
      },
    });
    const proxy = showing(await strangerCA.issueClient("any"));
    expect((await get("/metrics", { ...proxy, headers: { "X-User": "bob" } })).status).toBe(200);
    expect(requested[0]?.username).toBe("bob");
    expect(seen()?.has("x-user")).toBeFalse();
  });
});

describe("a decision", () => {
  test("is cached, and a denial for the TTL of its own flag", async () => {
    let lets = false;
    const { api, get } = await lab({
      allows: () => lets,
      flags: { authorizationWebhookCacheUnauthorizedTtl: 0 },
    });
    expect((await get("/metrics")).status).toBe(403);
    lets = true;
    expect((await get("/metrics")).status).toBe(200);
    lets = false;
    expect((await get("/metrics")).status).toBe(200);
    expect((await get("/configz")).status).toBe(403);
    expect(api.requests.count({ resource: "subjectaccessreviews" })).toBe(3);
  });

  test("is returned with line breaks by default and as YAML on request", async () => {
    const { get } = await lab({ allows: () => false });
    expect(await (await get("/a", { headers: { "User-Agent": "curl/8" } })).text()).toContain('\n  "code": 403\n');
    expect(await (await get("/a?pretty=1")).text()).toContain('\n  "code": 403\n');
    expect(await (await get("/a?pretty=0")).text()).not.toContain("\n  ");
    const json = await get("/a", { headers: { Accept: "application/json, application/yaml" } });
    expect(json.headers.get("content-type")).toBe("application/json");
    const yaml = await get("/a", { headers: { Accept: "application/yaml" } });
    expect(yaml.headers.get("content-type")).toBe("application/yaml");
    expect(await yaml.text()).toContain("code: 403\n");
    const odd = await get("/a", { headers: { Accept: "image/png" } });
    expect([odd.status, odd.headers.get("content-type")]).toEqual([403, "application/json"]);
  });

  test("names the path and the user with markup escaped", async () => {
    const { get } = await lab({ allows: () => false });
    const status: unknown = await (await get("/<script>&", showing(await clientCA.issueClient("<b>")))).json();
    expect(status).toHaveProperty("message", 'forbidden: User "&lt;b&gt;" cannot get path "/%3Cscript%3E&amp;"');
  });

  test("closes the HTTP/2 connection of an unauthenticated client, not of an authenticated one", async () => {
    const { served, api } = await lab();
    const session = connectHttp2(`https://127.0.0.1:${served.port}`, { rejectUnauthorized: false });
    const closed = once(session, "close");
    const ask = async (headers: Record<string, string>): Promise<void> => {
      const stream = session.request({ ":path": "/metrics", ...headers });
      stream.resume();
      await once(stream, "end");
    };
    for (let i = 0; i < 3; i++) await ask({ authorization: `Bearer ${api.tokens.of("bob")}` });
    await ask({});
    await closed;
  });

  test("strangers that leave while the reviews of their tokens or paths wait leave none that is sent", async () => {
    const clock = manualClock();
    const { api, served, metrics } = await lab({ access: { clock } });
    const resources = ["tokenreviews", "subjectaccessreviews"];
    for (const resource of resources) api.faults.add({ match: { resource }, effect: "hang", times: 100 });
    const sent = (): readonly number[] => resources.map((resource) => api.requests.count({ resource }));
    const sessions = Array.from({ length: 10 }, () =>
      connectHttp2(`https://127.0.0.1:${served.port}`, { rejectUnauthorized: false }),
    );
    for (const [number, session] of sessions.entries()) {
      ending.add(() => session.destroy());
      session.on("error", () => undefined);
      for (let i = 0; i < 16; i++) {
        const token = number % 2 === 0 ? {} : { authorization: `Bearer ${number}-${i}` };
        session.request({ ":path": `/${number}-${i}`, ...token }).on("error", () => undefined);
      }
    }
    const tokens = async (): Promise<number | undefined> => {
      const samples = await metrics.samples("authentication_token_cache_active_fetch_count");
      return samples.find(({ labels }) => labels["status"] === "in_flight")?.value;
    };
    await eventually(
      "64 of each are in flight, and 16 wait",
      async () => (await tokens()) === 80 && sent().join() === "64,64",
    );
    for (const session of sessions) session.destroy();
    await eventually("those that waited are given up", async () => (await tokens()) === 64);
    await clock.advance(10_000);
    await eventually("those in flight are given up", async () => (await tokens()) === 0);
    await Bun.sleep(100);
    expect(sent()).toEqual([64, 64]);
  });
});

describe("the cluster's published authentication config", () => {
  test("is required at startup: a forbidden read is an error that names the role and the flags", async () => {
    const start = async (flags: Partial<AccessFlags>): Promise<string[]> => {
      const { api, client } = await lab();
      api.faults.add({ match: { resource: "configmaps" }, effect: { status: 403 }, times: 99 });
      const lines: string[] = [];
      await openAccess({
        flags: { ...defaultOptions, ...flags },
        authenticationClient: client,
        authorizationClient: client,
        featureEnabled: () => true,
        clock: systemClock,
        log: createLogger({ format: "text", verbosity: 0, write: (line) => lines.push(line) }),
        metrics: new MetricsRegistry().root,
      });
      return lines;
    };
    const message = await rejection(start({}));
    expect(message).toContain("ConfigMap kube-system/extension-apiserver-authentication is not readable");
    expect(message).toContain("--authentication-tolerate-lookup-failure");
    expect((await start({ authenticationTolerateLookupFailure: true })).join("")).toContain(
      "may be treated as anonymous",
    );
    expect(await start({ authenticationSkipLookup: true })).toEqual([]);
    const given = { requestheaderClientCaFile: await file("proxy.crt", proxyCA.certPem) };
    expect((await start(given)).join("")).toContain("may be treated as anonymous");
  });

  test("may be missing", async () => {
    const { get } = await lab({ published: false });
    expect((await get("/healthz")).status).toBe(200);
  });

  test("is followed; a deleted or invalid ConfigMap changes nothing", async () => {
    const clock = manualClock(Date.now());
    const { client } = await lab({ published: false });
    const lines: string[] = [];
    const log = createLogger({ format: "text", verbosity: 0, write: (line) => lines.push(line) });
    const access = await openAccess({
      flags: defaultOptions,
      authenticationClient: client,
      authorizationClient: undefined,
      featureEnabled: () => true,
      clock,
      log,
      metrics: new MetricsRegistry().root,
    });
    const served = await serve({
      address: "127.0.0.1",
      port: 0,
      certificate: serving,
      log,
      handler: access.guard(() => Promise.resolve(new Response("in"))),
    });
    ending.add(() => served.close());
    const stop = new AbortController();
    const running = access.run(stop.signal);
    const status = async (pair: KeyPair): Promise<number> => {
      const tls = { rejectUnauthorized: false, cert: pair.certPem, key: pair.keyPem };
      return (await fetch(`https://127.0.0.1:${served.port}/healthz`, { keepalive: false, tls })).status;
    };
    const becomes = (what: string, holds: () => boolean | Promise<boolean>): Promise<unknown> =>
      eventually(what, async () => {
        await clock.advance(60_000);
        return holds();
      });
    const [jane, stranger] = await Promise.all([clientCA.issueClient("jane"), strangerCA.issueClient("jane")]);
    expect(await status(jane)).toBe(200);
    expect(await status(stranger)).toBe(200);
    await publish(client);
    await becomes("strangers are refused", async () => (await status(stranger)) === 401);
    expect(await status(jane)).toBe(200);
    await client.patch(kinds.ConfigMap, publishedName, "merge", { data: { "requestheader-allowed-names": "[1]" } });
    await becomes("the broken map is logged", () => lines.some((line) => line.includes("Failed to reload client CA")));
    await client.delete(kinds.ConfigMap, publishedName);
    await clock.advance(180_000);
    expect(await status(stranger)).toBe(401);
    await publish(client, { "client-ca-file": strangerCA.certPem });
    await becomes("the new CA counts", async () => (await status(stranger)) === 200);
    expect(await status(jane)).toBe(401);
    stop.abort();
    await running;
  });

  test("is rejected with the name of the file and its flag when a file is unusable", async () => {
    const flags = { clientCaFile: await file("ca.crt", "nothing") };
    expect(await rejection(lab({ flags }))).toMatch(/^--client-ca-file: .*ca\.crt contains no PEM certificate$/);
    expect(await rejection(lab({ flags: { requestheaderClientCaFile: "/none" } }))).toStartWith(
      "--requestheader-client-ca-file: cannot read /none",
    );
  });
});

/** A certificate under the root, its subject an authority or not, that signs certificates itself. */
async function intermediateOf(root: KeyPair, name: string, authority: boolean): Promise<CertificateAuthority> {
  const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const rootKey = PemConverter.decodeFirst(root.keyPem);
  const keys = await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const certificate = await X509CertificateGenerator.create({
    subject: `CN=${name}`,
    issuer: new PeculiarCertificate(root.certPem).subject,
    publicKey: keys.publicKey,
    signingKey: await crypto.subtle.importKey("pkcs8", rootKey, algorithm, false, ["sign"]),
    signingAlgorithm: algorithm,
    extensions: [new BasicConstraintsExtension(authority, undefined, true)],
  });
  const key = await crypto.subtle.exportKey("pkcs8", keys.privateKey);
  return openCertificateAuthority({
    certPem: `${certificate.toString("pem")}\n`,
    keyPem: PemConverter.encode(key, PemConverter.PrivateKeyTag),
  });
}

async function file(name: string, content: string): Promise<string> {
  const path = join(directory, name);
  await writeFile(path, content);
  return path;
}
