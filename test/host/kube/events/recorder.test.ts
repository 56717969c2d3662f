import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { setImmediate } from "node:timers/promises";

import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import { createClient } from "../../../../host/kube/connection/client.ts";
import { createTransport } from "../../../../host/kube/connection/transport.ts";
import { EventBroadcaster } from "../../../../host/kube/events/recorder.ts";
import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { capturedLog } from "../captured-log.ts";
import { status, StubApi, type StubReply, type StubRequest } from "../stub-api.ts";

let api: StubApi;
const broadcasters: EventBroadcaster[] = [];
beforeEach(async () => {
  api = await StubApi.start();
  api.intercept = accept;
});
afterEach(async () => {
  await Promise.all(broadcasters.splice(0).map((broadcaster) => broadcaster.close()));
  await api.stop();
});

const accept = ({ method, body }: StubRequest): StubReply =>
  method === "POST" ? { status: 201, body } : { status: 200, body: { kind: "Event", metadata: {} } };
const node = (name: string) => ({ apiVersion: "v1", kind: "Node", metadata: { name, uid: `uid-${name}` } });
const service = {
  apiVersion: "v1",
  kind: "Service",
  metadata: { name: "web", namespace: "shop", resourceVersion: "7" },
};

function setUp() {
  const clock = manualClock(Date.UTC(2030, 0, 1, 12, 0, 0, 7));
  const registry = new MetricsRegistry();
  const { log, lines } = capturedLog(5);
  const client = createClient(createTransport(api.access(), { userAgent: "test", qps: -1 }));
  const events = new EventBroadcaster({ client, clock, log, metrics: registry.root });
  broadcasters.push(events);
  const dropped = async (reason: string): Promise<number> => {
    const text = (await registry.render()).body;
    return Number(new RegExp(`event_recorder_dropped_total{reason="${reason}"} (\\d+)`).exec(text)?.[1] ?? 0);
  };
  return { clock, events, lines, dropped, recorder: events.recorder("cloud-node-controller") };
}

const sent = (): readonly string[] => api.requests.map(({ method, body }) => `${method} ${JSON.parse(body).message}`);
const requests = (count: number) => eventually(`${count} requests`, () => api.requests.length >= count);

describe("an event", () => {
  test("carries what client-go's recorder writes, and is logged once", async () => {
    const { recorder, events, lines } = setUp();
    recorder.event(service, "Warning", "SyncLoadBalancerFailed", "no luck");
    await events.flush(10_000);
    expect(api.requests[0]?.path).toBe("/api/v1/namespaces/shop/events");
    expect(JSON.parse(api.requests[0]?.body ?? "")).toEqual({
      apiVersion: "v1",
      kind: "Event",
      metadata: {
        name: `web.${(BigInt(Date.UTC(2030, 0, 1, 12, 0, 0, 7)) * 1_000_000n).toString(16)}`,
        namespace: "shop",
      },
      involvedObject: { apiVersion: "v1", kind: "Service", name: "web", namespace: "shop", resourceVersion: "7" },
      type: "Warning",
      reason: "SyncLoadBalancerFailed",
      message: "no luck",
      count: 1,
      firstTimestamp: "2030-01-01T12:00:00Z",
      lastTimestamp: "2030-01-01T12:00:00Z",
      source: { component: "cloud-node-controller" },
      reportingComponent: "cloud-node-controller",
      reportingInstance: "",
    });
    expect(lines().filter(({ msg }) => msg === "Event occurred")).toEqual([
      expect.objectContaining({
        object: "shop/web",
        kind: "Service",
        type: "Warning",
        reason: "SyncLoadBalancerFailed",
      }),
    ]);
  });

  test("an event of type Warning is logged as a warning, and not again where the caller logs its error", async () => {
    const { recorder, events, lines } = setUp();
    recorder.event(node("a"), "Normal", "Fine", "m");
    recorder.event(node("b"), "Warning", "Odd", "m");
    recorder.event(node("c"), "Warning", "Failed", "m", { logged: "by caller" });
    await events.flush(10_000);
    expect(api.requests).toHaveLength(3);
    const logged = lines().filter(({ msg, v = 0 }) => msg === "Event occurred" && v === 0);
    expect(logged.map(({ level, reason }) => [level, reason])).toEqual([
      ["info", "Fine"],
      ["warn", "Odd"],
    ]);
  });

  test("about a cluster-scoped object is in the default namespace; a name that is none is replaced", async () => {
    const { recorder, events } = setUp();
    recorder.event(node("a"), "Normal", "R", "m");
    recorder.event(node("Not_A_Name"), "Normal", "R", "m");
    recorder.event(node("long.".repeat(49).slice(0, -1)), "Normal", "R", "m");
    recorder.event(node("b"), "Normal", "R", "m");
    await events.flush(10_000);
    const names = api.requests.map(({ body }) => String(JSON.parse(body).metadata.name));
    expect(api.requests.every(({ path }) => path === "/api/v1/namespaces/default/events")).toBeTrue();
    expect(names.filter((name) => /^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(name))).toHaveLength(2);
    expect(new Set(names.map((name) => name.split(".")[1])).size).toBe(3);
  });

  test.each([
    ["apiVersion", { kind: "Node", metadata: { name: "x" } }],
    ["kind", { apiVersion: "v1", metadata: { name: "x" } }],
    ["name", { apiVersion: "v1", kind: "Node", metadata: {} }],
  ])("an event about something without %s is logged and goes nowhere", async (_, subject) => {
    const { recorder, events, lines } = setUp();
    recorder.event(subject, "Normal", "R", "m");
    await events.flush(10_000);
    expect(api.requests).toHaveLength(0);
    expect(lines().at(-1)?.msg).toBe("Invalid event: the object needs apiVersion, kind and name");
  });
});

describe("events that repeat", () => {
  test("raise the count of the first one", async () => {
    const { recorder, events, clock } = setUp();
    recorder.event(node("a"), "Normal", "R", "m");
    await requests(1);
    await clock.advance(60_000);
    recorder.event(node("a"), "Normal", "R", "m");
    recorder.event(node("a"), "Normal", "R", "m");
    await events.flush(10_000);
    const first = JSON.parse(api.requests[0]?.body ?? "");
    expect(api.requests[2]).toMatchObject({
      method: "PATCH",
      path: `/api/v1/namespaces/default/events/${first.metadata.name}`,
      headers: { "content-type": "application/strategic-merge-patch+json" },
    });
    expect(JSON.parse(api.requests[2]?.body ?? "")).toEqual({
      count: 3,
      lastTimestamp: "2030-01-01T12:01:00Z",
      message: "m",
    });
  });

  test("are recreated with their count when the first one has expired", async () => {
    const { recorder, events } = setUp();
    api.intercept = (request) => (request.method === "PATCH" ? status(404, "NotFound", "gone") : accept(request));
    recorder.event(node("a"), "Normal", "R", "m");
    recorder.event(node("a"), "Normal", "R", "m");
    await events.flush(10_000);
    const [first, , again] = api.requests.map(({ body }) => JSON.parse(body));
    expect(again).toMatchObject({ count: 2, metadata: { name: first.metadata.name } });
  });

  test("events that repeat with ever new messages are combined from the tenth on", async () => {
    const { recorder, events } = setUp();
    for (let index = 0; index < 12; index++) recorder.event(node("a"), "Normal", "R", `m${index}`);
    recorder.event(node("a"), "Normal", "Other", "alone");
    await events.flush(10_000);
    expect(sent().slice(8)).toEqual([
      "POST m8",
      "POST (combined from similar events): m9",
      "PATCH (combined from similar events): m10",
      "PATCH (combined from similar events): m11",
      "POST alone",
    ]);
  });

  test("are not combined when they are more than ten minutes apart", async () => {
    const { recorder, clock, events } = setUp();
    for (let index = 0; index < 9; index++) recorder.event(node("a"), "Normal", "R", `m${index}`);
    await requests(9);
    await clock.advance(601_000);
    recorder.event(node("a"), "Normal", "R", "m9");
    await events.flush(10_000);
    expect(sent().at(-1)).toBe("POST m9");
  });

  test("are combined after a long time as well, when they are not far apart", async () => {
    const { recorder, clock, events } = setUp();
    await clock.advance(3_600_000);
    for (let index = 0; index < 10; index++) {
      recorder.event(node("a"), "Normal", "R", `m${index}`);
      await requests(index + 1);
      if (index < 9) await clock.advance(300_000);
    }
    await events.flush(10_000);
    expect(sent().at(-1)).toBe("POST (combined from similar events): m9");
  });

  test("events of one message are not counted as those of another component", async () => {
    const { recorder, events } = setUp();
    recorder.event(node("a"), "Normal", "R", "m");
    events.recorder("node-route-controller").event(node("a"), "Normal", "R", "m");
    await events.flush(10_000);
    expect(sent()).toEqual(["POST m", "POST m"]);
  });

  test("beyond 25 about one object are dropped, until the budget fills again", async () => {
    const { recorder, clock, events, dropped } = setUp();
    for (let index = 0; index < 40; index++) recorder.event(node("a"), "Normal", "R", "m");
    recorder.event(node("b"), "Normal", "R", "m");
    await requests(26);
    await eventually("the rest is dropped", async () => (await dropped("spam")) === 15);
    await clock.advance(300_000);
    recorder.event(node("a"), "Normal", "R", "m");
    await events.flush(10_000);
    expect(JSON.parse(api.requests.at(-1)?.body ?? "")).toMatchObject({ count: 41 });
    expect(api.requests).toHaveLength(27);
  });
});

describe("delivery", () => {
  test("has several in flight, but the events about one object one after the other", async () => {
    const { recorder } = setUp();
    api.intercept = () => "hang";
    for (const name of ["a", "a", "b", "b", "c"]) recorder.event(node(name), "Normal", "R", "m");
    await requests(3);
    await setImmediate();
    const about = api.requests.map(({ body }) => String(JSON.parse(body).involvedObject.name));
    expect(about.toSorted()).toEqual(["a", "b", "c"]);
  });

  test("is tried twelve times, ten seconds apart, and then given up", async () => {
    const { recorder, clock, lines, dropped } = setUp();
    api.intercept = () => "reset";
    recorder.event(node("a"), "Normal", "R", "m");
    await eventually("it is given up", async () => {
      await clock.advance(10_000);
      return lines().some(({ msg }) => msg.startsWith("an event about a could not be sent: cannot reach"));
    });
    expect(api.requests).toHaveLength(12);
    expect(await dropped("unreachable")).toBe(1);
    expect(clock.sleepers).toBe(0);
  });

  test("is not tried again when the API server rejects the event, quietly where that is to be expected", async () => {
    const { recorder, events, lines, dropped } = setUp();
    const replies = [
      status(409, "AlreadyExists", "exists"),
      status(403, "Forbidden", "ns is forbidden because it is being terminated"),
      status(422, "Invalid", "bad event"),
    ];
    api.intercept = () => replies.shift();
    for (const name of ["a", "b", "c"]) recorder.event(node(name), "Normal", "R", "m");
    await events.flush(10_000);
    expect(api.requests).toHaveLength(3);
    expect(await dropped("rejected")).toBe(3);
    const errors = lines().filter(({ level }) => level === "error");
    expect(errors.map(({ msg }) => msg)).toEqual([expect.stringMatching(/rejected an event about [abc]: bad event$/)]);
  });

  test("drops, counts and occasionally logs events over the limit, and never blocks the recorder", async () => {
    const { recorder, events, dropped, clock, lines } = setUp();
    api.intercept = () => "hang";
    for (let index = 0; index < 10_010; index++) recorder.event(node(`n${index}`), "Normal", "R", "m");
    expect(await dropped("queue_full")).toBe(10);
    const reported = () =>
      lines().flatMap(({ msg, ...line }) => (msg.endsWith("dropping events") ? [line["dropped"]] : []));
    expect(reported()).toEqual([1]);
    await clock.advance(10_000);
    recorder.event(node("later"), "Normal", "R", "m");
    expect(reported()).toEqual([1, 10]);
    await events.close();
    recorder.event(node("late"), "Normal", "R", "m");
    expect(await dropped("queue_full")).toBe(11);
    expect(api.requests.length).toBeLessThanOrEqual(8);
  });

  test("delivery when flushed gives each event one more try, and does not outwait its limit", async () => {
    const { recorder, events, clock } = setUp();
    api.intercept = () => "reset";
    recorder.event(node("a"), "Normal", "R", "m");
    await eventually("it waits for its second try", () => clock.sleepers === 1);
    api.intercept = accept;
    await events.flush(10_000);
    expect(sent()).toEqual(["POST m", "POST m"]);
    api.intercept = () => "hang";
    recorder.event(node("a"), "Normal", "R", "other");
    await requests(3);
    const flushed = events.flush(5000);
    await clock.advance(5000);
    await flushed;
    expect(clock.sleepers).toBe(0);
  });
});

test("the latest events are kept in order, those about Leases apart from thousands about anything else", () => {
  const { events, recorder } = setUp();
  const lease = {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name: "main", namespace: "kube-system" },
  };
  recorder.event(lease, "Warning", "ReloadRefused", "key x");
  for (let index = 0; index < 1_500; index++) recorder.event(service, "Normal", "Synced", `${index}`);
  const { leases, others } = events.recent;
  expect(leases).toEqual([
    {
      at: "2030-01-01T12:00:00.007Z",
      subject: "Lease kube-system/main",
      source: "cloud-node-controller",
      type: "Warning",
      reason: "ReloadRefused",
      message: "key x",
    },
  ]);
  expect(others).toHaveLength(1_000);
  expect([others[0]?.message, others.at(-1)?.message, others[0]?.subject]).toEqual(["500", "1499", "Service shop/web"]);
  expect(events.count).toBe(1_501);
});
