/** Result of parsing a value: the value, or why the text is invalid, in the words of Go's flags. */
export type Parsed<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly problem: string };

export const good = <T>(value: T): Parsed<T> => ({ ok: true, value });
export const bad = (problem: string): { readonly ok: false; readonly problem: string } => ({ ok: false, problem });

/** Double-quoted text, like Go's `%q`. */
export const quoted = (text: string): string => JSON.stringify(text);
