import { messageOf, parseLabelSelector } from "cloud-controller-host/sdk";

import { formatDuration } from "../values/durations.ts";

/** Checks of single values. Each returns the end of a sentence that begins with the flag's name, or undefined. */

export const atLeast =
  (least: number) =>
  (value: number): string | undefined =>
    value >= least ? undefined : `must be at least ${least}, got ${value}`;

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

/** Why a label selector is invalid. The empty one selects everything and is valid. */
export function labelSelectorProblem(selector: string): string | undefined {
  try {
    parseLabelSelector(selector);
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

const classForm = /^(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?\/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;

/** Why no Service can have this `loadBalancerClass`. The empty one stands for Services without a class. */
export const loadBalancerClassProblem = (text: string): string | undefined =>
  text === "" || classForm.test(text) ? undefined : `must look like example.com/internal or internal, got "${text}"`;

/** Why a name cannot be a shard's: it becomes the end of a Lease's name and of load balancers' names. */
export function shardProblem(name: string): string | undefined {
  if (name === "") return undefined;
  if (!/^[a-z0-9](?:[-a-z0-9]{0,28}[a-z0-9])?$/u.test(name))
    return `must be lower-case letters, digits and dashes, at most 30, got "${name}"`;
  return /(?:^|-)internal$/u.test(name)
    ? `cannot end in "internal", as internal load balancers do, got "${name}"`
    : undefined;
}
