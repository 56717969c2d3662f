import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { getEventListeners } from "node:events";
import { setImmediate } from "node:timers/promises";

import {
  ApiError,
  defineKind,
  type InformerHandler,
  kinds,
  type KubeObject,
  type Node,
} from "cloud-controller-host/sdk";
import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import { createTransport } from "../../../../host/kube/connection/transport.ts";
import { InformerPool, type InformerPoolOptions } from "../../../../host/kube/informers/pool.ts";
import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { rejection } from "../../../kit/rejection.ts";
import { capturedLog } from "../captured-log.ts";
import { status, StubApi, type Widget, widgets } from "../stub-api.ts";

let api: StubApi;
const pools: InformerPool[] = [];
beforeEach(async () => {
  api = await StubApi.start();
});
afterEach(async () => {
  await Promise.all(pools.splice(0).map((pool) => pool.close()));
  await api.stop();
});

const widget = (name: string, size = 1): Widget => ({ metadata: { name, namespace: "ns" }, spec: { size } });

function setUp(options: Partial<InformerPoolOptions> = {}) {
  const clock = manualClock();
  const { log, lines } = capturedLog(4);
  const transport = createTransport(api.access(), { userAgent: "test", qps: -1 });
  const pool = new InformerPool({ transport, clock, log, ...options });
  pools.push(pool);
  return { clock, pool, lines };
}

/** A handler that records what is reported to it. */
const clumsy = {
  added: (): never => {
    throw new Error("clumsy");
  },
};

function recorder() {
  const reported: string[] = [];
  const handler: InformerHandler<Widget> = {
    added: (object) => reported.push(`+${object.metadata?.name}`),
    updated: (before, after) => reported.push(`~${after.metadata?.name} ${before.spec?.size}>${after.spec?.size}`),
    deleted: (last) => reported.push(`-${last.metadata?.name}`),
  };
  return { reported, handler };
}

describe("an informer", () => {
  test("delivers existing objects, changes and deletions in order", async () => {
    api.put(widgets, widget("a"));
    const { pool } = setUp();
    const share = pool.share();
    const informer = share.of(widgets);
    const { reported, handler } = recorder();
    informer.handle(handler);
    expect(informer.hasSynced()).toBeFalse();
    await share.synced();
    expect(informer.hasSynced()).toBeTrue();
    expect(informer.store.get("ns/a")?.kind).toBe("Widget");
    await eventually("it watches", () => api.watches === 1);
    api.put(widgets, widget("b"));
    api.put(widgets, widget("a", 2));
    api.remove(widgets, widget("a", 2));
    await eventually("everything is reported", () => reported.length === 4);
    expect(reported).toEqual(["+a", "+b", "~a 1>2", "-a"]);
    expect(informer.store.list().map((item) => item.metadata?.name)).toEqual(["b"]);
  });

  test("names the kinds that it has not read yet, and no other", async () => {
    const { pool } = setUp();
    const share = pool.share();
    share.of(widgets);
    await share.synced();
    expect(share.unsynced).toEqual([]);
    share.of(kinds.Service);
    expect(share.unsynced).toEqual(["services"]);
  });

  test("tells a handler that comes late of everything that is there", async () => {
    for (const name of ["a", "b"]) api.put(widgets, widget(name));
    const { pool } = setUp();
    const share = pool.share();
    const informer = share.of(widgets);
    await share.synced();
    const { reported, handler } = recorder();
    informer.handle(handler);
    expect(reported).toEqual([]);
    await eventually("both are reported", () => reported.length === 2);
    expect(reported).toEqual(["+a", "+b"]);
  });

  test("continues and logs an error when a handler throws", async () => {
    const { pool, lines } = setUp();
    const share = pool.share();
    const { reported, handler } = recorder();
    share.of(widgets).handle(clumsy);
    share.of(widgets).handle(handler);
    for (const name of ["a", "b"]) api.put(widgets, widget(name));
    await eventually("both are reported", () => reported.length === 2);
    const fields = { change: "added", err: "clumsy" };
    const threw = lines().filter(({ msg }) => msg === "Informer handler of widgets threw; the change is lost to it");
    expect(threw).toMatchObject([
      { ...fields, object: "ns/a", errors: 1 },
      { ...fields, object: "ns/b", errors: 2 },
    ]);
  });

  test("logs the first errors of a handler that always throws, and counts the rest in one line per thousand", async () => {
    const { pool, lines } = setUp();
    const share = pool.share();
    const { reported, handler } = recorder();
    share.of(widgets).handle(clumsy);
    share.of(widgets).handle(handler);
    for (let index = 0; index < 2100; index++) api.put(widgets, widget(`w-${index}`));
    const errors = (): readonly unknown[] => lines().flatMap((line) => ("errors" in line ? [line.errors] : []));
    // Each handler has a queue of its own.
    await eventually("all are reported to both", () => reported.length === 2100 && errors().includes(2000));
    expect(errors()).toEqual([1, 2, 3, 4, 5, 1000, 2000]);
  });

  test("repeats everything as an update with equal objects, as often as each handler asked", async () => {
    api.put(widgets, widget("a"));
    const { pool, clock } = setUp({ resyncMs: 40_000 });
    const share = pool.share();
    const [often, seldom, never] = [recorder(), recorder(), recorder()];
    share.of(widgets).handle(often.handler, { resyncMs: 10 });
    share.of(widgets).handle(seldom.handler);
    share.of(widgets).handle(never.handler, { resyncMs: 0 });
    await eventually("the first is reported", () => never.reported.length === 1);
    await clock.advance(3000);
    expect(often.reported).toEqual(["+a", "~a 1>1", "~a 1>1", "~a 1>1"]);
    expect(seldom.reported).toEqual(["+a"]);
    await clock.advance(37_000);
    expect(seldom.reported).toEqual(["+a", "~a 1>1"]);
    expect(never.reported).toEqual(["+a"]);
  });

  test("keeps nothing of an object that no controller reads", async () => {
    const node = (name: string): Node => ({
      metadata: { name, managedFields: [{ manager: "kubelet" }] },
      status: { phase: "Running", images: [{ names: ["x"] }] },
    });
    api.put(kinds.Node, node("listed"));
    const { pool } = setUp();
    const share = pool.share();
    const { store } = share.of(kinds.Node);
    await share.synced();
    await eventually("it watches", () => api.watches === 1);
    api.put(kinds.Node, node("watched"));
    await eventually("both are there", () => store.size === 2);
    for (const stored of store.list()) {
      expect(stored.metadata).not.toHaveProperty("managedFields");
      expect(stored.status).toEqual({ phase: "Running" });
    }
  });

  test("lets the event loop turn while a slow handler works off many changes", async () => {
    for (let index = 0; index < 400; index++) api.put(widgets, widget(`w${index}`));
    const { pool } = setUp();
    const share = pool.share();
    const informer = share.of(widgets);
    await share.synced();
    const reported: string[] = [];
    let turns = 0;
    informer.handle({
      added: (object) => {
        const until = performance.now() + 0.1;
        while (performance.now() < until);
        reported.push(object.metadata?.name ?? "");
      },
    });
    for (; reported.length < 400; turns++) await setImmediate();
    expect(turns).toBeGreaterThan(3);
  });

  test("carries client-go's metric names", async () => {
    const registry = new MetricsRegistry();
    const { pool } = setUp({ metrics: registry.root });
    const share = pool.share();
    const { reported, handler } = recorder();
    share.of(widgets).handle(handler);
    await share.synced();
    api.put(widgets, widget("a"));
    await eventually("it is reported", () => reported.length === 1);
    const labels = 'name="shared-informers",group="test.io",version="v1",resource="widgets"';
    const text = (await registry.render()).body;
    expect(text).toContain(`informer_queued_items{${labels}} 0\n`);
    expect(text).toContain(`informer_store_resource_version{${labels}} 101\n`);
    expect(text).toContain(`informer_processing_latency_seconds_count{${labels}} 1\n`);
  });
});

describe("selections", () => {
  test("have a watch each, and the node filter narrows nodes and nothing else", async () => {
    const { pool } = setUp({ nodeSelector: "pool=a" });
    const share = pool.share();
    share.of(widgets);
    share.of(widgets, { metadataOnly: true });
    share.of(widgets, { fieldSelector: "metadata.name=x" });
    share.of(widgets, { namespace: "ns", fieldSelector: "metadata.name=x" });
    share.of(kinds.Node);
    share.of(kinds.Node, { labelSelector: "b=c" });
    await share.synced();
    const lists = api.requests.filter(({ query }) => !query.has("watch"));
    const requested = lists.map(({ path, query }) =>
      [path, query.get("labelSelector"), query.get("fieldSelector")].filter(Boolean).join(" "),
    );
    expect(requested.toSorted()).toEqual([
      "/api/v1/nodes pool=a",
      "/api/v1/nodes pool=a,b=c",
      "/apis/test.io/v1/namespaces/ns/widgets metadata.name=x",
      "/apis/test.io/v1/widgets",
      "/apis/test.io/v1/widgets",
      "/apis/test.io/v1/widgets metadata.name=x",
    ]);
    await eventually("all watch", () => api.watches === 6);
    const watched = api.requests.filter(({ query }) => query.get("labelSelector") === "pool=a,b=c");
    expect(watched.map(({ query }) => query.get("watch"))).toEqual([null, "true"]);
    share.of({ ...widgets, version: "v2" });
    await eventually("the other version is read", () => api.requests.some(({ path }) => path.includes("/v2/")));
  });
});

test("observers of the process receive core Services and Nodes, and no kind that shares a group, version or resource", async () => {
  const core = { group: "", version: "v1", kind: "Service", plural: "services", namespaced: true } as const;
  const others = [
    { ...core, group: "serving.knative.dev" },
    { ...core, version: "v2" },
    { ...core, plural: "widgets" },
    { ...core, group: "metrics.k8s.io", kind: "Node", plural: "nodes", namespaced: false },
  ];
  api.put(kinds.Service, { metadata: { name: "core", namespace: "ns" } });
  api.put(kinds.Node, { metadata: { name: "core" } });
  api.put(widgets, widget("other"));
  const seen: string[] = [];
  const observer = (kind: string) => ({
    added: ({ metadata }: KubeObject) => void seen.push(`${kind} ${metadata?.name}`),
  });
  const { pool } = setUp({ observers: { services: observer("Service"), nodes: observer("Node") } });
  const share = pool.share();
  for (const kind of others) share.of(defineKind(kind));
  share.of(kinds.Service);
  share.of(kinds.Node);
  share.of(kinds.Service, { metadataOnly: true });
  await share.synced();
  await eventually("both are seen", () => seen.length >= 2);
  await setImmediate();
  expect(seen.toSorted()).toEqual(["Node core", "Service core"]);
});

describe("shares", () => {
  test("shares of the same kind share one watch: a new generation sends no LIST and no WATCH", async () => {
    api.put(widgets, widget("a"));
    const { pool } = setUp();
    let current = pool.share();
    const first = recorder();
    current.of(widgets).handle(first.handler);
    await current.synced();
    await eventually("it watches", () => api.watches === 1);
    for (let reload = 0; reload < 200; reload++) {
      const next = pool.share();
      const { reported, handler } = recorder();
      const informer = next.of(widgets);
      informer.handle(handler, { resyncMs: 5000 });
      await next.synced();
      expect(informer.store.size).toBe(1);
      current.release();
      await setImmediate();
      expect(reported).toEqual(["+a"]);
      current = next;
    }
    expect(api.reads).toEqual(["LIST", "WATCH 101"]);
    expect(api.connections).toBeLessThanOrEqual(2);
  });

  test("shares of a kind in all namespaces share one watch, however they name those", async () => {
    const { pool } = setUp();
    const share = pool.share();
    share.of(widgets, { namespace: "" });
    share.of(widgets);
    await share.synced();
    expect(api.requests.filter(({ path }) => path.endsWith("/widgets"))).toHaveLength(1);
  });

  test("shares that are released hear nothing more", async () => {
    const { pool, clock } = setUp();
    const [old, next] = [pool.share(), pool.share()];
    const [gone, here] = [recorder(), recorder()];
    old.of(widgets).handle(gone.handler, { resyncMs: 1000 });
    next.of(widgets).handle(here.handler);
    await next.synced();
    api.put(widgets, widget("a"));
    await eventually("both receive it", () => gone.reported.length === 1 && here.reported.length === 1);
    old.release();
    api.put(widgets, widget("b"));
    await eventually("the other hears", () => here.reported.length === 2);
    await clock.advance(5000);
    expect(gone.reported).toEqual(["+a"]);
    expect(() => old.of(widgets)).toThrow("this generation has ended and can no longer watch widgets");
  });

  test("shares that use a kind twice still end its watch when they are released", async () => {
    const { pool, clock } = setUp();
    const share = pool.share();
    share.of(widgets);
    share.of(widgets);
    await share.synced();
    await eventually("it watches", () => api.watches === 1);
    share.release();
    await clock.advance(0);
    await clock.advance(10_000);
    await eventually("the watch has ended", () => api.watches === 0);
  });

  test("shares that remove a handler while it has queued changes deliver none of them", async () => {
    for (let index = 0; index < 50; index++) api.put(widgets, widget(`w${index}`));
    const { pool } = setUp();
    const share = pool.share();
    const informer = share.of(widgets);
    await share.synced();
    const seen: string[] = [];
    const registration = informer.handle({
      added: (object) => {
        seen.push(object.metadata?.name ?? "");
        if (seen.length === 3) registration.remove();
      },
    });
    const other = recorder();
    informer.handle(other.handler);
    await eventually("another handler has all", () => other.reported.length === 50);
    expect(seen).toHaveLength(3);
  });

  test("shares that are released deliver nothing to a handler that comes after", async () => {
    api.put(widgets, widget("a"));
    const { pool } = setUp();
    const [released, other] = [pool.share(), pool.share()];
    const informer = released.of(widgets);
    const { reported, handler } = recorder();
    other.of(widgets).handle(handler);
    await other.synced();
    released.release();
    const late = recorder();
    informer.handle(late.handler).remove();
    informer.handle(late.handler);
    await eventually("it watches", () => api.watches === 1);
    api.put(widgets, widget("b"));
    await eventually("the other share's handler has both", () => reported.length === 2);
    expect(late.reported).toEqual([]);
  });

  test("shares that are all released end the watch after a grace, within which it can be taken up again", async () => {
    const { pool, clock } = setUp();
    const first = pool.share();
    first.of(widgets);
    await first.synced();
    await eventually("it watches", () => api.watches === 1);
    first.release();
    await clock.advance(9000);
    const second = pool.share();
    expect(second.of(widgets).hasSynced()).toBeTrue();
    await clock.advance(60_000);
    expect(api.watches).toBe(1);
    second.release();
    await clock.advance(9000);
    expect(api.watches).toBe(1);
    await clock.advance(1000);
    await eventually("the watch has ended", () => api.watches === 0);
    const third = pool.share();
    expect(third.of(widgets).hasSynced()).toBeFalse();
    await third.synced();
    expect(api.reads.filter((read) => read === "LIST")).toHaveLength(2);
  });

  test("shares that wait for their first list give up with the signal, and leave nothing behind", async () => {
    api.intercept = () => "hang";
    const { pool } = setUp();
    const share = pool.share();
    share.of(widgets);
    const { signal, abort } = { signal: new AbortController(), abort: new Error("too slow") };
    const waiting = rejection(share.synced(signal.signal));
    await setImmediate();
    signal.abort(abort);
    expect(await waiting).toBe("too slow");
    expect(await rejection(share.synced(signal.signal))).toBe("too slow");
    expect(getEventListeners(signal.signal, "abort")).toHaveLength(0);
  });

  test("shares that have waited for their first list leave nothing behind on the signal", async () => {
    const { pool } = setUp();
    const share = pool.share();
    share.of(widgets);
    const { signal } = new AbortController();
    await share.synced(signal);
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });

  test("shares of a closed pool are refused, and closing leaves no watch and no timer", async () => {
    const { pool, clock } = setUp();
    const share = pool.share();
    share.of(widgets).handle({}, { resyncMs: 1000 });
    await share.synced();
    await eventually("it watches", () => api.watches === 1);
    share.release();
    await pool.close();
    await eventually("the watch has ended", () => api.watches === 0);
    await clock.advance(0);
    expect(clock.sleepers).toBe(0);
    expect(pool.contents()).toEqual([]);
    expect(() => pool.share().of(widgets)).toThrow("the informers are closed; widgets can no longer be watched");
  });
});

test("the store of a kind is found once it is watched whole and has synced, and looking for it starts no watch", async () => {
  api.put(widgets, widget("a"));
  const { pool } = setUp();
  expect(pool.stored(widgets)).toBeUndefined();
  const part = pool.share();
  part.of(widgets, { namespace: "ns" });
  await part.synced();
  expect(pool.stored(widgets)).toBeUndefined();
  expect(api.requests.filter(({ path }) => !path.includes("/namespaces/ns/"))).toEqual([]);
  const share = pool.share();
  share.of(widgets);
  expect(pool.stored(widgets)).toBeUndefined();
  await share.synced();
  expect(
    pool
      .stored(widgets)
      ?.list()
      .map(({ metadata }) => metadata?.name),
  ).toEqual(["a"]);
});

test("the content of a watch has the refusal of the API server for as long as that one refuses", async () => {
  const { pool, clock } = setUp();
  pool.share().of(widgets);
  const becomes = (code: number | undefined): Promise<unknown> =>
    eventually(`the refusal is ${code}`, async () => {
      await clock.advance(1000);
      const [content] = pool.contents();
      const { refusal } = content ?? {};
      return code === undefined ? refusal === undefined : refusal instanceof ApiError && refusal.status === code;
    });
  for (const code of [401, 403, 404]) {
    api.intercept = () => status(code, "", "no");
    await becomes(code);
    api.intercept = () => status(500, "", "no");
    await becomes(undefined);
  }
  api.intercept = () => status(403, "", "no");
  await becomes(403);
  api.intercept = undefined;
  await eventually("it watches", async () => {
    await clock.advance(1000);
    return api.watches === 1;
  });
  api.put(widgets, widget("a"));
  await becomes(undefined);
});

test("the handlers of all informers of a pool share the turns of the event loop", async () => {
  api.put(widgets, widget("a"));
  const { pool } = setUp();
  const share = pool.share();
  const informers = ["", "b", "!c"].map((labelSelector) => share.of(widgets, { labelSelector }));
  await share.synced();
  const told: string[] = [];
  let turns = 0;
  const added = ({ metadata: { name = "" } = {} }: Widget): void => {
    for (const until = performance.now() + 6; performance.now() < until;);
    told.push(name);
  };
  for (let index = 0; index < 10; index++) for (const informer of informers) informer.handle({ added });
  for (; told.length < 30; turns++) await setImmediate();
  // Ten where each informer has turns of its own.
  expect(turns).toBeGreaterThan(20);
});
