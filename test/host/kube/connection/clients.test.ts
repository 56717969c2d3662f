import { afterEach, beforeEach, expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../../host/async/clock.ts";
import { createClient } from "../../../../host/kube/connection/client.ts";
import { Clients, type ClientsOptions } from "../../../../host/kube/connection/clients.ts";
import { connectionMetrics } from "../../../../host/kube/connection/connection-metrics.ts";
import { ServiceAccountClients } from "../../../../host/kube/connection/service-account-clients.ts";
import { createTransport } from "../../../../host/kube/connection/transport.ts";
import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { SandboxApiServer } from "../../../../sdk/testing/api-server/index.ts";
import { capturedLog } from "../captured-log.ts";

let api: SandboxApiServer;
beforeEach(async () => {
  api = await SandboxApiServer.start();
});
afterEach(() => api[Symbol.asyncDispose]());

const registry = (): MetricsRegistry => new MetricsRegistry();
const optionsWith = (metrics: MetricsRegistry): ClientsOptions => ({
  protobuf: false,
  qps: -1,
  burst: 0,
  agent: "host/1",
  observer: () => ({}),
  connections: connectionMetrics(metrics.root),
  tracer: { span: (_, __, work) => work() },
  clock: systemClock,
});
const root = () => ({
  url: api.url,
  proxy: undefined,
  credentials: async () => ({
    tls: { ca: api.ca },
    headers: { Authorization: `Bearer ${api.tokens.of("cloud-controller-manager")}` },
  }),
});
const text = async (metrics: MetricsRegistry): Promise<string> => (await metrics.render()).body;

test("a client name has one pool of connections, however often it is requested, until all are closed", async () => {
  const metrics = registry();
  const clients = new Clients(root(), optionsWith(metrics));
  const first = clients.transport("a");
  expect(clients.transport("a")).toBe(first);
  expect([first.userAgent, first.url]).toEqual(["host/1/a", api.url]);
  expect(clients.transport("b")).not.toBe(first);
  expect(await text(metrics)).toContain("rest_client_transport_cache_entries 2\n");
  expect(await text(metrics)).toContain('rest_client_transport_create_calls_total{result="hit"} 1\n');
  expect(await text(metrics)).toContain('rest_client_transport_create_calls_total{result="miss"} 2\n');
  clients.close();
  expect(await text(metrics)).toContain("rest_client_transport_cache_entries 0\n");
  expect(clients.transport("a")).not.toBe(first);
  expect(await text(metrics)).toContain("rest_client_transport_cache_entries 1\n");
  clients.close();
});

test("a request is a span of its tracer, and a watch is not", async () => {
  const spans: string[] = [];
  const clients = new Clients(root(), {
    ...optionsWith(registry()),
    tracer: { span: (name, _, work) => (spans.push(name), work()) },
  });
  await clients.client("a").list(kinds.Node);
  const query = { watch: "true", resourceVersion: "1" };
  const watch = await clients.transport("a").send({ method: "GET", path: "/api/v1/nodes", query, stream: true });
  await watch.body?.cancel();
  expect(spans).toEqual(["kubernetes GET"]);
  clients.close();
});

test("a service account has one token for all its clients, and a new one once all are closed", async () => {
  const clock = manualClock(Date.now());
  const transport = createTransport(root(), { userAgent: "tokens", qps: -1 });
  const accounts = new ServiceAccountClients({
    root: root(),
    transport,
    clients: optionsWith(registry()),
    clock,
    log: capturedLog(0).log,
  });
  const tokens = (): number => api.requests.count({ resource: "serviceaccounts", subresource: "token" });
  const list = async (name: string): Promise<void> => void (await accounts.client(name).list(kinds.Node));
  await list("node-controller");
  await list("node-controller");
  expect(tokens()).toBe(1);
  await list("route-controller");
  expect(tokens()).toBe(2);
  expect(new Set(api.requests.list({ resource: "nodes" }).map(({ username }) => username))).toEqual(
    new Set(["node-controller", "route-controller"].map((name) => `system:serviceaccount:kube-system:${name}`)),
  );
  accounts.close();
  await list("node-controller");
  expect(tokens()).toBe(3);
  accounts.close();
  transport.close();
});

test("a client without a fence writes, and one with a closed fence does not", async () => {
  const clients = new Clients(root(), optionsWith(registry()));
  const closed = new AbortController();
  closed.abort(new Error("fenced"));
  const fence = { signal: closed.signal, closed: true, check: () => closed.signal.throwIfAborted() };
  const namespace = (name: string) => ({ metadata: { name } });
  const made = await clients.client("a").create(kinds.Namespace, namespace("a"));
  expect(made.metadata?.name).toBe("a");
  expect(clients.client("a", fence).create(kinds.Namespace, namespace("b"))).rejects.toThrow("fenced");
  expect(await createClient(clients.transport("a")).list(kinds.Namespace)).not.toContainEqual(
    expect.objectContaining({ metadata: expect.objectContaining({ name: "b" }) }),
  );
  clients.close();
});
