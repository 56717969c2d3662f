import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";

import { eventually } from "cloud-controller-host/sdk/testing";

import { Leader } from "../../../host/console/leader.ts";
import { createClient } from "../../../host/kube/connection/client.ts";
import type { ApiServer } from "../../../host/kube/connection/credentials.ts";
import { createTransport } from "../../../host/kube/connection/transport.ts";
import { announcementBy, announcementKey } from "../../../host/process/leader-election/announcement.ts";
import { proxyTo } from "../kube/connect-proxy.ts";

setDefaultTimeout(120_000);

let holder: string;
let annotations: Readonly<Record<string, string>>;
let refusal: string | undefined;
let server: ReturnType<typeof servePods>;
let leader: Leader;
let running: AsyncDisposableStack;

const lease = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { name: "l", namespace: "n" } };
const podList = {
  apiVersion: "v1",
  kind: "PodList",
  metadata: { resourceVersion: "1" },
  items: [
    ...["one", "two"].map((name) => ({ metadata: { name, namespace: "n" } })),
    ...["Failed", "Succeeded", "Running"].map((phase) => ({
      metadata: { name: phase === "Running" ? "three" : `ended-${phase.toLowerCase()}`, namespace: "n" },
      spec: { nodeName: "vm-3" },
      status: { phase },
    })),
  ],
};

/** An API server whose Pods accept connections and never answer. */
function servePods() {
  const pods: string[] = [];
  const lookups: string[] = [];
  const closed: number[] = [];
  const closers: (() => void)[] = [];
  const listening = Bun.serve<{ readonly index: number }>({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request, own) {
      const { pathname } = new URL(request.url);
      if (pathname.includes("/leases/")) {
        lookups.push(holder);
        const metadata = { ...lease.metadata, annotations };
        return Response.json({ ...lease, metadata, spec: { holderIdentity: `${holder}_1` } });
      }
      const [, pod] = /\/pods\/([^/]+)\/portforward$/u.exec(pathname) ?? [];
      if (pod === undefined) return Response.json(podList);
      if (refusal !== undefined) return Response.json({ kind: "Status", message: refusal }, { status: 403 });
      pods.push(pod);
      const headers = { "Sec-WebSocket-Protocol": "v4.channel.k8s.io" };
      own.upgrade(request, { headers, data: { index: pods.length - 1 } });
      return undefined;
    },
    websocket: {
      open: (client) => void (closers[client.data.index] = () => client.close()),
      message: () => undefined,
      close: (client) => void closed.push(client.data.index),
    },
  });
  return {
    url: `http://127.0.0.1:${listening.port}`,
    pods,
    lookups,
    closed,
    closers,
    stop: () => listening.stop(true),
  };
}

beforeEach(() => {
  holder = "one";
  annotations = {};
  refusal = undefined;
  running = new AsyncDisposableStack();
  server = running.adopt(servePods(), ({ stop }) => stop());
  const api: ApiServer = {
    url: server.url,
    proxy: undefined,
    credentials: () => Promise.resolve({ tls: {}, headers: {} }),
  };
  const transport = createTransport(api, { userAgent: "test", qps: -1 });
  running.defer(() => transport.close());
  const client = createClient(transport);
  leader = running.use(
    new Leader({ api, client, namespace: "n", lease: { namespace: "n", name: "l" }, selector: "", port: 1 }),
  );
});

afterEach(() => running.disposeAsync());

const request = (): Promise<unknown> =>
  leader.forward("/ui/", new Headers(), new AbortController().signal).catch(() => "failed");
const areOpen = (count: number) => eventually(`${count} are open`, () => Object.keys(server.closers).length === count);

test("requests that come at once share one forwarded port, which ends with the console", async () => {
  const requests = [request(), request(), request()];
  await areOpen(3);
  holder = "";
  await leader[Symbol.asyncDispose]();
  await eventually("all connections are closed", () => server.closed.length === 3, 5_000);
  expect(await Promise.all(requests)).toEqual(["failed", "failed", "failed"]);
});

test("a request that fails is sent once more, and cuts no other one", async () => {
  const requests = [request(), request()];
  await areOpen(2);
  server.closers[0]?.();
  await areOpen(3);
  expect(server.closed).toEqual([0]);
  server.closers[2]?.();
  expect(await Promise.race(requests)).toBe("failed");
  expect(server.closed).toEqual([0, 2]);
});

test("a request that fails after a hand-over goes to the new leader", async () => {
  const failing = request();
  await areOpen(1);
  holder = "two";
  server.closers[0]?.();
  await areOpen(2);
  expect(server.pods).toEqual(["one", "two"]);
  server.closers[1]?.();
  expect(await failing).toBe("failed");
});

test("a request and its token go to the forwarded port directly, whatever proxy the environment names", async () => {
  const proxy = running.use(await proxyTo(server.url));
  const former = process.env["HTTPS_PROXY"];
  running.defer(
    () => void (former === undefined ? delete process.env["HTTPS_PROXY"] : (process.env["HTTPS_PROXY"] = former)),
  );
  process.env["HTTPS_PROXY"] = proxy.url;
  void request();
  await areOpen(1);
  expect(proxy.targets).toEqual([]);
});

test("a port that the API server refuses to forward is reported in its own words", async () => {
  refusal = 'pods "one" is forbidden: User "jo" cannot create resource "pods/portforward"';
  const failure = leader.forward("/ui/", new Headers(), new AbortController().signal);
  expect(await failure.catch(String)).toContain(`no port of the Pod one is forwarded: ${refusal}`);
});

test("a Pod on the network of its node is found by the node's name, which it holds the Lease by, and not one that has ended there", async () => {
  holder = "vm-3";
  expect(await leader.find()).toBe("three");
});

test("the Pod of a shard is found, whose name the holder of its Lease has with that of the shard", async () => {
  const served = { shard: "east", services: true, loadBalancerClass: "", serviceSelector: "shard=east" };
  holder = "two-east";
  annotations = { [announcementKey]: announcementBy("two-east_1", served) };
  expect(await leader.find()).toBe("two");
  // By another program, which keeps the annotation.
  annotations = { [announcementKey]: announcementBy("another_1", served) };
  expect(await leader.find().catch(String)).toContain("is called two-east or runs on the node two-east");
});

test("a request that its page has given up is not sent again, nor is the leader looked up for it", async () => {
  const page = new AbortController();
  const failing = leader.forward("/ui/", new Headers(), page.signal).catch(() => "failed");
  await areOpen(1);
  page.abort();
  expect(await failing).toBe("failed");
  expect([server.lookups, server.pods]).toEqual([["one"], ["one"]]);
});
