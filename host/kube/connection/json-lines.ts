import { parseJson } from "./wire.ts";

/** Longest work on chunks that follow each other, without the waits between them, before others get a turn. */
const budgetMs = 5;
const newline = 0x0a;

/**
 * Parses newline-delimited JSON, one batch per chunk or, where that takes long, several; the last line may lack its
 * newline. A list of thousands of objects leaves turns of the event loop to others.
 */
export async function* jsonLines(stream: AsyncIterable<Uint8Array>): AsyncGenerator<readonly unknown[], void, void> {
  /** Of a line that has not ended. A character may be in two of them: they are decoded together. */
  let pieces: Uint8Array[] = [];
  let busyMs = 0;
  for await (const bytes of stream) {
    let beganMs = performance.now();
    let documents: unknown[] = [];
    let from = 0;
    for (let end = bytes.indexOf(newline); end >= 0; end = bytes.indexOf(newline, from)) {
      pieces.push(bytes.subarray(from, end));
      from = end + 1;
      const line = textOf(pieces);
      pieces = [];
      if (line.trim() !== "") documents.push(parseJson(line));
      if (busyMs + performance.now() - beganMs < budgetMs) continue;
      yield documents;
      documents = [];
      await new Promise((resolve) => void setImmediate(resolve));
      [busyMs, beganMs] = [0, performance.now()];
    }
    if (from < bytes.length) pieces.push(bytes.subarray(from));
    yield documents;
    busyMs += performance.now() - beganMs;
  }
  const rest = textOf(pieces);
  if (rest.trim() !== "") yield [parseJson(rest)];
}

/** A `Buffer` decodes a line in half the time of a `TextDecoder` that keeps the rest of a character for more bytes. */
function textOf(pieces: readonly Uint8Array[]): string {
  const [first, ...others] = pieces;
  if (first === undefined) return "";
  const bytes =
    others.length === 0 ? Buffer.from(first.buffer, first.byteOffset, first.byteLength) : Buffer.concat(pieces);
  return bytes.toString("utf8");
}
