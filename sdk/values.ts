/** True for an object that is not an array: one of JSON or YAML, whose fields have not been looked at. */
export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** A time as objects of Kubernetes carry it: RFC 3339, to the second. */
export const timestamp = (ms: number): string => new Date(ms).toISOString().replace(/\.\d+Z$/u, "Z");

/** Controls of terminals and of the direction of text, but for line feeds: a name must not look like another one. */
const controls = /(?!\n)[\p{Cc}\p{Cf}\u2028\u2029]/gu;

const escaped = (character: string): string => `\\u{${(character.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}}`;

/** The text with every control character visible, but for line feeds: for what a tenant wrote. */
export const visible = (text: string): string => text.replaceAll(controls, escaped);
