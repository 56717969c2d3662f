import type { Parsed } from "./parsed.ts";

/** How the values of one kind of flag are read, shown and told apart. */
export interface FlagType<T> {
  /** The word that stands for the value in help; empty for a switch, which needs none. */
  readonly word: string;
  /** What a bare `--name` means. Without it the flag needs an argument. */
  readonly bare?: string;
  /** Its values are never shown, whatever happens. */
  readonly secret?: boolean;
  /** Reads an argument. `soFar` is what earlier occurrences gave; lists add to it, others replace it. */
  parse(text: string, soFar: T | undefined): Parsed<T>;
  /** Go's form of the value: what is logged as `FLAG: --name="value"`. */
  format(value: T): string;
  is(value: unknown): value is T;
}

/** Where a flag comes from: both Go binaries, one of them, or this program alone. */
type Origin = "both" | "upstream" | "azure" | "ours";

interface FlagDetails<T> {
  /** One letter for `-x`. */
  readonly shorthand?: string;
  readonly from?: Origin;
  /** Accepted with this notice, and left out of help. */
  readonly deprecated?: string;
  /** Left out of help, which would only grow longer by it; the reference page has it. */
  readonly hidden?: boolean;
  /** Why the value cannot be used, and what to do: the end of a sentence that begins with the flag's name. */
  readonly check?: (value: T) => string | undefined;
  /** What somebody who gives the flag should know about that value: the end of a sentence as in `check`. */
  readonly notice?: (value: T) => string | undefined;
}

/** A flag of the table, whatever the type of its value. Its name is its key in the table. */
export interface Flag<out T> {
  readonly defaultValue: T;
  /** The default in Go's form. */
  readonly defaultText: string;
  readonly help: string;
  readonly word: string;
  readonly bare: string | undefined;
  readonly secret: boolean;
  readonly shorthand: string | undefined;
  readonly from: Origin;
  readonly deprecated: string | undefined;
  readonly hidden: boolean;
  is(value: unknown): value is T;
  /** The end of a sentence that begins with the flag's name, when the value cannot be used. */
  problemOf(value: unknown): string | undefined;
  noticeOf(value: unknown): string | undefined;
  cell(): FlagCell<T>;
}

/** The value of one flag while a command line is read. */
export interface FlagCell<out T> {
  readonly value: T;
  /** The value in Go's form. */
  readonly text: string;
  readonly given: boolean;
  /** Takes one occurrence; the answer is the problem with it, if any. */
  read(text: string): string | undefined;
}

/** What is shown in place of a secret. */
export const hiddenText = "<hidden>";

/** Declares a flag. */
export function flag<T>(type: FlagType<T>, defaultValue: T, help: string, details: FlagDetails<T> = {}): Flag<T> {
  const is = (value: unknown): value is T => type.is(value);
  const format = (value: T): string => {
    const shown = type.format(value);
    return type.secret === true && shown !== "" && shown !== "[]" ? hiddenText : shown;
  };
  return {
    defaultValue,
    defaultText: format(defaultValue),
    help,
    word: type.word,
    bare: type.bare,
    secret: type.secret ?? false,
    shorthand: details.shorthand,
    from: details.from ?? "both",
    deprecated: details.deprecated,
    hidden: details.hidden ?? false,
    is,
    problemOf: (value) => (is(value) ? details.check?.(value) : undefined),
    noticeOf: (value) => (is(value) ? details.notice?.(value) : undefined),
    cell: () => createCell({ ...type, format }, defaultValue),
  };
}

function createCell<T>(type: FlagType<T>, defaultValue: T): FlagCell<T> {
  let given: T | undefined;
  const value = (): T => given ?? defaultValue;
  return {
    get value() {
      return value();
    },
    get text() {
      return type.format(value());
    },
    get given() {
      return given !== undefined;
    },
    read(text) {
      const parsed = type.parse(text, given);
      if (!parsed.ok) return parsed.problem;
      given = parsed.value;
      return undefined;
    },
  };
}
