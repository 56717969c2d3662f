import { formatDuration } from "../values/durations.ts";

/** Checks of single values. Each returns the end of a sentence that begins with the flag's name, or undefined. */

export const atLeast =
  (least: number, hint = "") =>
  (value: number): string | undefined =>
    value >= least ? undefined : `must be at least ${least}, got ${value}${hint}`;

/** A port to listen on, or 0 for none. */
export const port = (value: number): string | undefined =>
  value >= 0 && value <= 65_535 ? undefined : `must be between 0 and 65535, got ${value}; 0 disables this server`;

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

/** Grammar of label selectors as in the API parameter `labelSelector`. Source: apimachinery `labels`. */
const name = /[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?/.source;
const domain = /[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/.source;
const key = `(?:${domain}/)?${name}`;
const value = `(?:${name})?`;

const requirements: readonly RegExp[] = [
  new RegExp(`^!?\\s*${key}$`),
  new RegExp(`^${key}\\s*(?:==?|!=)\\s*${value}$`),
  new RegExp(`^${key}\\s+(?:in|notin)\\s*\\(\\s*${value}(?:\\s*,\\s*${value})*\\s*\\)$`),
  new RegExp(`^${key}\\s*[<>]\\s*-?\\d+$`),
];

/** Why a label selector is invalid. The empty one selects everything and is valid. */
export function labelSelectorProblem(selector: string): string | undefined {
  if (selector.trim() === "") return undefined;
  const wrong = selector
    .split(/,(?![^()]*\))/)
    .map((requirement) => requirement.trim())
    .find((requirement) => !requirements.some((pattern) => pattern.test(requirement)));
  return wrong === undefined
    ? undefined
    : `is not a valid label selector at "${wrong}"; write key=value, key!=value, key in (a,b), key notin (a,b), key or !key, separated by commas`;
}
