import { bad, good, type Parsed, quoted } from "./parsed.ts";

/** Milliseconds, for tables that name durations. */
export const second = 1_000;
export const minute = 60 * second;
export const hour = 60 * minute;

const nanosecondsPer: Readonly<Record<string, bigint>> = {
  ns: 1n,
  us: 1_000n,
  "\u00b5s": 1_000n,
  "\u03bcs": 1_000n,
  ms: 1_000_000n,
  s: 1_000_000_000n,
  m: 60_000_000_000n,
  h: 3_600_000_000_000n,
};

/** The largest duration that Go can hold, in nanoseconds. */
const limit = 2n ** 63n;

/** Go's `time.ParseDuration`: `1h2m3.5s`, a unit is needed except for `0`. The value is in milliseconds. */
export function parseDuration(text: string): Parsed<number> {
  const invalid = bad("must be a duration, such as 15s or 1h30m");
  const negative = text.startsWith("-");
  let rest = negative || text.startsWith("+") ? text.slice(1) : text;
  if (rest === "0") return good(0);
  if (rest === "") return invalid;
  let total = 0n;
  while (rest !== "") {
    const part = /^(\d*)(?:\.(\d*))?([^\d.]*)/.exec(rest);
    const [whole = "", fraction = "", unit = ""] = part?.slice(1) ?? [];
    if (part === null || whole + fraction === "") return invalid;
    if (unit === "") return bad("must be a duration with units, such as 15s or 1h30m");
    const scale = Object.hasOwn(nanosecondsPer, unit) ? nanosecondsPer[unit] : undefined;
    if (scale === undefined) return bad(`unknown unit ${quoted(unit)} in a duration; use h, m, s, ms, us or ns`);
    total += BigInt(whole === "" ? 0 : whole) * scale;
    total += (BigInt(fraction === "" ? 0 : fraction) * scale) / 10n ** BigInt(fraction.length);
    if (total > limit || (total === limit && !negative)) return invalid;
    rest = rest.slice(part[0].length);
  }
  const milliseconds = Number(total / 1_000_000n) + Number(total % 1_000_000n) / 1e6;
  return good(negative && milliseconds !== 0 ? -milliseconds : milliseconds);
}

/** Go's `Duration.String`: `12h0m0s`, `1m30s`, `1.5s`, `250ms`, `0s`. Takes milliseconds, to the nanosecond. */
export function formatDuration(milliseconds: number): string {
  const sign = milliseconds < 0 ? "-" : "";
  const absolute = Math.abs(milliseconds);
  const whole = Math.trunc(absolute);
  const nanoseconds = BigInt(whole) * 1_000_000n + BigInt(Math.round((absolute - whole) * 1e6));
  if (nanoseconds === 0n) return "0s";
  if (nanoseconds < 1_000n) return `${sign}${nanoseconds}ns`;
  if (nanoseconds < 1_000_000n) return `${sign}${decimal(nanoseconds, 3)}\u00b5s`;
  if (nanoseconds < 1_000_000_000n) return `${sign}${decimal(nanoseconds, 6)}ms`;
  const minutes = nanoseconds / 60_000_000_000n;
  const seconds = `${decimal(nanoseconds % 60_000_000_000n, 9)}s`;
  if (minutes === 0n) return sign + seconds;
  if (minutes < 60n) return `${sign}${minutes}m${seconds}`;
  return `${sign}${minutes / 60n}h${minutes % 60n}m${seconds}`;
}

/** `value` / 10^`places`, without trailing zeros. */
function decimal(value: bigint, places: number): string {
  const scale = 10n ** BigInt(places);
  const fraction = (value % scale).toString().padStart(places, "0").replace(/0+$/, "");
  return fraction === "" ? `${value / scale}` : `${value / scale}.${fraction}`;
}
