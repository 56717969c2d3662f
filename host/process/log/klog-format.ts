import type { Plain } from "./fields.ts";

/** The letter that begins a line in klog's text format. */
export const severityLetter = { info: "I", warn: "W", error: "E" } as const;
export type Severity = keyof typeof severityLetter;

const two = (value: number): string => String(value).padStart(2, "0");

/**
 * `I1120 18:38:00.123456   12345 source] "message"`, local time. klog names a source file and line in the place of
 * `source`; here it is the controller or component, which is what a reader looks for.
 */
export function klogHead(severity: Severity, atMs: number, pid: number, source: string, message: string): string {
  const at = new Date(atMs);
  const day = `${two(at.getMonth() + 1)}${two(at.getDate())}`;
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  const micros = `${String(at.getMilliseconds()).padStart(3, "0")}000`;
  return `${severityLetter[severity]}${day} ${time}.${micros} ${String(pid).padStart(7)} ${source}] ${quote(message)}`;
}

/** ` key="value" other=3`; strings are quoted so that one entry is one line, whatever is in them. */
export const klogFields = (fields: readonly (readonly [string, Plain])[]): string =>
  fields.map(([key, value]) => ` ${klogKey(key)}=${klogValue(value)}`).join("");

const klogKey = (key: string): string => (/^[^\s"=\p{C}]+$/u.test(key) ? key : quote(key));

const klogValue = (value: Plain): string => {
  if (typeof value === "string") return quote(value);
  return typeof value === "object" && value !== null ? escapeInvisible(JSON.stringify(value)) : String(value);
};

const quote = (text: string): string => escapeInvisible(JSON.stringify(text));

/** Characters that JSON does not escape, and that a terminal would interpret or break the line at. */
const escapeInvisible = (json: string): string =>
  json.replaceAll(
    /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
