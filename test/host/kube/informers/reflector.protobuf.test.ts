import { expect, test } from "bun:test";

import { kinds, type Node } from "cloud-controller-host/sdk";
import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import type { ApiRequest, Transport } from "../../../../host/kube/connection/transport.ts";
import { LogOnce } from "../../../../host/kube/informers/log-once.ts";
import { Reflector } from "../../../../host/kube/informers/reflector.ts";
import { type Selection } from "../../../../host/kube/informers/requests.ts";
import { ObjectStore } from "../../../../host/kube/informers/store.ts";
import { capturedLog } from "../captured-log.ts";
import { document, watchFrame } from "../protobuf/encode.ts";

const protobuf = "application/vnd.kubernetes.protobuf";
const node = (name: string, version: number, annotations = {}): Record<string, unknown> => ({
  metadata: {
    name,
    uid: name,
    resourceVersion: String(version),
    ...(Object.keys(annotations).length > 0 && { annotations }),
  },
  spec: {},
  status: {},
});
const initialEnd = { "k8s.io/initial-events-end": "true" };
const bookmark = watchFrame("BOOKMARK", "Node", node("", 10, initialEnd));
const streamed = (...chunks: readonly Uint8Array[]): Response =>
  new Response(Buffer.concat(chunks), { headers: { "content-type": `${protobuf};stream=watch` } });

/** Runs a reflector of Nodes on these replies, one per request, and then waits. */
async function reflect(
  replies: readonly (() => Response)[],
  { accepts = true, selection = {} }: { readonly accepts?: boolean; readonly selection?: Selection } = {},
) {
  const sent: ApiRequest[] = [];
  const [clock, stop, store] = [manualClock(), new AbortController(), new ObjectStore<Node>()];
  const removed: string[] = [];
  const transport: Transport = {
    url: "https://test",
    userAgent: "test",
    protobuf: accepts,
    close: () => undefined,
    send: (request) => {
      sent.push(request);
      const reply = replies[sent.length - 1]?.();
      if (reply !== undefined) return Promise.resolve(reply);
      return new Promise((_, reject) =>
        request.signal?.addEventListener("abort", () => reject(request.signal?.reason), { once: true }),
      );
    },
  };
  const { log, lines } = capturedLog(2);
  const reflector = new Reflector<Node>({
    transport,
    clock,
    log,
    kind: kinds.Node,
    selection,
    store,
    unreachable: new LogOnce(log, "over"),
    changed: (changes) =>
      void removed.push(
        ...changes.flatMap(({ type, object }) => (type === "deleted" ? [object.metadata?.name ?? ""] : [])),
      ),
    synced: () => undefined,
  });
  const running = reflector.run(stop.signal);
  const isWaiting = async (): Promise<boolean> => {
    await clock.advance(40_000);
    return sent.length > replies.length;
  };
  await eventually("all replies were read", isWaiting);
  stop.abort();
  await running;
  return { sent, removed, store, lines: lines() };
}

const whole = (): Response =>
  streamed(watchFrame("ADDED", "Node", node("a", 5)), watchFrame("ADDED", "Node", node("b", 6)), bookmark);

test("Nodes are listed and watched in protobuf where the transport has it, and metadata never is", async () => {
  const accepted = async (options: Parameters<typeof reflect>[1]): Promise<unknown> =>
    (await reflect([whole], options)).sent.map(({ accept }) => accept);
  const both = `${protobuf},application/json`;
  expect(await accepted({})).toEqual([both, both]);
  expect(await accepted({ accepts: false })).toEqual([undefined, undefined]);
  const metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
  expect(await accepted({ selection: { metadataOnly: true } })).toEqual([metadata, metadata]);
});

test("a list and a watch in protobuf fill the store", async () => {
  const changes = (): Response =>
    streamed(watchFrame("DELETED", "Node", node("a", 11)), watchFrame("ADDED", "Node", node("c", 12)));
  const { store, removed, sent } = await reflect([whole, changes]);
  expect(store.list()).toEqual(
    ["b", "c"].map((name) => expect.objectContaining({ metadata: expect.objectContaining({ name }) })),
  );
  expect(removed).toEqual(["a"]);
  expect(sent.at(-1)?.query?.["resourceVersion"]).toBe("12");
});

test("a reply in JSON is read as JSON, whatever was asked for", async () => {
  const json = (): Response =>
    new Response(
      [node("a", 5), node("", 10, initialEnd)]
        .map((object, index) => JSON.stringify({ type: index === 0 ? "ADDED" : "BOOKMARK", object }))
        .join("\n"),
    );
  expect((await reflect([json])).store.size).toBe(1);
});

test("pages in protobuf are read where the server has no streaming lists", async () => {
  const page = (name: string, next: string): Response =>
    new Response(document("NodeList", { metadata: { resourceVersion: "9", continue: next }, items: [node(name, 5)] }), {
      headers: { "content-type": protobuf },
    });
  const cut = (): Response => streamed(watchFrame("ADDED", "Node", node("a", 5)));
  const { store, sent } = await reflect([cut, () => page("a", "more"), () => page("b", "")]);
  expect(store.size).toBe(2);
  expect(sent.at(-1)?.query?.["resourceVersion"]).toBe("9");
});

const broken: readonly (readonly [string, () => Response])[] = [
  ["a stream that is cut within an event", () => streamed(watchFrame("ADDED", "Node", node("c", 11)).subarray(0, 40))],
  ["a frame of 4 GB", () => streamed(Buffer.from([0xff, 0xff, 0xff, 0xff]))],
  ["a node without its spec", () => streamed(watchFrame("MODIFIED", "Node", { metadata: { name: "a" }, status: {} }))],
  ["an object of another kind", () => streamed(watchFrame("DELETED", "Status", { code: 200 }))],
];
for (const [what, reply] of broken)
  test(`deletes nothing, is reported and read again, with a fresh list after three of them: ${what}`, async () => {
    const { store, removed, sent, lines } = await reflect([whole, reply, reply, reply, reply, whole]);
    const reads = sent.map(({ query }) =>
      query?.["sendInitialEvents"] ? "list" : query?.["watch"] ? "watch" : "pages",
    );
    expect(reads.slice(0, 5)).toEqual(["list", "watch", "watch", "watch", "list"]);
    expect({ removed, size: store.size }).toEqual({ removed: [], size: 2 });
    expect(lines.filter(({ level }) => level === "warn").map(({ msg }) => msg)).toContainEqual(
      expect.stringMatching(/^cannot list or watch nodes, trying again: the API server's reply /u),
    );
  });

test("a watch that is too old, reported in protobuf, leads to a fresh list", async () => {
  const gone = (): Response =>
    streamed(watchFrame("ERROR", "Status", { status: "Failure", code: 410, reason: "Expired", message: "too old" }));
  const { sent } = await reflect([whole, gone, whole]);
  expect(sent.map(({ query }) => query?.["sendInitialEvents"])).toEqual(["true", undefined, "true", undefined]);
});
