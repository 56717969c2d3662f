import { afterEach, beforeEach, describe, expect, test } from "bun:test";

import { apiServerOf } from "../../../../host/kube/connection/credentials.ts";
import { environmentProxy } from "../../../../host/kube/connection/proxy.ts";
import { createTransport } from "../../../../host/kube/connection/transport.ts";
import { errorOf } from "../../../kit/rejection.ts";
import { proxyTo } from "../connect-proxy.ts";
import { pem, StubApi } from "../stub-api.ts";

const get = { method: "GET", path: "/api/v1/nodes" } as const;
const variables = ["https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY"];
const former = variables.map((name) => [name, process.env[name]] as const);

let running = new AsyncDisposableStack();
beforeEach(() => {
  for (const name of variables) delete process.env[name];
});
afterEach(async () => {
  for (const [name, value] of former)
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  await running.disposeAsync();
  running = new AsyncDisposableStack();
});

describe.each([
  ["pooled", {}],
  ["dedicated", { dedicated: true }],
])("a %s request to the API server", (_, way) => {
  const send = (server: string, proxyUrl?: string): Promise<unknown> => {
    const cluster = { name: "c", server, skipTLSVerify: false, caData: btoa(pem.ca), tlsServerName: "localhost" };
    const api = apiServerOf({ ...cluster, ...(proxyUrl && { proxyUrl }) }, { name: "u" });
    const transport = createTransport(api, { userAgent: "test", qps: -1, timeoutMs: 5_000, ...way });
    return transport.send(get).finally(() => transport.close());
  };

  test("goes through the proxy that the environment names, as those of all other clients do", async () => {
    const api = running.use(await StubApi.start());
    const proxy = running.use(await proxyTo(api.url));
    process.env["HTTPS_PROXY"] = proxy.url;
    await send("https://api.test:6443");
    expect(proxy.targets).toEqual(["api.test:6443"]);
  });

  test("goes to a loopback address directly, whatever proxy the environment names", async () => {
    const api = running.use(await StubApi.start());
    const proxy = running.use(await proxyTo(api.url));
    process.env["HTTPS_PROXY"] = proxy.url;
    await send(api.url);
    expect([proxy.targets, api.requests.length]).toEqual([[], 1]);
  });

  test("goes through the proxy-url of its kubeconfig, also where NO_PROXY excludes the server", async () => {
    const api = running.use(await StubApi.start());
    const proxy = running.use(await proxyTo(api.url));
    process.env["NO_PROXY"] = "api.test,127.0.0.1";
    await send("https://api.test:6443", proxy.url);
    expect(proxy.targets).toEqual(["api.test:6443"]);
  });

  test("goes around the proxy of the environment where NO_PROXY excludes the server", async () => {
    const api = running.use(await StubApi.start());
    const proxy = running.use(await proxyTo(api.url));
    process.env["HTTPS_PROXY"] = proxy.url;
    process.env["NO_PROXY"] = ".test";
    expect(await errorOf(send("https://api.test:6443"))).toMatchObject({ code: "ApiServerUnreachable" });
    expect(proxy.targets).toEqual([]);
  });
});

describe("the proxy of the environment", () => {
  const proxy = "http://proxy.test:3128";
  const server = "https://api.example.com:6443";

  test("is that of the address's scheme, and needs no scheme of its own", () => {
    expect(environmentProxy(server, { HTTPS_PROXY: proxy })).toBe(proxy);
    expect(environmentProxy(server, { https_proxy: "proxy.test:3128" })).toBe(proxy);
    expect(environmentProxy(server, { HTTPS_PROXY: proxy, https_proxy: "http://other.test" })).toBe(proxy);
    expect(environmentProxy(server, { HTTP_PROXY: proxy, HTTPS_PROXY: "" })).toBeUndefined();
    expect(environmentProxy("http://10.0.0.1:8080", { HTTP_PROXY: proxy })).toBe(proxy);
  });

  test("is none where its kind cannot be used", () => {
    expect(environmentProxy(server, { HTTPS_PROXY: "socks5://proxy.test:1080" })).toBeUndefined();
  });

  test("is none for loopback addresses", () => {
    for (const host of ["localhost", "127.0.0.1", "127.1.2.3", "[::1]"])
      expect([host, environmentProxy(`https://${host}:6443`, { HTTPS_PROXY: proxy })]).toEqual([host, undefined]);
  });

  test.each([
    ["*", server],
    ["api.example.com", server],
    ["EXAMPLE.com", server],
    [".example.com", server],
    ["*.example.com", server],
    ["other.test, api.example.com:6443", server],
    ["10.0.0.0/16", "https://10.0.0.1"],
    ["10.0.0.1", "https://10.0.0.1"],
    ["10.0.0.1:443", "https://10.0.0.1"],
    ["10.0.0.1:80", "http://10.0.0.1"],
    ["fd00::/8", "https://[fd00::1]:6443"],
    ["fd00:0::1", "https://[fd00::1]:6443"],
    ["[fd00::1]:6443", "https://[fd00::1]:6443"],
  ])("is none where NO_PROXY is %s and the server %s", (excluded, url) => {
    const env = { HTTPS_PROXY: proxy, HTTP_PROXY: proxy };
    expect(environmentProxy(url, { ...env, no_proxy: excluded })).toBeUndefined();
    expect(environmentProxy(url, { ...env, NO_PROXY: excluded, no_proxy: "other.test" })).toBeUndefined();
  });

  test.each([
    ["", server],
    [" , ,:6443", server],
    ["", "https://api.example.com.:6443"],
    ["ample.com", server],
    [".api.example.com", server],
    ["api.example.com:443", server],
    ["10.1.0.0/16", "https://10.0.0.1"],
    ["10.0.0.1:6443", "https://10.0.0.1"],
    ["0.0.1", "https://10.0.0.1"],
    ["10.0.0.0/8", "https://[fd00::1]:6443"],
    ["10.0.0.0/33", "https://10.0.0.1"],
    ["[fd00::1]:443", "https://[fd00::1]:6443"],
  ])("is used where NO_PROXY is %p and the server %s", (excluded, url) => {
    expect(environmentProxy(url, { HTTPS_PROXY: proxy, NO_PROXY: excluded })).toBe(proxy);
  });
});
