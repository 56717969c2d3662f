/** One value read from text: the value, or why the text is no such value (in the words that Go's flags use). */
export type Parsed<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly problem: string };

export const good = <T>(value: T): Parsed<T> => ({ ok: true, value });
export const bad = (problem: string): { readonly ok: false; readonly problem: string } => ({ ok: false, problem });

/** Text in double quotes, as Go's `%q` prints it. */
export const quoted = (text: string): string => JSON.stringify(text);
