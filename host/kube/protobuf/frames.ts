import { CodedError } from "cloud-controller-host/sdk";

import { ProtobufReader } from "./envelope.ts";

const headerBytes = 4;
/** upstream: apimachinery `streaming.NewDecoder`. An object in etcd has at most 1.5 MB. */
const maxFrameBytes = 16 * 1024 * 1024;

/** Splits a watch into its events. Each is in a frame: a length in four bytes, and as many bytes. */
export class Frames {
  readonly #reader = new ProtobufReader();
  /** Of a frame that is incomplete. */
  #pieces: Uint8Array[] = [];
  #held = 0;
  /** Bytes without which a frame that is incomplete remains so. */
  #wanted = 0;

  *push(incoming: Uint8Array): Generator<unknown, void, void> {
    this.#pieces.push(incoming);
    this.#held += incoming.length;
    if (this.#held < this.#wanted) return;
    const bytes = this.#pieces.length === 1 ? incoming : Buffer.concat(this.#pieces);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    let [from, wanted] = [0, headerBytes];
    while (from + headerBytes <= bytes.length) {
      const length = view.getUint32(from);
      if (length > maxFrameBytes)
        throw new CodedError("UnexpectedReply", `the API server's reply has a protobuf frame of ${length} bytes`);
      const end = from + headerBytes + length;
      wanted = headerBytes + length;
      if (end > bytes.length) break;
      yield this.#reader.event(bytes.subarray(from + headerBytes, end));
      [from, wanted] = [end, headerBytes];
    }
    this.#held = bytes.length - from;
    this.#pieces = this.#held === 0 ? [] : [bytes.subarray(from)];
    this.#wanted = wanted;
  }

  /** A stream that ends within a frame was cut. */
  end(): readonly unknown[] {
    if (this.#held === 0) return [];
    throw new CodedError("UnexpectedReply", "the API server's reply ends within a protobuf frame");
  }
}
