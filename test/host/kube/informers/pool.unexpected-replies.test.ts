import { afterEach, beforeEach, describe, expect, test } from "bun:test";

import { eventually } from "cloud-controller-host/sdk/testing";

import { status, type StubReply, type StubRequest, widgets } from "../stub-api.ts";
import { PoolRig, widget } from "./pool-rig.ts";

let rig: PoolRig;
beforeEach(async () => {
  rig = await PoolRig.start(0);
});
afterEach(() => rig[Symbol.asyncDispose]());

const json = (body: unknown): StubReply => ({ status: 200, body });
const metadata = { resourceVersion: "500" };
const html = { status: 200, headers: { "content-type": "text/html" }, body: "<html>\n<p>Sign in</p>\n</html>\n" };

/** Replies with code 200 that a gateway, a proxy or a faulty server may send in place of a list. */
const replies: readonly (readonly [string, StubReply])[] = [
  ["an empty object", json({})],
  ["other JSON", json({ status: "ok" })],
  ["an array", json([])],
  ["null", json("null")],
  ["a Status", { ...status(500, "InternalError", "no"), status: 200 }],
  ["a list without its kind", json({ metadata, items: [] })],
  ["an object in place of the list", json({ kind: "Widget", metadata, items: [] })],
  ["a list without a resourceVersion", json({ kind: "WidgetList", metadata: {}, items: [] })],
  ["a list with an empty resourceVersion", json({ kind: "WidgetList", metadata: { resourceVersion: "" }, items: [] })],
  ["a list without metadata", json({ kind: "WidgetList", items: [] })],
  ["a list whose items are an object", json({ kind: "WidgetList", metadata, items: {} })],
  ["a list with an item that is not an object", json({ kind: "WidgetList", metadata, items: ["a"] })],
  ["a list of another kind of object", json({ kind: "List", metadata, items: [{ kind: "Pod", metadata: {} }] })],
  ["HTML", html],
  ["HTML of one line", { ...html, body: "<html></html>" }],
  ["broken JSON", json('{"kind":"WidgetList","metadata":{"resourceVersion":"5"},"items":[')],
  ["no body", json(undefined)],
];

const isList = ({ query }: StubRequest): boolean => !query.has("watch");
const warnings = (): readonly string[] =>
  rig
    .lines()
    .filter(({ level }) => level === "warn")
    .map(({ msg }) => msg);

describe("a reply that is not a list", () => {
  for (const [what, reply] of replies)
    test(`deletes nothing, is reported at the default verbosity and read again: ${what}`, async () => {
      for (const name of ["a", "b"]) rig.api.put(widgets, widget(name));
      const { store, deleted } = await rig.watch();
      let answers = 0;
      rig.api.intercept = (request) => {
        if (!isList(request)) return undefined;
        answers += 1;
        return reply;
      };
      rig.api.endWatches();
      rig.api.put(widgets, widget("c"));
      rig.api.compact();
      await rig.soon("it was listed twice", () => answers >= 2);
      expect({ deleted, size: store.size }).toEqual({ deleted: [], size: 2 });
      expect(warnings()).toEqual([
        expect.stringMatching(/^cannot list or watch widgets\.test\.io, trying again: the API server's reply is not /),
      ]);
      rig.api.intercept = undefined;
      await rig.soon("the store is complete", () => store.size === 3);
      expect(deleted).toEqual([]);
    });

  test("does not count as the first list", async () => {
    rig.api.put(widgets, widget("a"));
    rig.api.intercept = (request) => (isList(request) ? json({}) : undefined);
    const { informer, store } = rig.begin();
    await rig.soon("it was listed three times", () => rig.lists >= 3);
    expect(informer.hasSynced()).toBeFalse();
    rig.api.intercept = undefined;
    await rig.soon("it has synced", () => informer.hasSynced());
    expect(store.size).toBe(1);
  });

  test("does not end a list as its second page", async () => {
    for (const name of ["a", "b", "c", "d"]) rig.api.put(widgets, widget(name));
    rig.api.pageSize = 2;
    let faulty = 1;
    rig.api.intercept = ({ query }) => (query.has("continue") && faulty-- > 0 ? json({}) : undefined);
    const { informer, store } = rig.begin();
    await rig.soon("it has synced", () => informer.hasSynced());
    expect(store.size).toBe(4);
  });
});

test("an empty list may have null in place of its items", async () => {
  rig.api.intercept = (request) => (isList(request) ? json({ kind: "WidgetList", metadata, items: null }) : undefined);
  const { informer, store } = await rig.watch();
  expect(informer.hasSynced()).toBeTrue();
  expect(store.size).toBe(0);
});

describe("a streaming list", () => {
  const end = { type: "BOOKMARK", object: { metadata: { annotations: { "k8s.io/initial-events-end": "true" } } } };
  const added = (name: string) => ({ type: "ADDED", object: { ...widget(name), kind: "Widget" } });
  const stream = (...events: readonly unknown[]): StubReply =>
    json(events.map((event) => `${JSON.stringify(event)}\n`).join(""));
  const complete = { ...end, object: { metadata: { ...end.object.metadata, ...metadata } } };

  for (const [what, reply] of [
    ["ends without a resourceVersion", stream(added("a"), end)],
    ["has an event of an unknown type", stream(added("a"), { type: "GONE", object: widget("b") }, complete)],
    ["has a document that is not an event", stream(added("a"), {}, complete)],
    ["has a Status in place of events", stream(status(500, "InternalError", "no").body)],
    ["is HTML", html],
  ] as const)
    test(`is reported and read again where it ${what}`, async () => {
      rig.api.streamingLists = "supported";
      for (const name of ["a", "b", "c"]) rig.api.put(widgets, widget(name));
      rig.api.intercept = ({ query }) => (query.has("sendInitialEvents") ? reply : undefined);
      const { informer, store } = rig.begin();
      await eventually("it is reported", () => warnings().length === 1);
      expect(informer.hasSynced()).toBeFalse();
      rig.api.intercept = undefined;
      await rig.soon("it has synced", () => informer.hasSynced());
      expect(store.size).toBe(3);
    });

  test("is read in pages at once where the server ends it with an error", async () => {
    rig.api.streamingLists = "supported";
    rig.api.put(widgets, widget("a"));
    const expired = { type: "ERROR", object: status(410, "Expired", "too old").body };
    rig.api.intercept = ({ query }) => (query.has("sendInitialEvents") ? stream(added("b"), expired) : undefined);
    const { store } = await rig.watch();
    expect(store.list().map((object) => object.metadata?.name)).toEqual(["a"]);
    expect(warnings()).toEqual([]);
  });

  test("leaves out what is deleted while it is read, and ordinary bookmarks do not end it", async () => {
    rig.api.streamingLists = "supported";
    const bookmark = { type: "BOOKMARK", object: { metadata } };
    const gone = { type: "DELETED", object: { ...widget("a"), kind: "Widget" } };
    rig.api.intercept = ({ query }) =>
      query.has("sendInitialEvents") ? stream(added("a"), bookmark, gone, added("b"), complete) : undefined;
    const { store } = await rig.watch();
    expect(store.list().map((object) => object.metadata?.name)).toEqual(["b"]);
    expect(rig.api.reads).toEqual(["STREAM", "WATCH 500"]);
  });
});

describe("a watch", () => {
  for (const [what, reply, reported] of [
    ["HTML", html, "the API server's reply is not JSON"],
    ["HTML of one line", { ...html, body: "<html></html>" }, "the API server's reply is not JSON"],
    [
      "a Status",
      { ...status(500, "InternalError", "no"), status: 200 },
      "the API server's reply is not a Widget object",
    ],
    ["an empty reply", json(undefined), "it ended at once and brought nothing"],
  ] as const)
    test(`a watch that is answered again and again with ${what} is reported at the default verbosity`, async () => {
      rig.api.put(widgets, widget("a"));
      const { store, deleted } = await rig.watch();
      rig.api.intercept = (request) => (isList(request) ? undefined : reply);
      rig.api.endWatches();
      await rig.soon("it is reported", () => warnings().length === 1);
      expect(warnings()[0]).toBe(`cannot list or watch widgets.test.io, trying again: ${reported}`);
      rig.api.intercept = undefined;
      await rig.soon("it watches", () => rig.api.watches === 1);
      rig.api.put(widgets, widget("b"));
      await eventually("the end is reported", () =>
        rig.lines().some(({ msg }) => msg === "widgets.test.io are listed and watched again"),
      );
      expect({ deleted, size: store.size }).toEqual({ deleted: [], size: 2 });
    });

  test("a watch that ends early now and then is not reported", async () => {
    const { store } = await rig.watch();
    for (const name of ["a", "b", "c"]) {
      let short = 2;
      rig.api.intercept = (request) => (!isList(request) && short-- > 0 ? json(undefined) : undefined);
      rig.api.endWatches();
      await rig.soon("it watches", () => short <= 0 && rig.api.watches === 1);
      rig.api.put(widgets, widget(name));
      await eventually("the change arrives", () => store.get(`ns/${name}`) !== undefined);
      await rig.clock.advance(2000);
    }
    expect(rig.lines()).toEqual([]);
  });
});
