import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { getEventListeners } from "node:events";

import { type Fence, FencedError, kinds, type PatchType } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { createClient } from "../../../../host/kube/connection/client.ts";
import { createTransport } from "../../../../host/kube/connection/transport.ts";
import { errorOf, rejection } from "../../../kit/rejection.ts";
import { status, StubApi, type StubReply, type StubRequest, type Widget, widgets } from "../stub-api.ts";

let api: StubApi;
beforeEach(async () => {
  api = await StubApi.start();
});
afterEach(() => api.stop());

const transport = () => createTransport(api.access(), { userAgent: "ccm/1 (test)", qps: -1 });
const widget = (name: string, size = 1) => ({ metadata: { name, namespace: "ns" }, spec: { size } });
const echo = ({ body }: StubRequest): StubReply => ({ status: 200, body });
const seen = (): readonly string[] =>
  api.requests.map(({ method, path, query }) => `${method} ${path}${query.size > 0 ? `?${query.toString()}` : ""}`);

describe("the client", () => {
  test("reads the latest state, or the API server's cache on request", async () => {
    api.intercept = () => ({ status: 200, body: widget("a") });
    const client = createClient(transport());
    const object = await client.get(widgets, { name: "a", namespace: "ns" });
    expect(object).toMatchObject({ apiVersion: "test.io/v1", kind: "Widget", spec: { size: 1 } });
    await client.get(kinds.Node, { name: "a/b" }, { read: "cached" });
    expect(seen()).toEqual([
      "GET /apis/test.io/v1/namespaces/ns/widgets/a",
      "GET /api/v1/nodes/a%2Fb?resourceVersion=0",
    ]);
  });

  test("sends no object that lacks its namespace", async () => {
    const client = createClient(transport());
    const problem = 'a Widget is in a namespace; none is given for "a"';
    const creation = client.create(widgets, { ...widget("a"), metadata: { name: "a" } });
    expect(await errorOf(creation)).toMatchObject({ code: "InvalidObject", message: problem });
    expect(api.requests).toEqual([]);
  });

  test("creates and replaces whole objects, with apiVersion and kind filled in", async () => {
    api.intercept = echo;
    const client = createClient(transport());
    expect(await client.create(widgets, widget("a"))).toMatchObject({ kind: "Widget", metadata: { name: "a" } });
    await client.replace(widgets, widget("a", 2));
    await client.replace(widgets, widget("a", 3), { subresource: "status" });
    expect(seen()).toEqual([
      "POST /apis/test.io/v1/namespaces/ns/widgets",
      "PUT /apis/test.io/v1/namespaces/ns/widgets/a",
      "PUT /apis/test.io/v1/namespaces/ns/widgets/a/status",
    ]);
    expect(JSON.parse(api.requests[2]?.body ?? "")).toEqual({
      apiVersion: "test.io/v1",
      kind: "Widget",
      ...widget("a", 3),
    });
  });

  test("sends each kind of patch under its content type", async () => {
    api.intercept = () => ({ status: 200, body: widget("a") });
    const client = createClient(transport());
    const types: readonly PatchType[] = ["strategic", "merge", "json", "apply"];
    for (const type of types)
      await client.patch(widgets, { name: "a", namespace: "ns" }, type, { x: 1 }, { subresource: "status" });
    expect(api.requests.map(({ headers }) => headers["content-type"])).toEqual([
      "application/strategic-merge-patch+json",
      "application/merge-patch+json",
      "application/json-patch+json",
      "application/apply-patch+yaml",
    ]);
    const path = "PATCH /apis/test.io/v1/namespaces/ns/widgets/a/status";
    expect(seen()).toEqual([path, path, path, `${path}?fieldManager=ccm&force=true`]);
  });

  test("requests metadata only if the caller needs no more, and accepts a whole object", async () => {
    const client = createClient(transport());
    const metadata = { name: "a", uid: "u", resourceVersion: "7" };
    const replies = [
      { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1", metadata },
      { kind: "Node", apiVersion: "v1", metadata, spec: { podCIDR: "10.0.0.0/24" } },
    ];
    api.intercept = () => ({ status: 200, body: replies.shift() });
    for (let count = 0; count < 2; count++)
      expect(await client.patch(kinds.Node, { name: "a" }, "merge", {}, { response: "metadata" })).toEqual({
        apiVersion: "v1",
        kind: "Node",
        metadata,
      });
    expect(api.requests.map(({ headers }) => headers["accept"])).toEqual(
      Array.from({ length: 2 }, () => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"),
    );
  });

  test("deletes with the given preconditions only", async () => {
    const client = createClient(transport());
    await client.delete(kinds.Node, { name: "a" });
    await client.delete(kinds.Node, { name: "a" }, { uid: "u", resourceVersion: "7" });
    expect(api.requests.map(({ body }) => JSON.parse(body))).toEqual([
      { apiVersion: "v1", kind: "DeleteOptions" },
      { apiVersion: "v1", kind: "DeleteOptions", preconditions: { uid: "u", resourceVersion: "7" } },
    ]);
  });

  test("refuses an object of a namespaced kind without a namespace", async () => {
    const client = createClient(transport());
    expect(await rejection(client.get(widgets, { name: "a" }))).toBe(
      'a Widget is in a namespace; none is given for "a"',
    );
    expect(await rejection(client.replace(kinds.Node, {}))).toBe("a Node to be replaced must have metadata.name");
    expect(api.requests).toHaveLength(0);
  });

  test("refuses a reply that is another kind of object", async () => {
    api.intercept = () => ({ status: 200, body: { kind: "Gadget", metadata: {} } });
    expect(await rejection(createClient(transport()).get(kinds.Node, { name: "a" }))).toBe(
      "the API server's reply is not a Node object",
    );
  });
});

describe("a trimmed list", () => {
  const trim = (object: Widget): void => void Reflect.deleteProperty(object, "spec");

  test("is streamed, and each object is trimmed as soon as it is read", async () => {
    api.streamingLists = "supported";
    for (const name of ["a", "b"]) api.put(widgets, widget(name));
    const trimmed: (string | undefined)[] = [];
    const items = await createClient(transport()).list(widgets, {
      trim(object) {
        trimmed.push(object.metadata?.name);
        trim(object);
      },
    });
    expect(trimmed).toEqual(["a", "b"]);
    expect(items.map(({ metadata, spec }) => [metadata?.name, spec])).toEqual([
      ["a", undefined],
      ["b", undefined],
    ]);
    expect(api.reads).toEqual(["STREAM"]);
    const { query } = api.requests[0] ?? { query: new URLSearchParams() };
    expect(query.get("resourceVersionMatch")).toBe("NotOlderThan");
    expect(query.has("resourceVersion")).toBe(false);
  });

  test("is read page by page from a server without streaming lists, which is asked once", async () => {
    for (const name of ["a", "b", "c"]) api.put(widgets, widget(name));
    api.pageSize = 2;
    const client = createClient(transport());
    for (let count = 0; count < 2; count++) {
      const items = await client.list(widgets, { trim });
      expect(items.map(({ metadata, spec }) => [metadata?.name, spec])).toEqual([
        ["a", undefined],
        ["b", undefined],
        ["c", undefined],
      ]);
    }
    expect(api.reads).toEqual(["LIST", "LIST", "LIST", "LIST"]);
    expect(api.rejectedStreams).toBe(1);
  });

  test("rejects with the server's error when it fails, without a second attempt", async () => {
    api.streamingLists = "supported";
    api.intercept = () => status(503, "ServiceUnavailable", "later");
    expect(await rejection(createClient(transport()).list(widgets, { trim }))).toBe("later");
    expect(api.requests).toHaveLength(1);
  });
});

describe("a list", () => {
  const names = ["a", "b", "c", "d", "e"];
  beforeEach(() => {
    for (const name of names) api.put(widgets, widget(name));
    api.pageSize = 2;
  });

  test("is read page by page, in one namespace or in all, with the kind of every item", async () => {
    const items = await createClient(transport()).list(widgets, {
      labelSelector: "a=b",
      fieldSelector: "metadata.name=x",
    });
    expect(items.map((item) => item.metadata?.name)).toEqual(names);
    expect(items[4]).toMatchObject({ apiVersion: "test.io/v1", kind: "Widget" });
    const selectors = "labelSelector=a%3Db&fieldSelector=metadata.name%3Dx&limit=500";
    expect(seen()).toEqual([
      `GET /apis/test.io/v1/widgets?${selectors}`,
      `GET /apis/test.io/v1/widgets?${selectors}&continue=2`,
      `GET /apis/test.io/v1/widgets?${selectors}&continue=4`,
    ]);
    await createClient(transport()).list(widgets, { namespace: "ns" });
    expect(seen().at(-1)).toBe("GET /apis/test.io/v1/namespaces/ns/widgets?limit=500&continue=4");
  });

  test("a list whose pages expire is read again in one request", async () => {
    api.expireTokens = true;
    const items = await createClient(transport()).list(widgets);
    expect(items.map((item) => item.metadata?.name)).toEqual(names);
    expect(api.requests.at(-1)?.query.size).toBe(0);
    expect(api.requests).toHaveLength(3);
  });

  test("is empty without objects", async () => {
    expect(await createClient(transport()).list(kinds.Node)).toEqual([]);
  });
});

describe("requests under a fence", () => {
  const fence = () => {
    const aborter = new AbortController();
    const state = { closed: false };
    const port: Fence = {
      get closed() {
        return state.closed;
      },
      check: (what) => {
        if (state.closed) throw new FencedError(what, "its generation has ended");
      },
      signal: aborter.signal,
    };
    return { port, state, aborter };
  };

  test("no write is sent once it is closed, but reads are", async () => {
    const { port, state } = fence();
    const client = createClient(transport(), { fence: port });
    api.intercept = ({ method, body }) => (method === "GET" ? undefined : { status: 200, body: body || widget("a") });
    await client.create(widgets, widget("a"));
    state.closed = true;
    const a = { name: "a", namespace: "ns" };
    for (const [what, write] of [
      ["POST /apis/test.io/v1/namespaces/ns/widgets", () => client.create(widgets, widget("a"))],
      ["PUT /apis/test.io/v1/namespaces/ns/widgets/a", () => client.replace(widgets, widget("a"))],
      ["PATCH /apis/test.io/v1/namespaces/ns/widgets/a", () => client.patch(widgets, a, "merge", {})],
      ["DELETE /apis/test.io/v1/namespaces/ns/widgets/a", () => client.delete(widgets, a)],
    ] as const)
      expect(await rejection(write())).toBe(`${what} refused: its generation has ended`);
    expect(api.requests).toHaveLength(1);
    await client.list(widgets);
    expect(api.requests).toHaveLength(2);
  });

  test("a write that waits for a retry is not sent once it is closed", async () => {
    const { port, state } = fence();
    api.intercept = () => {
      state.closed = true;
      return { ...status(429, "TooManyRequests", ""), headers: { "retry-after": "0" } };
    };
    const client = createClient(transport(), { fence: port });
    expect(await rejection(client.delete(kinds.Node, { name: "a" }))).toBe(
      "DELETE /api/v1/nodes/a refused: its generation has ended",
    );
    expect(api.requests).toHaveLength(1);
  });

  test("a write in flight is aborted when it closes, and no write leaves a listener on it", async () => {
    const { port, aborter } = fence();
    const client = createClient(transport(), { fence: port });
    await client.delete(kinds.Node, { name: "a" });
    expect(getEventListeners(port.signal, "abort")).toHaveLength(0);
    api.intercept = () => "hang";
    const failure = rejection(client.delete(kinds.Node, { name: "a" }));
    await eventually("the write is there", () => api.requests.length === 2);
    aborter.abort(new FencedError("the write in flight", "its generation has ended"));
    expect(await failure).toBe("the write in flight refused: its generation has ended");
  });
});
