import { lookalikes } from "../../resource-names.ts";
import { canonicalAddress, familyOf, isSpecialAddress } from "../model/addresses.ts";
import type { Family } from "../model/model.ts";

/** The value that an annotation's text stands for, or what is wrong with it. */
export type Read<T> = { readonly value: T; readonly warning?: string } | { readonly problem: string };

/** Limits of a text, as shown on the reference page. */
export interface Limits {
  /** Characters. */
  readonly length: number;
  /** Items of a list. */
  readonly items?: number;
  /** In words. */
  readonly pattern?: string;
}

/** Reads the text of one annotation; `undefined`: the Service does not have it. */
export interface Reader<T> {
  (text: string | undefined): Read<T>;
  readonly limits: Limits;
}

/** Bounds of texts of one item: a word, a number, an address. */
const short: Limits = { length: 80 };
const listLength = 16 * 1024;
/** Items of a list at most, unless its row has another bound. */
const maxItems = 200;
const maxShown = 60;

/** The value as messages quote it: never longer than a line. */
export const quoted = (text: string): string =>
  JSON.stringify(text.length > maxShown ? `${text.slice(0, maxShown)}…` : text);

const bounded = <T>(limits: Limits, reader: (text: string | undefined) => Read<T>): Reader<T> =>
  Object.assign(
    (text: string | undefined): Read<T> =>
      text !== undefined && text.length > limits.length
        ? { problem: `has ${text.length} characters; at most ${limits.length} are allowed` }
        : reader(text),
    { limits },
  );

/** `true` in any case is true, anything else is false. Source: upstream compares with `strings.EqualFold`. */
export const flag: Reader<boolean> = bounded(short, (text) => {
  const word = text?.toLowerCase() ?? "false";
  if (word === "true" || word === "false") return { value: word === "true" };
  return { value: false, warning: `${quoted(word)} is neither true nor false and is treated as false` };
});

/** As `flag`, with space around the word allowed. */
export const trimmedFlag: Reader<boolean> = bounded(short, (text) => flag(text?.trim()));

/** Trimmed text; blank is the same as absent. */
export const text = (length: number): Reader<string> =>
  bounded({ length }, (value) => ({ value: value?.trim() ?? "" }));

/** Text as it is, `undefined` when absent: an empty value has a meaning of its own. */
export const verbatim = (length: number): Reader<string | undefined> => bounded({ length }, (value) => ({ value }));

/** Trimmed text of a pattern; blank is the same as absent. */
export const matching = (pattern: RegExp, valid: string, length: number): Reader<string> =>
  bounded({ length, pattern: valid }, (value) => {
    const trimmed = value?.trim() ?? "";
    return trimmed === "" || (pattern.test(trimmed) && !lookalikes.test(trimmed))
      ? { value: trimmed }
      : { problem: `${quoted(trimmed)} is not valid; use ${valid}` };
  });

/** A decimal integer, `undefined` when absent. */
export const integer = (least: number, most: number): Reader<number | undefined> =>
  bounded(short, (value) => {
    if (value === undefined) return { value };
    const number = /^[+-]?\d{1,10}$/u.test(value.trim()) ? Number(value.trim()) : Number.NaN;
    return number >= least && number <= most
      ? { value: number }
      : { problem: `${quoted(value)} is not an integer from ${least} to ${most}` };
  });

/** One of a few words in any case, `undefined` when absent; another word, or none, falls back, as upstream. */
export const word = <const Word extends string>(words: readonly Word[], fallback: Word): Reader<Word | undefined> =>
  bounded(short, (value) => {
    if (value === undefined) return { value };
    const given = value.trim().toLowerCase();
    const known = words.find((one) => one.toLowerCase() === given);
    if (known !== undefined) return { value: known };
    return { value: fallback, warning: `${quoted(given)} is not one of ${words.join(", ")}; ${fallback} is used` };
  });

/** An IP address of one family in its canonical form; blank is the same as absent. */
export const address = (family: Family): Reader<string> =>
  bounded(short, (value) => {
    const given = value?.trim() ?? "";
    if (given === "" || familyOf(given) === family) return { value: canonicalAddress(given) ?? "" };
    return { problem: `${quoted(given)} is not an ${family} address` };
  });

type Items = readonly string[];

/** A list with as many items as allowed; `check` reads them, `undefined` when the annotation is absent. */
const list = <T>(
  split: (text: string) => Items,
  check: (items: Items | undefined, text: string) => Read<T>,
  { length, items: most = maxItems }: Limits = { length: listLength },
): Reader<T> =>
  bounded({ length, items: most }, (value) => {
    const items = value === undefined ? undefined : split(value);
    return items !== undefined && items.length > most
      ? { problem: `has ${items.length} items; at most ${most} are allowed` }
      : check(items, value ?? "");
  });

const byComma = (value: string): Items => value.split(",");
const trimmedByComma = (value: string): Items => byComma(value).map((item) => item.trim());
const bySpace = (value: string): Items => value.split(/\s+/u).filter((item) => item !== "");

const wrongItems = (wrong: Items, what: string): { readonly problem: string } => ({
  problem: `${some(wrong)} ${wrong.length === 1 ? `is not an ${what}` : `are not ${what}es`}`,
});

/** IP addresses in their canonical form; each item must be exact, without spaces. An empty list is invalid, as upstream. */
export const addresses: Reader<Items> = list(byComma, (items = []) => {
  const wrong = items.filter((item) => familyOf(item) === undefined);
  if (wrong.length > 0) return wrongItems(wrong, "IP address");
  const special = items.filter(isSpecialAddress);
  return special.length === 0
    ? { value: items.map((item) => canonicalAddress(item) ?? item) }
    : {
        problem: `${some(special)}: unspecified, loopback, link-local, multicast and Azure's own addresses are refused`,
      };
});

/** Items separated by white space, of which `*` means all. */
export const spaceListWithAll = (meaning: string): Reader<Items> =>
  list(bySpace, (value = []) => (value.includes("*") ? { value, warning: `* ${meaning}` } : { value }));

/** Items separated by commas, trimmed; `undefined` when absent. */
export const commaList = (limits?: Limits): Reader<Items | undefined> =>
  list(trimmedByComma, (value) => ({ value }), limits);

/** As `commaList`, but every item must have text: ARM refuses an empty one. */
export const words: Reader<Items> = list(trimmedByComma, (items = [], given) =>
  items.includes("") ? { problem: `${quoted(given)} has an empty item` } : { value: items },
);

/** Items separated by white space. */
export const spaceList: Reader<Items> = list(bySpace, (value = []) => ({ value }));

/** IPv4 addresses separated by white space. */
export const spacedAddresses: Reader<Items> = list(bySpace, (items = []) => {
  const wrong = items.filter((item) => familyOf(item) !== "IPv4");
  return wrong.length === 0 ? { value: items } : wrongItems(wrong, "IPv4 address");
});

/** The first few of what may be many. */
export const some = (items: Items): string => {
  const shown = items.slice(0, 5).map(quoted).join(", ");
  return items.length > 5 ? `${shown} and ${items.length - 5} more` : shown;
};
