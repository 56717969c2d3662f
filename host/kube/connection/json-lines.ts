import { parseJson } from "./wire.ts";

const newline = 0x0a;

/** Splits newline-delimited JSON into its documents. The last line may lack its newline. */
export class JsonLines {
  /** Of a line that has not ended. A character may be in two of them: they are decoded together. */
  #pieces: Uint8Array[] = [];

  *push(bytes: Uint8Array): Generator<unknown, void, void> {
    let from = 0;
    for (let end = bytes.indexOf(newline); end >= 0; end = bytes.indexOf(newline, from)) {
      this.#pieces.push(bytes.subarray(from, end));
      from = end + 1;
      yield* this.end();
    }
    if (from < bytes.length) this.#pieces.push(bytes.subarray(from));
  }

  /** The document of what remains. */
  end(): readonly unknown[] {
    const line = textOf(this.#pieces);
    this.#pieces = [];
    return line.trim() === "" ? [] : [parseJson(line)];
  }
}

/** A `Buffer` decodes a line in half the time of a `TextDecoder` that keeps the rest of a character for more bytes. */
function textOf(pieces: readonly Uint8Array[]): string {
  const [first, ...others] = pieces;
  if (first === undefined) return "";
  const bytes =
    others.length === 0 ? Buffer.from(first.buffer, first.byteOffset, first.byteLength) : Buffer.concat(pieces);
  return bytes.toString("utf8");
}
