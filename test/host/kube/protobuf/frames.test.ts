import { describe, expect, test } from "bun:test";

import { CodedError } from "cloud-controller-host/sdk";
import { Writer } from "protobufjs";

import { Frames } from "../../../../host/kube/protobuf/frames.ts";
import { document, encode, frame, watchFrame } from "./encode.ts";

const node = { metadata: { name: "a" }, spec: {}, status: {} };
const read = (...chunks: readonly Uint8Array[]): readonly unknown[] => {
  const frames = new Frames();
  return [...chunks.flatMap((chunk) => [...frames.push(chunk)]), ...frames.end()];
};
const errorOf = (...chunks: readonly Uint8Array[]): unknown => {
  try {
    return read(...chunks);
  } catch (error) {
    return error instanceof CodedError ? `${error.code}: ${error.message}` : error;
  }
};
const invalid = "UnexpectedReply: the API server's reply is not valid protobuf";
const withRaw = (raw: Uint8Array): Buffer => frame(encode("WatchEvent", { type: "ADDED", object: { raw } }));
const inEnvelope = (kind: string, raw: Uint8Array): Buffer =>
  withRaw(Buffer.concat([Buffer.from("k8s\0"), encode("Unknown", { typeMeta: { apiVersion: "v1", kind }, raw })]));

describe("frames", () => {
  test("a stream that ends within a frame is an error: its object would be missing", () => {
    const bytes = watchFrame("ADDED", "Node", node);
    for (let at = 1; at < bytes.length; at++)
      expect(errorOf(bytes, bytes.subarray(0, at))).toBe(
        "UnexpectedReply: the API server's reply ends within a protobuf frame",
      );
    expect(read(bytes, bytes)).toHaveLength(2);
  });

  test("a frame of a megabyte that comes byte by byte is put together once, not with each of them", () => {
    const bytes = watchFrame("ADDED", "Node", { ...node, metadata: { name: "a".repeat(2 ** 20) } });
    const frames = new Frames();
    const events: unknown[] = [];
    for (let at = 0; at < bytes.length; at++) events.push(...frames.push(bytes.subarray(at, at + 1)));
    expect([events.length, frames.end()]).toEqual([1, []]);
  }, 10_000);

  test("a frame of 4 GB is an error at once, before any of it is kept", () => {
    const header = Buffer.from([0xff, 0xff, 0xff, 0xff]);
    const found = "UnexpectedReply: the API server's reply has a protobuf frame of 4294967295 bytes";
    expect(errorOf(header)).toBe(found);
    expect(errorOf(header.subarray(0, 1), header.subarray(1))).toBe(found);
  });

  test("JSON under the content type of protobuf is an error", () => {
    expect(errorOf(Buffer.from('{"type":"ADDED","object":{}}\n'))).toContain("UnexpectedReply");
  });
});

describe("events in protobuf", () => {
  const field = (number: number, wireType: number): Writer => Writer.create().uint32(number * 8 + wireType);
  const deep = (): Uint8Array => {
    const writer = Writer.create();
    for (let depth = 0; depth < 100_000; depth++) writer.uint32(100 * 8 + 3);
    return writer.finish();
  };
  const whole = encode("Node", node);
  const wholeAnd = (writer: Writer): Uint8Array => Buffer.concat([whole, writer.finish()]);
  const envelope = encode("Unknown", { typeMeta: { apiVersion: "v1", kind: "Node" }, raw: whole });
  const broken: readonly (readonly [string, Uint8Array])[] = [
    ["without a type and an object", frame(Buffer.alloc(0))],
    ["without the envelope of Kubernetes", withRaw(whole)],
    ["in another envelope", withRaw(Buffer.concat([Buffer.from("k8t\0"), envelope]))],
    ["with an empty object", withRaw(Buffer.alloc(0))],
    ["with metadata of another wire type", inEnvelope("Node", wholeAnd(field(1, 0).uint32(5)))],
    ["with a name longer than the metadata", inEnvelope("Node", Buffer.concat([Buffer.from([10, 2, 10, 3]), whole]))],
    ["with metadata longer than the node", inEnvelope("Node", wholeAnd(field(1, 2).uint32(2 ** 32 - 1)))],
    ["with a length that has no end", inEnvelope("Node", wholeAnd(field(1, 2).uint64("18446744073709551615")))],
    ["with the field number 0", inEnvelope("Node", wholeAnd(field(0, 0).uint32(5)))],
    ["with a wire type that does not exist", inEnvelope("Node", wholeAnd(field(100, 7).uint32(5)))],
    ["with a group that is nested without end", inEnvelope("Node", Buffer.concat([whole, deep()]))],
    ["with a group that only ends", inEnvelope("Node", wholeAnd(field(100, 4)))],
    ["of a node without metadata", inEnvelope("Node", encode("Node", { spec: {}, status: {} }))],
    ["of a node without its spec", inEnvelope("Node", encode("Node", { metadata: {}, status: {} }))],
    ["of a node without its status", inEnvelope("Node", encode("Node", { metadata: {}, spec: {} }))],
    ["in another encoding", withRaw(document("Node", node, { contentEncoding: "gzip" }))],
    ["with JSON in its envelope", withRaw(document("Node", node, { contentType: "application/json" }))],
    [
      "with a time that is none",
      inEnvelope("Node", encode("Node", { ...node, metadata: { creationTimestamp: "+275760-09-13T00:00:00Z" } })),
    ],
  ];
  for (const [what, bytes] of broken)
    test(`an event ${what} is an error, as what is not JSON is`, () => {
      expect(errorOf(bytes)).toBe(invalid);
    });

  test.each(["+010000-01-01T00:00:00Z", "+275760-09-13T00:00:00Z", "-000001-12-31T23:00:00Z", "beyond dates"])(
    "a time of a kubelet that RFC 3339 does not have is none: one node must not make all unreadable (%s)",
    (time) => {
      const seconds = time === "beyond dates" ? "9223372036854775807" : Date.parse(time) / 1000;
      const stamp = field(1, 0).int64(seconds).finish();
      const taint = encode("Taint", { key: "a", effect: "NoSchedule" });
      const condition = encode("NodeCondition", { type: "Ready", status: "True" });
      const times = [3, 4].map((number) => field(number, 2).bytes(stamp).finish());
      const raw = Buffer.concat([
        encode("Node", { metadata: node.metadata }),
        field(2, 2)
          .bytes(
            field(5, 2)
              .bytes(Buffer.concat([taint, field(4, 2).bytes(stamp).finish()]))
              .finish(),
          )
          .finish(),
        field(3, 2)
          .bytes(
            field(4, 2)
              .bytes(Buffer.concat([condition, ...times]))
              .finish(),
          )
          .finish(),
      ]);
      const [event] = read(inEnvelope("Node", raw));
      expect(event).toMatchObject({
        object: {
          spec: { taints: [{ key: "a", timeAdded: null }] },
          status: { conditions: [{ type: "Ready", lastHeartbeatTime: null, lastTransitionTime: null }] },
        },
      });
    },
  );

  test("a text that is not UTF-8 has replacement characters, as in JSON", () => {
    const metadata = Writer.create()
      .uint32(10)
      .bytes(Buffer.from([0x61, 0xff, 0x62]))
      .finish();
    const raw = Buffer.concat([
      field(1, 2).bytes(metadata).finish(),
      field(2, 2).bytes(Buffer.alloc(0)).finish(),
      field(3, 2).bytes(Buffer.alloc(0)).finish(),
    ]);
    expect(read(inEnvelope("Node", raw))).toMatchObject([{ object: { metadata: { name: "a\uFFFDb" } } }]);
  });

  test("fields that JSON always has get their zero values", () => {
    expect(read(frame(encode("WatchEvent", { type: "ADDED", object: { raw: document("Node", node) } })))).toMatchObject(
      [{ object: { status: { daemonEndpoints: { kubeletEndpoint: { Port: 0 } }, nodeInfo: { machineID: "" } } } }],
    );
  });

  test("an object of another kind has that kind and nothing else, so that no informer takes it for its own", () => {
    expect(read(inEnvelope("Pod", encode("Node", node)))).toEqual([
      { type: "ADDED", object: { apiVersion: "v1", kind: "Pod" } },
    ]);
  });
});
