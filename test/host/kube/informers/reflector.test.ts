import { afterEach, beforeEach, describe, expect, test } from "bun:test";

import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import { createTransport } from "../../../../host/kube/connection/transport.ts";
import { InformerPool } from "../../../../host/kube/informers/pool.ts";
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

/** A watched kind, and everything that was reported to its handler. */
function watched() {
  const clock = manualClock();
  const { log, lines } = capturedLog(4);
  const transport = createTransport(api.access(), { userAgent: "test", qps: -1 });
  const pool = new InformerPool({ transport, clock, log });
  pools.push(pool);
  const share = pool.share();
  const informer = share.of(widgets);
  const reported: string[] = [];
  informer.handle({
    added: (object) => reported.push(`+${object.metadata?.name}`),
    updated: (_, after) => reported.push(`~${after.metadata?.name}`),
    deleted: (last) => reported.push(`-${last.metadata?.name}`),
  });
  const watching = () => eventually("it watches", () => api.watches === 1);
  /** Moves time on until the pauses of the reflector have led there. */
  const soon = (what: string, holds: () => boolean) =>
    eventually(what, async () => {
      await clock.advance(1000);
      return holds();
    });
  return { clock, lines, share, informer, reported, watching, soon, transport };
}

describe("the initial list", () => {
  const names = ["a", "b", "c"];
  for (const [mode, reads] of [
    ["supported", ["STREAM", "WATCH 103"]],
    ["unsupported", ["LIST", "WATCH 103"]],
    ["cut", ["STREAM", "LIST", "WATCH 103"]],
  ] as const)
    test(`is complete and followed by a watch from its version: streaming is ${mode}`, async () => {
      api.streamingLists = mode;
      for (const name of names) api.put(widgets, widget(name));
      const { share, informer, watching, reported } = watched();
      await share.synced();
      await watching();
      expect(informer.store.list().map(({ metadata }) => metadata?.name)).toEqual(names);
      expect(api.reads).toEqual([...reads]);
      api.put(widgets, widget("d"));
      await eventually("the change arrives", () => reported.includes("+d"));
    });

  for (const [answer, again] of [
    [status(422, "Invalid", "sendInitialEvents is forbidden"), ["LIST", "WATCH 104"]],
    [status(400, "BadRequest", "not now"), ["STREAM", "WATCH 104"]],
  ] as const)
    test(`is read page by page after a ${answer.status} to a streaming list; only 422 is remembered`, async () => {
      api.streamingLists = "supported";
      for (const name of names) api.put(widgets, widget(name));
      api.intercept = ({ query }) => (query.has("sendInitialEvents") ? answer : undefined);
      const { share, informer, watching, soon } = watched();
      await share.synced();
      await watching();
      expect(api.reads).toEqual(["STREAM", "LIST", "WATCH 103"]);
      api.intercept = undefined;
      api.endWatches();
      api.put(widgets, widget("d"));
      api.compact();
      await soon("it is listed again", () => informer.store.size === 4 && api.watches === 1);
      expect(api.reads.slice(-2)).toEqual([...again]);
    });
});

describe("a watch", () => {
  test("a watch that ends is resumed from the last bookmark when no object came after it", async () => {
    api.put(widgets, widget("a"));
    const { share, watching, clock, soon } = watched();
    await share.synced();
    await watching();
    await clock.advance(2000);
    api.bookmark(widgets);
    api.endWatches();
    await soon("it watches again", () => api.watches === 1);
    expect(api.reads).toEqual(["LIST", "WATCH 101", "WATCH 102"]);
  });

  test("a watch that ends is resumed from the version of the last object", async () => {
    api.put(widgets, widget("a"));
    const { share, watching, clock, reported, soon } = watched();
    await share.synced();
    await watching();
    await clock.advance(2000);
    api.endWatches();
    await soon("it watches again", () => api.watches === 1);
    api.put(widgets, widget("b"));
    await eventually("it is reported", () => reported.length === 2);
    api.endWatches();
    await watching();
    api.bookmark(widgets);
    api.put(widgets, widget("c"));
    await eventually("it is reported", () => reported.length === 3);
    api.bookmark(widgets);
    api.put(widgets, widget("d"));
    await eventually("it is reported", () => reported.length === 4);
    api.endWatches();
    await watching();
    expect(reported).toEqual(["+a", "+b", "+c", "+d"]);
    expect(api.reads).toEqual(["LIST", "WATCH 101", "WATCH 101", "WATCH 102", "WATCH 106"]);
    const { query } = api.requests.at(-1) ?? { query: new URLSearchParams() };
    expect(query.get("allowWatchBookmarks")).toBe("true");
    const seconds = Number(query.get("timeoutSeconds"));
    expect(seconds).toBeGreaterThanOrEqual(300);
    expect(seconds).toBeLessThan(600);
  });

  test("a watch that delivers again what it has delivered changes nothing, and lists again when nothing new comes", async () => {
    api.put(widgets, widget("a"));
    const { share, watching, reported, clock, informer } = watched();
    await share.synced();
    await watching();
    const at = (resourceVersion: string, size: number): Widget => ({
      ...widget("a", size),
      metadata: { name: "a", namespace: "ns", resourceVersion },
    });
    const events = [
      { type: "MODIFIED", object: at("110", 2) },
      { type: "DELETED", object: at("111", 2) },
      { type: "ADDED", object: at("112", 3) },
    ];
    for (const event of [...events, ...events]) api.send(widgets, event);
    api.send(widgets, { type: "MODIFIED", object: at("113", 4) });
    await eventually("the newest one is reported", () => informer.store.get("ns/a")?.spec?.size === 4);
    expect(reported).toEqual(["+a", "~a", "-a", "+a", "~a"]);
    // Without anything newer it counts as silent, as after a restored backup.
    await eventually("it lists again", async () => {
      for (const event of events) api.send(widgets, event);
      await clock.advance(50_000);
      return api.reads.filter((read) => read === "LIST").length === 2;
    });
  });

  test("a watch applies the deletion of an object under the object's own version, which is older than that of others", async () => {
    api.put(widgets, widget("a"));
    const { share, watching, reported, informer } = watched();
    await share.synced();
    await watching();
    const known = informer.store.get("ns/a");
    api.put(widgets, widget("b"));
    api.send(widgets, { type: "DELETED", object: known });
    await eventually("it is reported", () => reported.length === 3);
    expect(reported).toEqual(["+a", "+b", "-a"]);
  });

  test("a watch whose bookmark and object have no version is resumed from the last one that it knows", async () => {
    api.put(widgets, widget("a"));
    const { share, watching, clock, reported, soon } = watched();
    await share.synced();
    await watching();
    await clock.advance(2000);
    api.send(widgets, { type: "BOOKMARK", object: { kind: "Widget", metadata: {} } });
    api.send(widgets, {
      type: "ADDED",
      object: { kind: "Widget", ...widget("b"), metadata: { ...widget("b").metadata, resourceVersion: "" } },
    });
    await eventually("it is reported", () => reported.includes("+b"));
    api.endWatches();
    await soon("it watches again", () => api.watches === 1);
    expect(api.reads).toEqual(["LIST", "WATCH 101", "WATCH 101"]);
  });

  test("misses nothing that happened while it was away", async () => {
    const { share, watching, reported, soon } = watched();
    await share.synced();
    await watching();
    api.put(widgets, widget("a"));
    await eventually("it is reported", () => reported.length === 1);
    await api.stop();
    api.put(widgets, widget("b"));
    api.remove(widgets, widget("a"));
    await api.listen();
    await soon("everything is reported", () => reported.length === 3);
    expect(reported).toEqual(["+a", "+b", "-a"]);
    expect(api.reads.filter((read) => read === "LIST")).toHaveLength(1);
  });

  test("a watch that is too far behind lists again, and delivers only the differences", async () => {
    for (const name of ["same", "changed", "gone"]) api.put(widgets, widget(name));
    const { share, watching, reported, soon, clock, lines } = watched();
    await share.synced();
    await watching();
    await eventually("everything is reported", () => reported.length === 3);
    await clock.advance(2000);
    await api.stop();
    api.put(widgets, widget("changed", 2));
    api.remove(widgets, widget("gone"));
    api.put(widgets, widget("new"));
    api.compact();
    await api.listen();
    await soon("the differences are reported", () => reported.length === 6);
    expect(reported.slice(3).toSorted()).toEqual(["+new", "-gone", "~changed"]);
    await soon("it watches", () => api.watches === 1);
    expect(api.reads.filter((read) => read === "LIST")).toHaveLength(2);
    expect(lines().map(({ msg }) => msg)).toContain("the watch of widgets.test.io is too old; listing again");
  });

  test("a watch that falls silent is given up and resumed", async () => {
    const { share, watching, clock, reported } = watched();
    await share.synced();
    await watching();
    await clock.advance(100_000);
    api.put(widgets, widget("a"));
    await eventually("it is reported", () => reported.length === 1);
    await clock.advance(100_000);
    expect(api.reads).toHaveLength(2);
    await clock.advance(60_000);
    await eventually("it watches again", async () => {
      await clock.advance(1000);
      return api.reads.length === 3 && api.watches === 1;
    });
    api.put(widgets, widget("b"));
    await eventually("it is reported", () => reported.length === 2);
    expect(api.reads[2]).toBe("WATCH 101");
  });

  test("a watch that stays silent three times in a row lists again", async () => {
    const { share, watching, clock } = watched();
    await share.synced();
    await watching();
    for (let silent = 1; silent <= 3; silent++) {
      await clock.advance(150_000);
      const wanted = silent < 3 ? 2 + silent : 6; // the third brings a LIST and a WATCH
      await eventually("the watch continues", async () => {
        await clock.advance(1000);
        return api.reads.length === wanted && api.watches === 1;
      });
    }
    expect(api.reads.map((read) => read.split(" ")[0])).toEqual(["LIST", "WATCH", "WATCH", "WATCH", "LIST", "WATCH"]);
  });

  test("a watch that is refused again and again, as after a restored backup, lists again", async () => {
    const { share, watching, soon, clock, lines } = watched();
    await share.synced();
    await watching();
    await clock.advance(2000);
    api.intercept = ({ query }) =>
      query.has("watch") ? status(504, "Timeout", "Too large resource version") : undefined;
    api.endWatches();
    await soon("it lists", () => api.reads.filter((read) => read === "LIST").length === 2);
    api.intercept = undefined;
    await soon("it watches", () => api.watches === 1);
    api.bookmark(widgets);
    await eventually("the outage is logged", () =>
      lines().some(({ msg }) => msg === "widgets.test.io are listed and watched again"),
    );
    expect(
      lines()
        .filter(({ level }) => level === "warn")
        .map(({ msg }) => msg),
    ).toEqual(["cannot list or watch widgets.test.io, trying again: Too large resource version"]);
  });

  test("a watch that a busy server refuses with 429 again and again is not listed again, which would make it busier", async () => {
    const { share, watching, soon, clock } = watched();
    await share.synced();
    await watching();
    await clock.advance(2000);
    api.intercept = ({ query }) => (query.has("watch") ? status(429, "TooManyRequests", "busy") : undefined);
    const before = api.reads.length;
    api.endWatches();
    await soon("it was refused seven times", () => api.reads.length >= before + 7);
    expect(api.reads.filter((read) => read === "LIST")).toHaveLength(1);
  });

  test("a watch that receives invalid data is resumed, and keeps the events before it", async () => {
    const { share, watching, reported, soon } = watched();
    await share.synced();
    await watching();
    api.put(widgets, widget("a"));
    api.send(widgets, "{nonsense\n");
    await soon("it watches again", () => api.reads.length === 3 && api.watches === 1);
    api.put(widgets, widget("b"));
    await eventually("it is reported", () => reported.length === 2);
    expect(reported).toEqual(["+a", "+b"]);
  });

  test("a watch that ends at once is not opened again in a hurry", async () => {
    const { share, clock } = watched();
    api.intercept = ({ query }) => (query.has("watch") ? { status: 200, body: "" } : undefined);
    await share.synced();
    await eventually("it pauses", () => clock.sleepers > 0);
    expect(api.reads).toHaveLength(2);
  });
});

describe("an API server", () => {
  test("an API server that is not there yet is waited for: one warning that names it, whispers, and a line when it answers", async () => {
    await api.stop();
    const { share, lines, soon, informer, clock, transport } = watched();
    const other = share.of(widgets, { namespace: "ns" });
    await eventually("both have tried", () => lines().length >= 2 && clock.sleepers === 2);
    await soon("they have tried often", () => lines().length >= 8);
    const loud = () => lines().filter(({ level }) => level !== "debug" && level !== "trace");
    expect(informer.hasSynced()).toBeFalse();
    await api.listen();
    await soon("both have synced", () => informer.hasSynced() && other.hasSynced());
    await share.synced();
    const warnings = lines().filter(({ level }) => level === "warn");
    expect(warnings).toHaveLength(1);
    expect(warnings[0]?.msg).toStartWith(`waiting for the API server ${transport.url}: cannot reach`);
    expect(lines().map(({ msg }) => msg)).toContain(`the API server ${transport.url} answers`);
    expect(loud().length).toBeGreaterThan(1);
  });

  test("an API server that forbids a list is retried with growing pauses, and logged once", async () => {
    const { lines, soon, clock, informer } = watched();
    api.intercept = () => status(403, "Forbidden", "widgets is forbidden");
    await soon("it was asked four times", () => api.requests.length >= 4);
    const began = clock.now();
    await soon("it was asked twice more", () => api.requests.length >= 6);
    expect(clock.now() - began).toBeGreaterThan(12_000);
    api.intercept = undefined;
    await soon("it has synced", () => informer.hasSynced());
    expect(lines().filter(({ level }) => level === "warn")).toHaveLength(1);
  });
});
