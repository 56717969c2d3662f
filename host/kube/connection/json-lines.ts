import { parseJson } from "./wire.ts";

/** Longest work on chunks that follow each other, without the waits between them, before others get a turn. */
const budgetMs = 5;

/**
 * Parses newline-delimited JSON, one batch per chunk or, where that takes long, several; the last line may lack its
 * newline. A list of thousands of objects leaves turns of the event loop to others.
 */
export async function* jsonLines(stream: AsyncIterable<Uint8Array>): AsyncGenerator<readonly unknown[], void, void> {
  const decoder = new TextDecoder();
  let rest = "";
  let busyMs = 0;
  for await (const bytes of stream) {
    let beganMs = performance.now();
    const piece = decoder.decode(bytes, { stream: true });
    let end = piece.indexOf("\n");
    if (end < 0) {
      rest += piece;
      yield [];
      continue;
    }
    let documents: unknown[] = [];
    let line = rest + piece.slice(0, end);
    for (;;) {
      if (line.trim() !== "") documents.push(parseJson(line));
      if (busyMs + performance.now() - beganMs >= budgetMs) {
        yield documents;
        documents = [];
        await new Promise((resolve) => void setImmediate(resolve));
        [busyMs, beganMs] = [0, performance.now()];
      }
      const from = end + 1;
      end = piece.indexOf("\n", from);
      if (end < 0) {
        rest = piece.slice(from);
        break;
      }
      line = piece.slice(from, end);
    }
    yield documents;
    busyMs += performance.now() - beganMs;
  }
  rest += decoder.decode();
  if (rest.trim() !== "") yield [parseJson(rest)];
}
