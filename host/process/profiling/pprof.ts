import type { CpuProfile } from "./cpu.ts";

type Whole = number | bigint;

/** A protocol buffer message, written field by field. */
class Message {
  readonly #bytes: number[] = [];

  get bytes(): Uint8Array<ArrayBuffer> {
    return Uint8Array.from(this.#bytes);
  }

  whole(field: number, value: Whole): this {
    return this.#varint(field << 3).#varint(value);
  }

  packed(field: number, values: readonly Whole[]): this {
    const inner = new Message();
    for (const value of values) inner.#varint(value);
    return this.#delimited(field, inner.#bytes);
  }

  text(field: number, value: string): this {
    return this.#delimited(field, new TextEncoder().encode(value));
  }

  message(field: number, inner: Message): this {
    return this.#delimited(field, inner.#bytes);
  }

  #delimited(field: number, bytes: ArrayLike<number> & Iterable<number>): this {
    this.#varint((field << 3) | 2).#varint(bytes.length);
    for (const byte of bytes) this.#bytes.push(byte);
    return this;
  }

  #varint(value: Whole): this {
    let rest = BigInt(value);
    while (rest > 0x7fn) {
      this.#bytes.push(Number(rest & 0x7fn) | 0x80);
      rest >>= 7n;
    }
    this.#bytes.push(Number(rest));
    return this;
  }
}

/** Strings and functions are stored once and referred to by number. */
class Numbered {
  readonly #numbers = new Map<string, number>();

  /** The number of a key, counted from `first`; `added` is called when the key is new. */
  of(key: string, first: number, added: (number: number) => void): number {
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    const number = this.#numbers.size + first;
    this.#numbers.set(key, number);
    added(number);
    return number;
  }
}

const nanosecondsOf = (microseconds: number): bigint => BigInt(Math.max(0, Math.round(microseconds * 1000)));

/**
 * An uncompressed CPU profile in the format of `go tool pprof`. Source of the format:
 * google/pprof `proto/profile.proto`; the numbers are its fields.
 */
export function pprofOf(profile: CpuProfile, periodMs: number): Uint8Array<ArrayBuffer> {
  const periodNs = periodMs * 1e6;
  const out = new Message();
  const strings = new Numbered();
  const texts: string[] = [];
  const text = (value: string): number => strings.of(value, 0, () => texts.push(value));
  text("");
  const valueType = (type: string, unit: string): Message => new Message().whole(1, text(type)).whole(2, text(unit));

  out.message(1, valueType("samples", "count"));
  out.message(1, valueType("cpu", "nanoseconds"));
  const locate = locations(out, text);
  for (const { stack, hits } of stacksOf(profile))
    out.message(2, new Message().packed(1, stack.map(locate)).packed(2, [hits, hits * periodNs]));
  out.message(11, valueType("cpu", "nanoseconds"));
  out.whole(9, nanosecondsOf(profile.startTime));
  out.whole(10, nanosecondsOf(profile.endTime - profile.startTime));
  out.whole(12, periodNs);
  for (const value of texts) out.text(6, value);
  return out.bytes;
}

type Frame = CpuProfile["nodes"][number]["callFrame"];

/** Writes each function and each location once, and returns the number of the location. */
function locations(out: Message, text: (value: string) => number): (frame: Frame) => number {
  const places = new Numbered();
  return ({ functionName, url, lineNumber }) => {
    const line = Math.max(0, lineNumber + 1);
    return places.of(JSON.stringify([functionName, url, line]), 1, (number) => {
      const name = text(functionName || "(anonymous)");
      out.message(5, new Message().whole(1, number).whole(2, name).whole(3, name).whole(4, text(url)).whole(5, line));
      out.message(4, new Message().whole(1, number).message(4, new Message().whole(1, number).whole(2, line)));
    });
  };
}

/** All sampled stacks, innermost call first. */
function* stacksOf({ nodes }: CpuProfile): Generator<{ readonly stack: readonly Frame[]; readonly hits: number }> {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id] as const)));
  for (const { id, hitCount: hits = 0 } of nodes) {
    if (hits === 0) continue;
    const stack: Frame[] = [];
    for (let at: number | undefined = id; at !== undefined; at = parents.get(at)) {
      const frame = byId.get(at)?.callFrame;
      // The root is not a function.
      if (frame !== undefined && parents.has(at)) stack.push(frame);
    }
    yield { stack, hits };
  }
}
