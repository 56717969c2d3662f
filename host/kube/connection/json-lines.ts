import { parseJson } from "./wire.ts";

/** Parses newline-delimited JSON, one batch per chunk; the last line may lack its newline. */
export async function* jsonLines(stream: AsyncIterable<Uint8Array>): AsyncGenerator<readonly unknown[], void, void> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const bytes of stream) {
    const piece = decoder.decode(bytes, { stream: true });
    let end = piece.indexOf("\n");
    if (end < 0) {
      rest += piece;
      yield [];
      continue;
    }
    const documents: unknown[] = [];
    let line = rest + piece.slice(0, end);
    for (;;) {
      if (line.trim() !== "") documents.push(parseJson(line));
      const from = end + 1;
      end = piece.indexOf("\n", from);
      if (end < 0) {
        rest = piece.slice(from);
        break;
      }
      line = piece.slice(from, end);
    }
    yield documents;
  }
  rest += decoder.decode();
  if (rest.trim() !== "") yield [parseJson(rest)];
}
