import { CodedError } from "cloud-controller-host/sdk";

import { parseJson } from "./wire.ts";

const newline = 0x0a;
/** upstream: apimachinery `streaming.NewDecoder`. An object in etcd has at most 1.5 MB. */
const maxLineBytes = 16 * 1024 * 1024;

/** Splits newline-delimited JSON into its documents. The last line may lack its newline. */
export class JsonLines {
  /** Of a line that has not ended. A character may be in two of them: they are decoded together. */
  #pieces: Uint8Array[] = [];
  #held = 0;

  *push(bytes: Uint8Array): Generator<unknown, void, void> {
    let from = 0;
    for (let end = bytes.indexOf(newline); end >= 0; end = bytes.indexOf(newline, from)) {
      this.#pieces.push(bytes.subarray(from, end));
      from = end + 1;
      yield* this.end();
    }
    if (from < bytes.length) this.#pieces.push(bytes.subarray(from));
    this.#held += bytes.length - from;
    if (this.#held > maxLineBytes)
      throw new CodedError("UnexpectedReply", `the API server's reply has a line of more than ${maxLineBytes} bytes`);
  }

  /** The document of what remains. */
  end(): readonly unknown[] {
    const line = textOf(this.#pieces);
    this.#pieces = [];
    this.#held = 0;
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
