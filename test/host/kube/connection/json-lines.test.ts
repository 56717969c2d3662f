import { expect, test } from "bun:test";

import { jsonLines } from "../../../../host/kube/connection/json-lines.ts";

async function* inPieces(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const documents = [{ name: "ä" }, { text: "one\ntwo", list: [1, 2, 3] }, {}, { name: "last" }];

test.each(["\n", ""])("documents are whole, in whatever pieces they arrive, with %j at the end", async (end) => {
  const bytes = new TextEncoder().encode(documents.map((each) => JSON.stringify(each)).join("\n") + end);
  for (let size = 1; size <= bytes.length; size++) {
    const parsed: unknown[] = [];
    for await (const batch of jsonLines(inPieces(bytes, size))) parsed.push(...batch);
    expect(parsed).toEqual(documents);
  }
});
