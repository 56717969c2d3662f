import { type TSchema, Type } from "cloud-controller-host/sdk";

interface Emptiness {
  readonly emptyIsDefault?: true;
}

/** 0 and empty text stand for the default: upstream cannot tell them from a missing key. */
export const orDefault: Emptiness = { emptyIsDefault: true };

/** Text; empty where upstream has an unset string. */
export const text = (description: string) => Type.String({ default: "", description });
/** Text that is never shown in a problem or a log; the reference page marks it. */
export const secret = (description: string) => Type.String({ default: "", description, writeOnly: true });
export const flag = (value: boolean, description: string) => Type.Boolean({ default: value, description });
export const whole = (value: number, description: string, options: Emptiness = {}) =>
  Type.Integer({ default: value, description, ...options });
export const number = (value: number, description: string, options: Emptiness = {}) =>
  Type.Number({ default: value, description, ...options });
/** A duration in whole seconds. */
export const seconds = (value: number, description: string, options: Emptiness = {}) =>
  Type.Integer({ default: value, minimum: 0, description: `${description} In seconds.`, ...options });
export const word = <const Word extends string>(value: Word) => Type.Literal(value);
/** One of several words, in any case. */
export const choice = <Words extends TSchema[]>(standard: string, words: [...Words], description: string) =>
  Type.Union(words, { default: standard, description });
/** One of several words, exactly; in another case it has no effect, as upstream. */
export const exactChoice = <Words extends TSchema[]>(standard: string, words: [...Words], description: string) =>
  Type.Union(words, { default: standard, description, caseSensitive: true });
