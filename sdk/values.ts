/** True for an object that is not an array: one of JSON or YAML, whose fields have not been looked at. */
export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Levenshtein distance between two words, of any case. */
export function editDistance(one: string, other: string): number {
  const [left, right] = [one.toLowerCase(), other.toLowerCase()];
  let row = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let at = 1; at <= left.length; at++) {
    const next = [at];
    for (let to = 1; to <= right.length; to++) {
      const substitute = (row[to - 1] ?? 0) + (left[at - 1] === right[to - 1] ? 0 : 1);
      next.push(Math.min(substitute, (row[to] ?? 0) + 1, (next[to - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}

/** Controls of terminals and of the direction of text, but for line feeds: a name must not look like another one. */
const controls = /(?!\n)[\p{Cc}\p{Cf}\u2028\u2029]/gu;

const escaped = (character: string): string => `\\u{${(character.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}}`;

/** The text with every control character visible, but for line feeds: for what a tenant wrote. */
export const visible = (text: string): string => text.replaceAll(controls, escaped);
