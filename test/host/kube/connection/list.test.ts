import { expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";

import { listAll } from "../../../../host/kube/connection/list.ts";
import { streamList } from "../../../../host/kube/connection/stream-list.ts";
import type { ApiRequest, Transport } from "../../../../host/kube/connection/transport.ts";
import { rejection } from "../../../kit/rejection.ts";

/** Answers each request with the next of these documents, one line each. */
function answering(...documents: readonly unknown[]): { readonly transport: Transport; readonly sent: ApiRequest[] } {
  const sent: ApiRequest[] = [];
  const send = async (request: ApiRequest): Promise<Response> => {
    sent.push(request);
    return new Response(`${JSON.stringify(documents[sent.length - 1])}\n`);
  };
  return { transport: { url: "https://x", userAgent: "test", send, close: () => undefined }, sent };
}

const node = (name: string): object => ({ kind: "Node", apiVersion: "v1", metadata: { name, resourceVersion: "1" } });

test("a list of three pages has the objects of all, and the version of the last", async () => {
  const page = (name: string, version: string, next: string): object => ({
    kind: "NodeList",
    metadata: { resourceVersion: version, continue: next },
    items: [node(name)],
  });
  const { transport, sent } = answering(page("a", "7", "two"), page("b", "7", "three"), page("c", "8", ""));
  const { items, resourceVersion } = await listAll(transport, kinds.Node, {});
  expect(items.map(({ metadata }) => metadata?.name)).toEqual(["a", "b", "c"]);
  expect(resourceVersion).toBe("8");
  expect(sent.map(({ query }) => query?.["continue"])).toEqual([undefined, "two", "three"]);
});

const metadata = { resourceVersion: "7" };

test.each([
  ["of another kind", { kind: "Status", metadata, items: [] }, "its kind is Status"],
  ["without a kind", { metadata, items: [] }, "its kind is unknown"],
  ["without metadata", { kind: "NodeList", items: [] }, "it has no resourceVersion"],
  ["without a version", { kind: "NodeList", metadata: {}, items: [] }, "it has no resourceVersion"],
  ["whose items are an object", { kind: "NodeList", metadata, items: {} }, "its items are not a list"],
  ["that is an empty object", {}, "its kind is unknown"],
  ["that is null", null, "its kind is unknown"],
])("a reply %s is an error, and no empty list", async (_, document, reason) => {
  const listed = rejection(listAll(answering(document).transport, kinds.Node, {}));
  expect(await listed).toBe(`the API server's reply is not a list of Node: ${reason}`);
});

test.each([
  ["null", { kind: "NodeList", metadata, items: null }],
  ["absent", { kind: "NodeList", metadata }],
])("a list whose items are %s is empty", async (_, document) => {
  const listed = await listAll(answering(document).transport, kinds.Node, {});
  expect(listed).toEqual({ items: [], resourceVersion: "7" });
});

test("a list of metadata is requested as such, in a stream too", async () => {
  const annotations = { "k8s.io/initial-events-end": "true" };
  const end = { type: "BOOKMARK", object: { metadata: { resourceVersion: "9", annotations } } };
  const { transport, sent } = answering(end);
  await streamList(transport, kinds.Node, { metadataOnly: true });
  await streamList(answering(end).transport, kinds.Node, {});
  expect(sent.map(({ accept }) => accept)).toEqual([expect.stringContaining("as=PartialObjectMetadata;")]);
});

test("a streaming list whose end has no version is an error", async () => {
  const end = { type: "BOOKMARK", object: { metadata: { annotations: { "k8s.io/initial-events-end": "true" } } } };
  expect(await rejection(streamList(answering(end).transport, kinds.Node, {}))).toContain("has no resourceVersion");
});
