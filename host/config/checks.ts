import { formatDuration } from "./durations.ts";

/** Checks of single values: each answers with the end of a sentence that begins with the flag's name. */

export const atLeast =
  (least: number, hint = "") =>
  (value: number): string | undefined =>
    value >= least ? undefined : `must be at least ${least}, got ${value}${hint}`;

/** A port to listen on, or 0 for none. */
export const port = (value: number): string | undefined =>
  value >= 0 && value <= 65_535 ? undefined : `must be between 0 and 65535, got ${value}; 0 turns this server off`;

export const notNegative = (milliseconds: number): string | undefined =>
  milliseconds >= 0 ? undefined : `cannot be negative, got ${formatDuration(milliseconds)}`;

export const positive = (milliseconds: number): string | undefined =>
  milliseconds > 0 ? undefined : `must be longer than 0s, got ${formatDuration(milliseconds)}`;

export const oneOf =
  (...known: readonly string[]) =>
  (value: string): string | undefined =>
    known.includes(value) ? undefined : `must be ${known.join(" or ")}, got "${value}"`;

export const noBlankItem = (values: readonly string[]): string | undefined =>
  values.some((value) => value.trim() === "") ? "has an empty item; remove it" : undefined;
