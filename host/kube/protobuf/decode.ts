import { Reader } from "protobufjs/minimal.js";

import { type Field, type Message, type ValueType, wireTypes, zeros } from "./message.ts";
import { Texts } from "./texts.ts";

export type Fields = Record<string, unknown>;

/** Times repeat: the conditions of a node have that of its last report. A full table is emptied. */
const maxTimes = 1000;
/** `YYYY-MM-DDThh:mm:ss.000Z`; of other lengths are years that RFC 3339 does not have. */
const isoLength = 24;
const firstVarint = (1 << 3) | wireTypes.varint;
const firstDelimited = (1 << 3) | wireTypes.delimited;
const secondDelimited = (2 << 3) | wireTypes.delimited;

/** Reads messages as the objects that `JSON.parse` returns for the same reply. Throws for malformed bytes. */
export class Decoder {
  readonly #texts = new Texts();
  readonly #times = new Map<number, string>();
  #bytes: Buffer = zeros.bytes;
  /** Its `len` is the end of the message that is being read: nothing is read beyond it. */
  #reader = new Reader(zeros.bytes);

  decode(bytes: Buffer, message: Message): Fields {
    this.#bytes = bytes;
    this.#reader = new Reader(bytes);
    return this.#message(message);
  }

  #message(message: Message): Fields {
    const reader = this.#reader;
    const object: Fields = {};
    let seen = 0;
    while (reader.pos < reader.len) {
      const tag = this.#uint32();
      const field = message.fields[tag];
      if (field === undefined) this.#skip(tag, message);
      else {
        this.#field(object, field);
        seen |= field.bit;
      }
    }
    if (seen !== message.constantBits) this.#complete(object, message);
    return object;
  }

  /** Most numbers have one byte. */
  #uint32(): number {
    const reader = this.#reader;
    const byte = this.#bytes[reader.pos];
    if (byte === undefined || byte > 127 || reader.pos >= reader.len) return reader.uint32();
    reader.pos += 1;
    return byte;
  }

  #complete(object: Fields, { constant }: Message): void {
    for (const { name, type, presence } of constant) {
      if (name in object) continue;
      if (presence === "required") throw new RangeError(`${name} is missing`);
      object[name] = typeof type === "string" ? zeros[type] : new Decoder().decode(zeros.bytes, type);
    }
  }

  #skip(tag: number, message?: Message): void {
    const number = tag >>> 3;
    if (number === 0 || message?.numbers.has(number) === true) throw new RangeError(`unexpected tag ${tag}`);
    this.#reader.skipType(tag & 7);
  }

  #field(object: Fields, { name, type, form, omitted }: Field): void {
    if (form === "map") {
      this.#entry(object, name, type);
      return;
    }
    const value = this.#value(type);
    if (value === omitted) return;
    if (form === "single") object[name] = value;
    else {
      const known = object[name];
      if (Array.isArray(known)) known.push(value);
      else object[name] = [value];
    }
  }

  #value(type: ValueType): unknown {
    const reader = this.#reader;
    if (type === "integer") return numberOf(reader.int64());
    if (type === "boolean") return reader.bool();
    const outer = this.#open();
    const value = this.#content(type);
    reader.pos = reader.len;
    reader.len = outer;
    return value;
  }

  /** Begins a value with its length, and returns where the message around it ends. */
  #open(): number {
    const reader = this.#reader;
    const length = this.#uint32();
    const outer = reader.len;
    if (reader.pos + length > outer) throw new RangeError(`${length} bytes at ${reader.pos} of ${outer}`);
    reader.len = reader.pos + length;
    return outer;
  }

  #content(type: Exclude<ValueType, "integer" | "boolean">): unknown {
    const { pos, len } = this.#reader;
    if (type === "word") return this.#texts.shared(this.#bytes, pos, len);
    if (type === "text") return this.#bytes.toString("utf8", pos, len);
    if (type === "time" || type === "foreignTime") return this.#time(type);
    if (type === "quantity") return this.#quantity();
    return type === "bytes" ? this.#bytes.subarray(pos, len) : this.#message(type);
  }

  /** Seconds and nanoseconds, of which Kubernetes uses the seconds; a time that was never set has neither. */
  #time(type: "time" | "foreignTime"): string | null {
    const reader = this.#reader;
    if (reader.pos === reader.len) return zeros.time;
    let seconds = 0;
    while (reader.pos < reader.len) {
      const tag = this.#uint32();
      if (tag === firstVarint) seconds = numberOf(reader.int64());
      else this.#skip(tag);
    }
    const known = this.#times.get(seconds);
    if (known !== undefined) return known;
    const time = timeAt(seconds);
    if (time === undefined) {
      if (type === "foreignTime") return zeros.foreignTime;
      throw new RangeError(`${seconds} s are not a time`);
    }
    if (this.#times.size >= maxTimes) this.#times.clear();
    this.#times.set(seconds, time);
    return time;
  }

  #quantity(): string {
    const reader = this.#reader;
    let text: unknown = zeros.quantity;
    while (reader.pos < reader.len) {
      const tag = this.#uint32();
      if (tag === firstDelimited) text = this.#value("word");
      else this.#skip(tag);
    }
    return String(text);
  }

  #entry(object: Fields, name: string, type: ValueType): void {
    const reader = this.#reader;
    const outer = this.#open();
    let key = "";
    let value: unknown = typeof type === "string" ? zeros[type] : {};
    while (reader.pos < reader.len) {
      const tag = this.#uint32();
      if (tag === firstDelimited) key = String(this.#value("word"));
      else if (tag === secondDelimited) value = this.#value(type);
      else this.#skip(tag);
    }
    reader.len = outer;
    const known = object[name];
    const entries = isEntries(known) ? known : {};
    // An assignment to `__proto__` would set the prototype.
    if (key === "__proto__") Object.defineProperty(entries, key, { value, ...plain });
    else entries[key] = value;
    object[name] = entries;
  }
}

/** Undefined for a time that RFC 3339 does not have. */
function timeAt(seconds: number): string | undefined {
  const date = new Date(seconds * 1000);
  const iso = Number.isNaN(date.getTime()) ? "" : date.toISOString();
  return iso.length === isoLength ? `${iso.slice(0, 19)}Z` : undefined;
}

const isEntries = (value: unknown): value is Fields => value instanceof Object;

/** An integer beyond those that are safe is rounded, as by `JSON.parse`. */
const numberOf = ({ high, low }: ReturnType<Reader["int64"]>): number => high * 2 ** 32 + (low >>> 0);

const plain = { enumerable: true, configurable: true, writable: true };
