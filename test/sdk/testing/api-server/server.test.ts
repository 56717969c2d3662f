import { expect, test } from "bun:test";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import {
  type ConfigMap,
  defineKind,
  isConflict,
  isNotFound,
  kinds,
  type KubeObject,
  type Service,
} from "cloud-controller-host/sdk";
import { parse } from "yaml";

import { type ApiServerOptions, SandboxApiServer } from "../../../../sdk/testing/api-server/index.ts";
import { type ApiClient, merge, type Watch } from "./api-client.ts";
import { connectTo } from "./on-both.ts";

const configMaps = "/api/v1/namespaces/default/configmaps";

interface Started extends AsyncDisposable {
  readonly server: SandboxApiServer;
  readonly api: ApiClient;
}

async function start(options: ApiServerOptions = {}): Promise<Started> {
  const server = await SandboxApiServer.start(options);
  return { server, api: connectTo(server), [Symbol.asyncDispose]: () => server.close() };
}

const configMap = (name: string, data: Readonly<Record<string, string>> = {}): ConfigMap => ({
  metadata: { name, namespace: "default" },
  data,
});

/** A watch from now on. */
const watchFromNow = (server: SandboxApiServer, api: ApiClient, query = ""): Promise<Watch> =>
  api.watch(`${configMaps}?watch=true&resourceVersion=${server.resourceVersion}${query}`);

test("clients read direct writes, and direct reads return client writes", async () => {
  await using started = await start();
  const { server, api } = started;
  await using watch = await watchFromNow(server, api);
  const created = server.create(kinds.ConfigMap, configMap("a", { x: "1" }));
  expect((await api.get(`${configMaps}/a`)).body).toMatchObject(created);
  await api.done("PATCH", `${configMaps}/a`, { data: { x: "2" } }, merge);
  expect(server.get(kinds.ConfigMap, { name: "a", namespace: "default" })?.data).toEqual({ x: "2" });
  server.update(kinds.ConfigMap, { name: "a", namespace: "default" }, (before) => ({ ...before, data: { x: "3" } }));
  expect(server.list(kinds.ConfigMap).map(({ data }) => data)).toEqual([{ x: "3" }]);
  server.delete(kinds.ConfigMap, { name: "a", namespace: "default" });
  expect(server.get(kinds.ConfigMap, { name: "a", namespace: "default" })).toBeUndefined();
  expect(await watch.take(4)).toEqual(["ADDED a", "MODIFIED a", "MODIFIED a", "DELETED a"]);
});

test("direct reads return a copy that the caller may change", async () => {
  await using started = await start();
  const created = started.server.create(kinds.ConfigMap, configMap("a", { x: "1" }));
  Object.assign(created.metadata ?? {}, { name: "changed" });
  expect(started.server.list(kinds.ConfigMap)[0]?.metadata?.name).toBe("a");
});

test("direct writes are rejected with the errors of the API", async () => {
  await using started = await start();
  const { server } = started;
  const created = server.create(kinds.ConfigMap, configMap("a"));
  server.update(kinds.ConfigMap, { name: "a", namespace: "default" }, (before) => ({ ...before, data: { x: "1" } }));
  const stale = (): unknown => server.update(kinds.ConfigMap, { name: "a", namespace: "default" }, () => created);
  expect(caught(stale)).toSatisfy(isConflict);
  expect(caught(() => server.delete(kinds.ConfigMap, { name: "b", namespace: "default" }))).toSatisfy(isNotFound);
});

function caught(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}

test("a seeded object keeps its status", async () => {
  await using started = await start();
  const loadBalancer = { ingress: [{ ip: "203.0.113.9" }] };
  const service: Service = {
    metadata: { name: "s", namespace: "default" },
    spec: { type: "LoadBalancer", ports: [{ port: 80 }] },
    status: { loadBalancer },
  };
  expect(started.server.create(kinds.Service, service).status).toMatchObject({ loadBalancer });
  const { body } = await started.api.send("POST", "/api/v1/namespaces/default/services", {
    ...service,
    metadata: { name: "t" },
  });
  expect(body.status).toEqual({ loadBalancer: {} });
});

test("an old watch and an old list have expired after a compaction, and a new watch continues", async () => {
  await using started = await start();
  const { server, api } = started;
  const since = server.resourceVersion;
  for (const name of ["a", "b", "c"]) server.create(kinds.ConfigMap, configMap(name));
  const page = (await api.get(`${configMaps}?limit=1`)).body.metadata.continue ?? "";
  server.compact();
  await using old = await api.watch(`${configMaps}?watch=true&resourceVersion=${since}`);
  const events = await old.rest();
  expect(events).toMatchObject([{ type: "ERROR", object: { kind: "Status", code: 410, reason: "Expired" } }]);
  const expired = await api.get(`${configMaps}?limit=1&continue=${encodeURIComponent(page)}`);
  expect([expired.status, expired.body.reason]).toEqual([410, "Expired"]);
  await using fresh = await watchFromNow(server, api);
  server.create(kinds.ConfigMap, configMap("d"));
  expect(await fresh.take(1)).toEqual(["ADDED d"]);
});

test("a list at exactly an overwritten revision has expired", async () => {
  await using started = await start();
  const { server, api } = started;
  const query = `resourceVersion=${server.resourceVersion}&resourceVersionMatch=Exact`;
  server.create(kinds.Node, { metadata: { name: "n" } });
  expect((await api.get(`${configMaps}?${query}`)).status).toBe(200);
  server.create(kinds.ConfigMap, configMap("a"));
  expect((await api.get(`${configMaps}?${query}`)).status).toBe(410);
});

test("the history is bounded: older revisions have expired", async () => {
  await using started = await start({ historyLimit: 4 });
  const { server, api } = started;
  const since = server.resourceVersion;
  for (let index = 0; index < 20; index++) server.create(kinds.ConfigMap, configMap(`c${index}`));
  await using watch = await api.watch(`${configMaps}?watch=true&resourceVersion=${since}`);
  expect((await watch.next()).type).toBe("ERROR");
});

test("bookmarks are sent at the configured interval, to watches that request them", async () => {
  await using started = await start({ bookmarkMs: 20 });
  const { server, api } = started;
  await using watch = await watchFromNow(server, api, "&allowWatchBookmarks=true");
  server.create(kinds.Node, { metadata: { name: "n" } });
  for (;;) {
    const { type, object } = await watch.next();
    expect(type).toBe("BOOKMARK");
    expect(object.kind).toBe("ConfigMap");
    if (object.metadata.resourceVersion === server.resourceVersion) break;
  }
});

test("paused watches receive everything in order after they resume", async () => {
  await using started = await start();
  const { server, api } = started;
  await using watch = await watchFromNow(server, api);
  server.watches.pause();
  for (const name of ["a", "b"]) server.create(kinds.ConfigMap, configMap(name));
  const next = watch.next();
  expect(await Promise.race([next.then(() => "event"), api.get(configMaps).then(() => "list")])).toBe("list");
  server.watches.resume();
  expect((await next).object.metadata.name).toBe("a");
  expect(await watch.take(1)).toEqual(["ADDED b"]);
});

test("dropped watches end, cleanly or mid-event, and new ones can be opened", async () => {
  await using started = await start();
  const { server, api } = started;
  const ended = await watchFromNow(server, api);
  expect(server.watches.size).toBe(1);
  server.watches.drop("end");
  expect(await ended.rest()).toEqual([]);
  const broken = await watchFromNow(server, api);
  const reading = broken.rest();
  server.watches.drop("abort");
  await expect(reading).rejects.toThrow();
  expect(server.watches.size).toBe(0);
  await using again = await watchFromNow(server, api);
  server.create(kinds.ConfigMap, configMap("a"));
  expect(await again.take(1)).toEqual(["ADDED a"]);
});

test("a watch whose client disconnects is removed", async () => {
  await using started = await start();
  const { server, api } = started;
  const watch = await watchFromNow(server, api);
  await watch[Symbol.asyncDispose]();
  while (server.watches.size > 0) await Bun.sleep(5);
  expect(server.watches.size).toBe(0);
});

test("an injected fault fails the given number of requests, and then no more", async () => {
  await using started = await start();
  const { server, api } = started;
  server.faults.add({
    match: { verb: "patch", resource: "configmaps" },
    times: 2,
    effect: { status: 429, retryAfterSeconds: 3 },
  });
  server.create(kinds.ConfigMap, configMap("a"));
  const patch = (): ReturnType<ApiClient["send"]> =>
    api.send("PATCH", `${configMaps}/a`, { data: { x: "1" } }, { contentType: merge });
  const refused = await patch();
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "3"]);
  expect(refused.body).toMatchObject({ reason: "TooManyRequests", details: { retryAfterSeconds: 3 } });
  expect((await api.get(`${configMaps}/a`)).status).toBe(200);
  expect([(await patch()).status, (await patch()).status]).toEqual([429, 200]);
});

test("a reply can be lost before or after the request is executed", async () => {
  await using started = await start();
  const { server, api } = started;
  server.faults.add({ match: { verb: "create" }, effect: "disconnect" });
  server.faults.add({ match: { verb: "create" }, effect: "disconnect", afterwards: true });
  const create = (name: string): Promise<unknown> => api.send("POST", configMaps, { metadata: { name } });
  await expect(create("a")).rejects.toThrow();
  await expect(create("b")).rejects.toThrow();
  while (server.requests.count({ verb: "create", status: 200 }) < 2) await Bun.sleep(5);
  expect(server.list(kinds.ConfigMap).map(({ metadata }) => metadata?.name)).toEqual(["b"]);
});

test("a request that hangs ends when its client disconnects", async () => {
  await using started = await start();
  const { server, api } = started;
  const fault = server.faults.add({ match: { path: /configmaps/ }, effect: "hang", times: Infinity });
  await expect(api.fetch(configMaps, { signal: AbortSignal.timeout(50) })).rejects.toThrow();
  fault.remove();
  expect((await api.get(configMaps)).status).toBe(200);
});

test("requests that hang do not keep the server from closing", async () => {
  const { server, api } = await start();
  server.faults.add({ match: {}, effect: "hang" });
  const hanging = api.fetch(configMaps).then(
    () => "answered",
    () => "broken",
  );
  while (server.requests.count() === 0) await Bun.sleep(5);
  await server.close();
  expect(await hanging).toBe("broken");
});

test("latency delays a request, and ends when it is cleared", async () => {
  await using started = await start();
  const { server, api } = started;
  server.faults.latency(60_000);
  const slow = api.get(configMaps).catch(() => undefined);
  while (server.requests.count({ resource: "configmaps" }) === 0) await Bun.sleep(5);
  server.faults.clear();
  expect((await api.get(configMaps)).status).toBe(200);
  expect(server.requests.list({ resource: "configmaps" }).map(({ status }) => status)).toEqual([undefined, 200]);
  await server.close();
  await slow;
});

test("the request log has the user, the request and the result", async () => {
  await using started = await start();
  const { server } = started;
  const api = connectTo(server, "jane");
  await api.send("PATCH", "/api/v1/nodes/n/status", {}, { contentType: merge, headers: { "user-agent": "me/1" } });
  await api.get("/version");
  expect(server.requests.list()).toMatchObject([
    {
      method: "PATCH",
      verb: "patch",
      resource: "nodes",
      subresource: "status",
      name: "n",
      namespace: "",
      userAgent: "me/1",
      username: "jane",
      status: 404,
    },
    { path: "/version", verb: "", resource: "", status: 200 },
  ]);
  expect(server.requests.count({ verb: "patch", userAgent: /^me\// })).toBe(1);
  server.requests.reset();
  expect(server.requests.count()).toBe(0);
});

test("rejects an unknown token with 401 and serves health and version to anonymous users", async () => {
  await using started = await start();
  const { server, api } = started;
  const ask = async (path: string, headers: Readonly<Record<string, string>>): Promise<number> =>
    (await fetch(server.url + path, { headers, tls: { ca: server.ca } })).status;
  expect(await ask("/api/v1/nodes", { authorization: "Bearer wrong" })).toBe(401);
  expect(await ask("/api/v1/nodes", {})).toBe(403);
  for (const path of ["/healthz", "/livez", "/readyz", "/version"]) expect(await ask(path, {})).toBe(200);
  server.tokens.revoke("admin");
  expect((await api.get("/api/v1/nodes")).status).toBe(401);
  expect((await connectTo(server).get("/api/v1/nodes")).status).toBe(200);
});

test("the kubeconfig has everything that a client needs", async () => {
  await using started = await start();
  const { server } = started;
  expect(parse(server.kubeconfig("jane"))).toEqual({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "sandbox", cluster: { server: server.url, "certificate-authority-data": btoa(server.ca) } }],
    users: [{ name: "jane", user: { token: server.tokens.of("jane") } }],
    contexts: [{ name: "sandbox", context: { cluster: "sandbox", user: "jane" } }],
    "current-context": "sandbox",
  });
});

test("a certificate stored in a folder is reused by the next run, and its key file is private", async () => {
  const certificateDirectory = await mkdtemp(join(tmpdir(), "sandbox-certificate-"));
  try {
    const first = await SandboxApiServer.start({ certificateDirectory });
    await first.close();
    await using started = await start({ certificateDirectory });
    expect(started.server.ca).toBe(first.ca);
    expect((await started.api.get("/version")).status).toBe(200);
    expect((await stat(join(certificateDirectory, "tls.key"))).mode & 0o077).toBe(0);
  } finally {
    await rm(certificateDirectory, { recursive: true });
  }
});

test("a server that goes down breaks its connections, and restarts with all its objects", async () => {
  await using started = await start();
  const { server, api } = started;
  server.create(kinds.ConfigMap, configMap("a"));
  const since = server.resourceVersion;
  const watch = await watchFromNow(server, api);
  const reading = watch.rest();
  await server.goDown();
  await expect(reading).rejects.toThrow();
  await expect(api.get(configMaps)).rejects.toThrow();
  server.create(kinds.ConfigMap, configMap("b"));
  server.comeBack();
  await using again = await api.watch(`${configMaps}?watch=true&resourceVersion=${since}`);
  expect(await again.take(1)).toEqual(["ADDED b"]);
});

test("a closed server has released its port and ended its watches", async () => {
  const { server, api } = await start();
  const watch = await watchFromNow(server, api);
  await server.close();
  expect(await watch.rest().catch(() => [])).toEqual([]);
  await using next = await start({ port: Number(new URL(server.url).port) });
  expect(next.server.url).toBe(server.url);
});

test("reviews return the user of a token and its permissions", async () => {
  await using started = await start({
    allows: ({ username, verb, resource }) => username === "jane" && verb === "get" && resource === "nodes",
  });
  const { server, api } = started;
  const review = async (group: string, plural: string, spec: object): Promise<unknown> =>
    (await api.done("POST", `/apis/${group}.k8s.io/v1/${plural}`, { spec })).status;
  expect(await review("authentication", "tokenreviews", { token: server.tokens.of("jane") })).toMatchObject({
    authenticated: true,
    user: { username: "jane", groups: expect.arrayContaining(["system:authenticated"]) },
  });
  expect(await review("authentication", "tokenreviews", { token: "wrong" })).toMatchObject({ authenticated: false });
  const access = { user: "jane", resourceAttributes: { verb: "get", resource: "nodes" } };
  expect(await review("authorization", "subjectaccessreviews", access)).toEqual({ allowed: true });
  expect(await review("authorization", "subjectaccessreviews", { ...access, user: "john" })).toEqual({
    allowed: false,
  });
  expect(await review("authorization", "selfsubjectaccessreviews", access)).toEqual({ allowed: false });
});

test("a service account's token works until it expires", async () => {
  await using started = await start();
  const { server, api } = started;
  server.create(kinds.ServiceAccount, { metadata: { name: "sa", namespace: "kube-system" } });
  const path = "/api/v1/namespaces/kube-system/serviceaccounts/sa/token";
  const ask = async (expirationSeconds: number): Promise<string> => {
    const { status } = await api.done("POST", path, { spec: { expirationSeconds } });
    return typeof status === "object" && status !== null && "token" in status ? String(status.token) : "";
  };
  const whoAmI = async (token: string): Promise<number> =>
    (await fetch(`${server.url}/version`, { headers: { authorization: `Bearer ${token}` }, tls: { ca: server.ca } }))
      .status;
  expect(await whoAmI(await ask(600))).toBe(200);
  expect(server.requests.list().at(-1)?.username).toBe("system:serviceaccount:kube-system:sa");
  expect(await whoAmI(await ask(0))).toBe(401);
});

test("a plugin's custom kind is stored unchanged, with a status and a generation", async () => {
  interface Widget extends KubeObject {
    readonly spec?: { readonly size: number };
  }
  const kind = defineKind<Widget>({
    group: "example.com",
    version: "v1",
    kind: "Widget",
    plural: "widgets",
    namespaced: true,
  });
  await using started = await start({ kinds: [kind] });
  const path = "/apis/example.com/v1/namespaces/default/widgets";
  const { api, server } = started;
  server.create(kind, { metadata: { name: "w", namespace: "default" }, spec: { size: 1 } });
  const changed = await api.done(
    "PATCH",
    `${path}/w`,
    { spec: { size: 2, deep: { list: [null] } }, status: { ok: true } },
    merge,
  );
  expect(changed).toMatchObject({
    kind: "Widget",
    metadata: { generation: 2 },
    spec: { size: 2, deep: { list: [null] } },
  });
  expect(changed).not.toHaveProperty("status");
  expect((await api.done("PATCH", `${path}/w/status`, { status: { ok: true } }, merge)).status).toEqual({ ok: true });
  const strategic = { contentType: "application/strategic-merge-patch+json" };
  expect((await api.send("PATCH", `${path}/w`, {}, strategic)).status).toBe(415);
  expect((await api.get("/apis/example.com/v1")).body).toMatchObject({ groupVersion: "example.com/v1" });
});

test("a deleted namespace is removed once everything in it is deleted", async () => {
  await using started = await start();
  const { server, api } = started;
  server.create(kinds.Namespace, { metadata: { name: "n" } });
  server.create(kinds.ConfigMap, { metadata: { name: "free", namespace: "n" } });
  server.create(kinds.ConfigMap, { metadata: { name: "held", namespace: "n", finalizers: ["a.b/c"] } });
  await api.done("DELETE", "/api/v1/namespaces/n");
  const left = await api.get("/api/v1/namespaces/n/configmaps");
  expect(left.body.items.map(({ metadata }) => metadata.name)).toEqual(["held"]);
  expect((await api.get("/api/v1/namespaces/n")).body.status).toEqual({ phase: "Terminating" });
  await api.done("PATCH", "/api/v1/namespaces/n/configmaps/held", { metadata: { finalizers: null } }, merge);
  expect((await api.get("/api/v1/namespaces/n")).status).toBe(404);
});
