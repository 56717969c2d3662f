/** A power of two. */
const slots = 4096;
/** Comparing a longer text costs more than creating it. */
const longestShared = 64;

/**
 * Texts read from UTF-8. Those that repeat from object to object, such as label keys and the types of conditions, are
 * created once: most short ones are found by their bytes.
 */
export class Texts {
  /** A text that hashes to a slot replaces the one before it, so that the table never grows. */
  readonly #shared: string[] = Array.from({ length: slots }, () => "");

  shared(bytes: Buffer, start: number, end: number): string {
    const length = end - start;
    if (length > longestShared) return bytes.toString("utf8", start, end);
    const slot = slotOf(bytes, start, end);
    const known = this.#shared[slot] ?? "";
    if (known.length === length && isAt(known, bytes, start)) return known;
    const text = bytes.toString("utf8", start, end);
    this.#shared[slot] = text;
    return text;
  }
}

/** Texts that differ mostly do so in their length, at either end or in the middle; others share a slot. */
const slotOf = (bytes: Buffer, start: number, end: number): number =>
  ((end - start) * 5 +
    byteAt(bytes, start) * 37 +
    byteAt(bytes, (start + end) >>> 1) * 197 +
    byteAt(bytes, end - 2) * 411 +
    byteAt(bytes, end - 1) * 1021) &
  (slots - 1);

const byteAt = (bytes: Buffer, at: number): number => bytes[at] ?? 0;

/** False for a text that is not ASCII. */
function isAt(text: string, bytes: Buffer, start: number): boolean {
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) !== bytes[start + at]) return false;
  return true;
}
