import { type LogFields, messageOf } from "cloud-controller-host/sdk";

import { isSecretKey, redacted, redactText } from "./redact.ts";

/** A value as a log shows it: plain data, secrets redacted, errors as their message, a few levels deep. */
export type Plain = string | number | boolean | null | undefined | readonly Plain[] | { readonly [key: string]: Plain };

const maxDepth = 6;
const maxItems = 100;
/** A field may be as long as a request; container runtimes break lines here. */
const maxCharacters = 16_384;

/** At most so many characters of a text, and how many follow. */
export const shortened = (text: string, limit: number): string =>
  text.length <= limit ? text : `${text.slice(0, limit)}… (${text.length - limit} more characters)`;

/** A text as a log shows it: secrets redacted, and shortened when too long. */
export function shownText(text: string): string {
  const more = text.length - maxCharacters;
  // Shortened twice: redacting a text costs time for each of its characters.
  const shown = redactText(more > maxCharacters ? text.slice(0, 2 * maxCharacters) : text);
  return more > 0 ? `${shown.slice(0, maxCharacters)}… (${more} more characters)` : shown;
}

/** Converts a field's value; it never throws, whatever the value is. */
export function plain(key: string, value: unknown, depth = 0): Plain {
  if (isSecretKey(key) && value !== undefined && value !== "") return redacted;
  try {
    return convert(value, depth);
  } catch (error) {
    return `<unreadable: ${messageOf(error)}>`;
  }
}

function convert(value: unknown, depth: number): Plain {
  switch (typeof value) {
    case "string":
      return shownText(value);
    case "number":
      return Number.isFinite(value) ? rounded(value) : String(value);
    case "boolean":
    case "undefined":
      return value;
    case "bigint":
    case "symbol":
      return String(value);
    case "function":
      return `<function ${value.name}>`;
    default:
      return typeof value === "object" && value !== null ? convertObject(value, depth) : null;
  }
}

/** Three digits of a fraction are enough for people; whole numbers stay as they are. */
const rounded = (value: number): number =>
  Number.isInteger(value) ? value : Math.abs(value) >= 100 ? Math.round(value) : Number(value.toPrecision(3));

function convertObject(value: object, depth: number): Plain {
  if (value instanceof Error) return shownText(messageOf(value));
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "<invalid date>" : value.toISOString();
  if (value instanceof URL) return shownText(value.href);
  if (ArrayBuffer.isView(value)) return `<${value.byteLength} bytes>`;
  if (depth >= maxDepth) return Array.isArray(value) ? "[…]" : "{…}";
  if (Array.isArray(value) || value instanceof Set) return convertItems([...value], depth);
  const entries: readonly (readonly [unknown, unknown])[] =
    value instanceof Map ? [...value.entries()] : Object.entries(value);
  return Object.fromEntries(
    entries.slice(0, maxItems).map(([key, item]) => [String(key), plain(String(key), item, depth + 1)]),
  );
}

function convertItems(items: readonly unknown[], depth: number): Plain {
  const shown = items.slice(0, maxItems).map((item) => plain("", item, depth + 1));
  return items.length > maxItems ? [...shown, `… ${items.length - maxItems} more`] : shown;
}

/** An error is written under `err`, as klog does; other names stay. Undefined values are left out. */
export function plainFields(fields: LogFields): readonly (readonly [string, Plain])[] {
  return Object.entries(fields).flatMap(([key, value]) => {
    const shown = plain(key, value);
    return shown === undefined ? [] : [[key === "error" ? "err" : key, shown] as const];
  });
}
