import { canonicalAddress, familyOf } from "../model/addresses.ts";
import type { Family } from "../model/model.ts";

/** The value that an annotation's text stands for, or what is wrong with it. */
export type Read<T> = { readonly value: T; readonly warning?: string } | { readonly problem: string };

/** Reads the text of one annotation; `undefined`: the Service does not have it. */
export type Reader<T> = (text: string | undefined) => Read<T>;

/** Longest text of any annotation that is read; the API server's limit for all of them together is 256 KiB. */
const maxLength = 128 * 1024;
const maxShown = 60;

/** The value as messages quote it: never longer than a line. */
export const quoted = (text: string): string =>
  JSON.stringify(text.length > maxShown ? `${text.slice(0, maxShown)}…` : text);

const bounded =
  <T>(reader: Reader<T>, limit = maxLength): Reader<T> =>
  (text) =>
    text !== undefined && text.length > limit
      ? { problem: `has ${text.length} characters; at most ${limit} are allowed` }
      : reader(text);

/** `true` in any case is true, anything else is false. Source: upstream compares with `strings.EqualFold`. */
export const flag: Reader<boolean> = bounded((text) => {
  const word = text?.toLowerCase() ?? "false";
  if (word === "true" || word === "false") return { value: word === "true" };
  return { value: false, warning: `${quoted(word)} is neither true nor false and is treated as false` };
});

/** As `flag`, with space around the word allowed. */
export const trimmedFlag: Reader<boolean> = (text) => flag(text?.trim());

/** Trimmed text; blank is the same as absent. */
export const text = (limit: number): Reader<string> => bounded((value) => ({ value: value?.trim() ?? "" }), limit);

/** Text as it is, `undefined` when absent: an empty value has a meaning of its own. */
export const verbatim = (limit: number): Reader<string | undefined> => bounded((value) => ({ value }), limit);

export const matching = (pattern: RegExp, valid: string, limit: number): Reader<string> =>
  bounded((value) => {
    const trimmed = value?.trim() ?? "";
    return trimmed === "" || pattern.test(trimmed)
      ? { value: trimmed }
      : { problem: `${quoted(trimmed)} is not valid; use ${valid}` };
  }, limit);

/** A decimal integer, `undefined` when absent. */
export const integer = (least: number, most: number): Reader<number | undefined> =>
  bounded((value) => {
    if (value === undefined) return { value };
    const number = /^[+-]?\d{1,10}$/u.test(value.trim()) ? Number(value.trim()) : Number.NaN;
    return number >= least && number <= most
      ? { value: number }
      : { problem: `${quoted(value)} is not an integer from ${least} to ${most}` };
  });

/** One of a few words in any case, `undefined` when absent; another word, or none, falls back, as upstream. */
export const word = <const Word extends string>(words: readonly Word[], fallback: Word): Reader<Word | undefined> =>
  bounded((value) => {
    if (value === undefined) return { value };
    const given = value.trim().toLowerCase();
    const known = words.find((one) => one.toLowerCase() === given);
    if (known !== undefined) return { value: known };
    return { value: fallback, warning: `${quoted(given)} is not one of ${words.join(", ")}; ${fallback} is used` };
  });

/** An IP address of one family in its canonical form; blank is the same as absent. */
export const address = (family: Family): Reader<string> =>
  bounded((value) => {
    const given = value?.trim() ?? "";
    if (given === "" || familyOf(given) === family) return { value: canonicalAddress(given) ?? "" };
    return { problem: `${quoted(given)} is not an ${family} address` };
  });

/** A list of IP addresses; each item must be exact, without spaces. An empty list is invalid, as upstream. */
export const addresses: Reader<readonly string[]> = bounded((value) => {
  const items = value?.split(",") ?? [];
  const wrong = items.filter((item) => familyOf(item) === undefined);
  return wrong.length === 0
    ? { value: items }
    : { problem: `${some(wrong)} ${wrong.length === 1 ? "is not an IP address" : "are not IP addresses"}` };
});

/** Items separated by commas, trimmed; `undefined` when absent. */
export const commaList: Reader<readonly string[] | undefined> = bounded((value) => ({
  value: value?.split(",").map((item) => item.trim()),
}));

/** As `commaList`, but every item must have text: ARM refuses an empty one. */
export const words: Reader<readonly string[]> = (value) => {
  const read = commaList(value);
  if ("problem" in read) return read;
  return read.value?.includes("")
    ? { problem: `${quoted(value ?? "")} has an empty item` }
    : { value: read.value ?? [] };
};

/** Items separated by white space. */
export const spaceList: Reader<readonly string[]> = bounded((value) => ({
  value: value?.split(/\s+/u).filter((item) => item !== "") ?? [],
}));

/** IPv4 addresses separated by white space. */
export const spacedAddresses: Reader<readonly string[]> = (value) => {
  const read = spaceList(value);
  if ("problem" in read) return read;
  const wrong = read.value.filter((item) => familyOf(item) !== "IPv4");
  return wrong.length === 0
    ? read
    : { problem: `${some(wrong)} ${wrong.length === 1 ? "is not an IPv4 address" : "are not IPv4 addresses"}` };
};

/** The first few of what may be many. */
export const some = (items: readonly string[]): string => {
  const shown = items.slice(0, 5).map(quoted).join(", ");
  return items.length > 5 ? `${shown} and ${items.length - 5} more` : shown;
};
