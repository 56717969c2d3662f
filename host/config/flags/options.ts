import { CodedError } from "cloud-controller-host/sdk";

import type { Flag } from "./flag.ts";
import { type FlagRow, flagRows, type flags } from "./flags.ts";

type Flags = typeof flags;

type CamelCase<Name extends string> = Name extends `${infer Head}-${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : Name;

type ValueOf<Row> = Row extends Flag<infer Value> ? Value : never;

/**
 * The value of every flag of the table, under its name in camel case (`leaderElectLeaseDuration`). Durations are
 * milliseconds, sizes bytes, lists arrays; files and selectors are as typed.
 */
export type Options = { readonly [Name in keyof Flags as CamelCase<Name>]: ValueOf<Flags[Name]> };

/** The name of a flag's option: `leader-elect-lease-duration` → `leaderElectLeaseDuration`. */
export const optionName = (flagName: string): string =>
  flagName.replace(/-([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

export function collectOptions(valueOf: (row: FlagRow) => unknown): Options {
  const collected = Object.fromEntries(flagRows.map((row) => [optionName(row.name), valueOf(row)]));
  if (!isOptions(collected))
    throw new CodedError("InvalidFlags", "the table of flags returned a value of the wrong type");
  return collected;
}

const isOptions = (candidate: object): candidate is Options =>
  flagRows.every(({ name, flag }) => flag.is(Reflect.get(candidate, optionName(name))));

/** The options of an empty command line. */
export const defaultOptions: Options = collectOptions(({ flag }) => flag.defaultValue);

/** The log format: JSON if either of the two flags selects it. */
export const logFormat = (options: Options): "json" | "text" =>
  options.logFormat === "json" || options.loggingFormat === "json" ? "json" : "text";
