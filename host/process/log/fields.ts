import { type LogFields, messageOf } from "cloud-controller-host/sdk";

/** A value as a log shows it: plain data, secrets blotted out, errors as their message, never deeper than a few levels. */
export type Plain = string | number | boolean | null | undefined | readonly Plain[] | { readonly [key: string]: Plain };

const redacted = "[redacted]";
const deepest = 6;
const mostItems = 100;
/** A field of an object, and so what is logged of it, may be as long as a request; container runtimes break lines here. */
const mostCharacters = 16_384;

/** A key is secret when its last word says so: `clientSecret` and `aad_client_secret` are, `secretName` is not. */
const secretKey =
  /(^|[-_.]|[a-z0-9](?=[A-Z]))(password|passwd|passphrase|secret|token|authorization|credentials?|cookie|(private|api|access|account|shared|client)[-_]?key)$/i;

/** Secrets that travel inside text: bearer tokens, and form or query parameters. */
const secretText =
  /\b(Bearer\s+)[\w.~+/-]{8,}=*|\b((?:client_secret|client_assertion|access_token|refresh_token|password|sig)=)[^&\s"']+/gi;

/** A text as a log shows it: secrets blotted out, and too long a one cut. */
export function shownText(text: string): string {
  const scrubbed = text.replaceAll(
    secretText,
    (_, bearer: string | undefined, key: string | undefined) => `${bearer ?? key}${redacted}`,
  );
  const more = scrubbed.length - mostCharacters;
  return more > 0 ? `${scrubbed.slice(0, mostCharacters)}… ${more} characters more` : scrubbed;
}

/** Converts a field's value; it never throws, whatever the value is. */
function plain(key: string, value: unknown, depth = 0): Plain {
  if (secretKey.test(key) && value !== undefined && value !== "") return redacted;
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
      return Number.isFinite(value) ? value : String(value);
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

function convertObject(value: object, depth: number): Plain {
  if (value instanceof Error) return shownText(messageOf(value));
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "<invalid date>" : value.toISOString();
  if (value instanceof URL) return shownText(value.href);
  if (ArrayBuffer.isView(value)) return `<${value.byteLength} bytes>`;
  if (depth >= deepest) return Array.isArray(value) ? "[…]" : "{…}";
  if (Array.isArray(value) || value instanceof Set) return convertItems([...value], depth);
  const entries: readonly (readonly [unknown, unknown])[] =
    value instanceof Map ? [...value.entries()] : Object.entries(value);
  return Object.fromEntries(
    entries.slice(0, mostItems).map(([key, item]) => [String(key), plain(String(key), item, depth + 1)]),
  );
}

function convertItems(items: readonly unknown[], depth: number): Plain {
  const shown = items.slice(0, mostItems).map((item) => plain("", item, depth + 1));
  return items.length > mostItems ? [...shown, `… ${items.length - mostItems} more`] : shown;
}

/** Kubernetes writes an error under `err`; everything else keeps its name. Absent values are left out. */
export function plainFields(fields: LogFields): readonly (readonly [string, Plain])[] {
  return Object.entries(fields).flatMap(([key, value]) => {
    const shown = plain(key, value);
    return shown === undefined ? [] : [[key === "error" ? "err" : key, shown] as const];
  });
}
