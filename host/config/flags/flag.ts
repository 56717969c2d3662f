import type { Parsed } from "../values/parsed.ts";

/** Parses and formats the values of one type of flag. */
export interface FlagType<T> {
  /** Placeholder of the value in help; empty for a switch. */
  readonly word: string;
  /** The value of a bare `--name`. Without it the flag needs an argument. */
  readonly bare?: string;
  /** Its values are never printed or logged. */
  readonly secret?: boolean;
  /** Parses an argument. `soFar` is the value of earlier occurrences: lists append to it, other types replace it. */
  parse(text: string, soFar: T | undefined): Parsed<T>;
  /** The value in Go's form, as logged in `FLAG: --name="value"`. */
  format(value: T): string;
  is(value: unknown): value is T;
}

/** The programs that know a flag: both Go binaries, one of them, or this program alone. */
type Origin = "both" | "upstream" | "azure" | "ours";

interface FlagDetails<T> {
  /** One letter for `-x`. */
  readonly shorthand?: string;
  readonly from?: Origin;
  /** Accepted with this notice, and left out of help. */
  readonly deprecated?: string;
  /** Left out of help for brevity; the reference page has it. */
  readonly hidden?: boolean;
  /** Why the value is invalid, and what to do: the end of a sentence that begins with the flag's name. */
  readonly check?: (value: T) => string | undefined;
  /** A warning about the value: the end of a sentence as in `check`. */
  readonly notice?: (value: T) => string | undefined;
}

/** A flag of the table. Its name is its key in the table. */
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
  /** Why the value is invalid: the end of a sentence that begins with the flag's name. */
  problemOf(value: unknown): string | undefined;
  noticeOf(value: unknown): string | undefined;
  cell(): FlagCell<T>;
}

/** The value of one flag while a command line is parsed. */
export interface FlagCell<out T> {
  readonly value: T;
  /** The value in Go's form. */
  readonly text: string;
  readonly given: boolean;
  /** Applies one occurrence; returns the problem with it, if any. */
  read(text: string): string | undefined;
}

/** Replaces a secret in any output. */
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
