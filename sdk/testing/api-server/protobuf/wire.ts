import { badRequest } from "../access/status.ts";

/** A field as it is on the wire: a number, or bytes that the schema says more of. */
export type WireValue = bigint | Uint8Array;

/** A message: the values of each field, by its number, in order. */
export type Message = ReadonlyMap<number, readonly WireValue[]>;

const truncated = (): Error => badRequest("the protobuf of the body ends too early");

class Reader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get done(): boolean {
    return this.#at >= this.#bytes.length;
  }

  varint(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.#bytes[this.#at];
      if (byte === undefined) throw truncated();
      this.#at += 1;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
    throw badRequest("a number in the protobuf of the body is too long");
  }

  take(length: number): Uint8Array {
    const end = this.#at + length;
    if (end > this.#bytes.length) throw truncated();
    const taken = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return taken;
  }
}

/** Reads the fields of one message. Throws a 400 for bytes that are none. */
export function readMessage(bytes: Uint8Array): Message {
  const reader = new Reader(bytes);
  const fields = new Map<number, WireValue[]>();
  while (!reader.done) {
    const tag = Number(reader.varint());
    const values = fields.get(tag >>> 3) ?? [];
    fields.set(tag >>> 3, values);
    values.push(readValue(reader, tag & 7));
  }
  return fields;
}

function readValue(reader: Reader, wireType: number): WireValue {
  switch (wireType) {
    case 0:
      return reader.varint();
    case 1:
      return reader.take(8);
    case 2:
      return reader.take(Number(reader.varint()));
    case 5:
      return reader.take(4);
    default:
      throw badRequest(`${wireType} is not a wire type of protobuf`);
  }
}
