/** Parses newline-delimited JSON, one batch per chunk. */
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
      if (line.trim() !== "") documents.push(JSON.parse(line));
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
}
