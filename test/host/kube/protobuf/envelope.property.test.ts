import { expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";
import * as fc from "fast-check";
import { Writer } from "protobufjs";

import { objectOf } from "../../../../host/kube/connection/wire.ts";
import { Compactor } from "../../../../host/kube/informers/compaction.ts";
import { ProtobufReader } from "../../../../host/kube/protobuf/envelope.ts";
import { Frames } from "../../../../host/kube/protobuf/frames.ts";
import { arbitraryOf } from "./arbitrary-node.ts";
import { document, encode, typeNamed, watchFrame } from "./encode.ts";

const node = arbitraryOf("Node");
const head = { apiVersion: "v1", kind: "Node" };
/** As a program reads it, without undefined values and with own properties only. */
const parsed = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
/** One reader for all: texts and times of earlier objects are found again. */
const reader = new ProtobufReader();

test("a Node from protobuf is the object that JSON has", () => {
  fc.assert(
    fc.property(node, fc.boolean(), (json, zeros) => {
      expect(reader.document(document("Node", json, {}, zeros))).toStrictEqual(parsed({ ...head, ...json }));
    }),
    { numRuns: 200 },
  );
});

test("a list from protobuf is the object that JSON has", () => {
  const metadata = arbitraryOf("ListMeta");
  fc.assert(
    fc.property(metadata, fc.array(node, { minLength: 1, maxLength: 3 }), (meta, items) => {
      const json = { metadata: meta, items };
      expect(reader.document(document("NodeList", json))).toStrictEqual(
        parsed({ apiVersion: "v1", kind: "NodeList", ...json }),
      );
    }),
  );
});

test("a Status from protobuf is the object that JSON has", () => {
  fc.assert(
    fc.property(arbitraryOf("Status"), fc.boolean(), (json, zeros) => {
      const read = reader.document(document("Status", json, {}, zeros));
      expect(read).toStrictEqual(parsed({ apiVersion: "v1", kind: "Status", metadata: {}, ...json }));
    }),
  );
});

test("events are whole, in whatever pieces they arrive", () => {
  const event = fc.tuple(fc.constantFrom("ADDED", "MODIFIED", "DELETED", "BOOKMARK"), node);
  fc.assert(
    fc.property(
      fc.array(event, { minLength: 1, maxLength: 4 }),
      fc.infiniteStream(fc.integer({ min: 1, max: 700 })),
      (events, sizes) => {
        const bytes = Buffer.concat(events.map(([type, json]) => watchFrame(type, "Node", json)));
        const frames = new Frames();
        const read: unknown[] = [];
        for (let at = 0; at < bytes.length;) {
          const size = sizes.next().value;
          read.push(...frames.push(bytes.subarray(at, at + size)));
          at += size;
        }
        expect([...read, ...frames.end()]).toStrictEqual(
          events.map(([type, json]) => parsed({ type, object: { ...head, ...json } })),
        );
      },
    ),
  );
});

test("an event that is cut anywhere is an error, whatever follows", () => {
  fc.assert(
    fc.property(node, fc.nat(), (json, at) => {
      const whole = encode("Node", json);
      const cut = at % whole.length;
      const broken = encode("Unknown", { typeMeta: head, raw: whole.subarray(0, cut) });
      expect(() => reader.document(Buffer.concat([Buffer.from("k8s\0"), broken]))).toThrow("not valid protobuf");
    }),
  );
});

test("bytes of any kind are an error or an object, and bytes that change never hang or fail otherwise", () => {
  fc.assert(
    fc.property(node, fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 8 }), (json, changes) => {
      const bytes = document("Node", json);
      for (const [at, byte] of changes) bytes[at % bytes.length] = byte;
      try {
        expect(reader.document(bytes)).toBeObject();
      } catch (error) {
        expect(String(error)).toContain("not valid protobuf");
      }
    }),
    { numRuns: 500 },
  );
});

test("fields of a later Kubernetes are skipped, whatever their type", () => {
  const number = fc.integer({ min: 100, max: 2 ** 29 - 1 });
  const bytes = fc.uint8Array({ maxLength: 20 });
  const later = fc.oneof(
    fc.tuple(number, fc.maxSafeNat()).map(([id, value]) =>
      Writer.create()
        .uint32(id * 8)
        .uint64(value)
        .finish(),
    ),
    fc.tuple(number, fc.double()).map(([id, value]) =>
      Writer.create()
        .uint32(id * 8 + 1)
        .double(value)
        .finish(),
    ),
    fc.tuple(number, bytes).map(([id, value]) =>
      Writer.create()
        .uint32(id * 8 + 2)
        .bytes(value)
        .finish(),
    ),
    fc.tuple(number, number).map(([id, inner]) =>
      Writer.create()
        .uint32(id * 8 + 3)
        .uint32(inner * 8)
        .uint32(1)
        .uint32(id * 8 + 4)
        .finish(),
    ),
    fc.tuple(number, fc.nat()).map(([id, value]) =>
      Writer.create()
        .uint32(id * 8 + 5)
        .fixed32(value)
        .finish(),
    ),
  );
  fc.assert(
    fc.property(node, fc.array(later, { minLength: 1, maxLength: 3 }), (json, fields) => {
      const parts = typeNamed("Node").fieldsArray.map(({ id, name, type }) =>
        Writer.create()
          .uint32(id * 8 + 2)
          .bytes(Buffer.concat([encode(type, Object(json[name])), ...fields]))
          .finish(),
      );
      const raw = Buffer.concat([...fields, ...parts]);
      const whole = Buffer.concat([Buffer.from("k8s\0"), encode("Unknown", { typeMeta: head, raw })]);
      expect(reader.document(whole)).toStrictEqual(parsed({ ...head, ...json }));
    }),
  );
});

test("nothing is missing that an informer of Nodes keeps", () => {
  fc.assert(
    fc.property(arbitraryOf("Node", { whole: true }), (json) => {
      const [fromProtobuf, fromJson] = [reader.document(document("Node", json)), parsed({ ...head, ...json })];
      const compacted = [fromProtobuf, fromJson].map((each) => {
        const object = objectOf(kinds.Node, each);
        new Compactor(kinds.Node).compact(object);
        return parsed(object);
      });
      expect(compacted[0]).toStrictEqual(compacted[1]);
    }),
  );
});
