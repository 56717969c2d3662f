/** A change of the product's source that a simulation must find. */
export interface Defect {
  readonly file: string;
  /** A text that the file has once. */
  readonly from: string;
  readonly to: string;
  /** Kinds of actions without which it does not show. */
  readonly needs?: readonly string[];
  /** Fewer hosts do not show it. */
  readonly hosts?: number;
  /** The kept history that shows it, in `kept/`. */
  readonly kept?: string;
}

/** Defects by what they do. */
export type Defects = Readonly<Record<string, Defect>>;

/** The source with the defect. Throws unless the text to replace is there exactly once. */
export function withDefect(source: string, { file, from, to }: Defect): string {
  const places = source.split(from).length - 1;
  if (places !== 1) throw new Error(`${file} has ${places} times the text ${JSON.stringify(from)}`);
  return source.replace(from, () => to);
}
