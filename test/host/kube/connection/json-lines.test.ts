import { expect, test } from "bun:test";

import { JsonLines } from "../../../../host/kube/connection/json-lines.ts";
import { batches } from "../../../../host/kube/connection/watch-events.ts";

async function* inPieces(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const documents = [{ name: "ä" }, { text: "one\ntwo", list: [1, 2, 3] }, {}, { name: "last" }];

test.each(["\n", ""])("documents are whole, in whatever pieces they arrive, with %j at the end", async (end) => {
  const bytes = new TextEncoder().encode(documents.map((each) => JSON.stringify(each)).join("\n") + end);
  for (let size = 1; size <= bytes.length; size++) {
    const parsed: unknown[] = [];
    for await (const batch of batches(inPieces(bytes, size), new JsonLines())) parsed.push(...batch);
    expect(parsed).toEqual(documents);
  }
});

test("blank lines are no documents, and what is not JSON is an error", async () => {
  const parse = (text: string): Promise<readonly unknown[][]> =>
    Array.fromAsync(batches(inPieces(new TextEncoder().encode(text), 4), new JsonLines()), (batch) => [...batch]);
  expect((await parse('\n \r\n{"a":1}\r\n\n {}\n  ')).flat()).toEqual([{ a: 1 }, {}]);
  await expect(parse('{"a":1}\n{"a"')).rejects.toThrow("not JSON");
});

/** A line that takes about a millisecond to parse. */
const longLine = new TextEncoder().encode(
  `${JSON.stringify(Array.from({ length: 5000 }, (_, index) => ({ name: `node-${index}`, index })))}\n`,
);

const lines = 60;
test.each([
  ["one chunk", longLine.length * lines],
  ["chunks of one line each, which follow each other", longLine.length],
])("a long list leaves turns of the event loop to others: %s", async (_, size) => {
  const bytes = new Uint8Array(longLine.length * lines);
  for (let line = 0; line < lines; line++) bytes.set(longLine, line * longLine.length);
  let [turns, over, parsed] = [0, false, 0];
  const count = (): void => {
    turns += 1;
    if (!over) setImmediate(count);
  };
  setImmediate(count);
  for await (const batch of batches(inPieces(bytes, size), new JsonLines())) parsed += batch.length;
  over = true;
  expect(parsed).toBe(lines);
  expect(turns).toBeGreaterThan(3);
});

test("a list of many small objects takes a turn for many of them together", async () => {
  const bytes = new TextEncoder().encode("{}\n".repeat(50_000));
  let [taken, parsed] = [0, 0];
  for await (const batch of batches(inPieces(bytes, bytes.length), new JsonLines())) {
    taken += 1;
    parsed += batch.length;
  }
  expect(parsed).toBe(50_000);
  expect(taken).toBeLessThan(1000);
});

test("the work of a reader on a batch counts toward the time after which others get a turn", async () => {
  const small = new TextEncoder().encode("{}\n".repeat(10));
  let turns = 0;
  for await (const _ of batches(inPieces(small, 3), new JsonLines())) {
    setImmediate(() => (turns += 1));
    Bun.sleepSync(3);
  }
  expect(turns).toBeGreaterThan(3);
});

test("a line without an end is an error before it takes all memory, and long lines after each other are read", async () => {
  const piece = Buffer.alloc(1024 * 1024, "x");
  let pieces = 0;
  async function* endless(): AsyncGenerator<Uint8Array> {
    for (; pieces < 100; pieces++) yield piece;
  }
  await expect(Array.fromAsync(batches(endless(), new JsonLines()))).rejects.toThrow("a line of more than");
  expect(pieces).toBeLessThanOrEqual(16);
  const line = `"${"x".repeat(3 * 1024 * 1024)}"\n`;
  const read = await Array.fromAsync(batches(inPieces(Buffer.from(line.repeat(7)), 100_000), new JsonLines()));
  expect(read.flat()).toHaveLength(7);
});
