import { describe, expect, test } from "bun:test";

import { JsonLines } from "../../../../host/kube/connection/json-lines.ts";
import { batches } from "../../../../host/kube/connection/watch-events.ts";
import { ObjectStore } from "../../../../host/kube/informers/store.ts";

const object = (name: string, version: string) => ({ metadata: { name, namespace: "ns", resourceVersion: version } });
const changes = (
  list: readonly ({ type: string; object: ReturnType<typeof object> } | undefined)[],
): readonly (string | undefined)[] =>
  list.map(
    (change) => change && `${change.type} ${change.object.metadata.name}@${change.object.metadata.resourceVersion}`,
  );

describe("the store", () => {
  test("tells what each write changed, and nothing where the version is the same", () => {
    const store = new ObjectStore<ReturnType<typeof object>>();
    expect(changes([store.set(object("a", "1"))])).toEqual(["added a@1"]);
    expect(changes([store.set(object("a", "1"))])).toEqual([undefined]);
    const update = store.set(object("a", "2"));
    expect(update).toMatchObject({ type: "updated", before: object("a", "1") });
    expect(changes([store.delete(object("a", "3"))])).toEqual(["deleted a@3"]);
    expect(changes([store.delete(object("a", "3"))])).toEqual([undefined]);
    expect(store.size).toBe(0);
  });

  test("reports the additions, changes and deletions that a new list shows, deletions with the last known state", () => {
    const store = new ObjectStore<ReturnType<typeof object>>();
    store.replace([object("same", "1"), object("changed", "1"), object("gone", "1")]);
    const reported = store.replace([object("same", "1"), object("new", "5"), object("changed", "6")]);
    expect(changes(reported)).toEqual(["added new@5", "updated changed@6", "deleted gone@1"]);
    expect(store.list().map((item) => item.metadata.name)).toEqual(["same", "new", "changed"]);
    expect(store.get("ns/new")).toEqual(object("new", "5"));
    expect(store.get("ns/gone")).toBeUndefined();
  });

  test("answers with the same list until something changes", () => {
    const store = new ObjectStore<ReturnType<typeof object>>();
    store.set(object("a", "1"));
    const first = store.list();
    expect(store.list()).toBe(first);
    store.set(object("b", "2"));
    expect(store.list()).not.toBe(first);
    expect(first).toHaveLength(1);
  });
});

describe("JSON lines", () => {
  const documents = ['{"n":1}', '{"text":"né€𝄞\\n"}', '{"n":[2,3]}'];
  const bytes = new TextEncoder().encode(`\n${documents.join("\n")}\n`);
  async function* pieces(size: number): AsyncGenerator<Uint8Array> {
    for (let start = 0; start < bytes.length; start += size) yield bytes.subarray(start, start + size);
  }

  test("come out whole, however the stream is cut", async () => {
    for (let size = 1; size <= bytes.length; size++) {
      const parsed = await Array.fromAsync(batches(pieces(size), new JsonLines()));
      expect(parsed.flat()).toEqual(documents.map((text): unknown => JSON.parse(text)));
    }
  });

  test("JSON lines that are no JSON end the stream with an error", async () => {
    const broken = async function* (): AsyncGenerator<Uint8Array> {
      yield new TextEncoder().encode('{"a":1}\n{bad}\n');
    };
    await expect(Array.fromAsync(batches(broken(), new JsonLines()))).rejects.toThrow("JSON");
  });
});
