import { CodedError } from "./errors.ts";

type Labels = Readonly<Record<string, string>>;
type Requirement = (labels: Labels) => boolean;

const name = /[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?/.source;
const domain = /[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/.source;
const key = `((?:${domain}/)?${name})`;
const value = `(?:${name})?`;

const labelOf = (labels: Labels, label: string): string | undefined =>
  Object.hasOwn(labels, label) ? labels[label] : undefined;

const isOneOf = (labels: Labels, label: string, list: string): boolean => {
  const found = labelOf(labels, label);
  return found !== undefined && list.split(",").some((item) => item.trim() === found);
};

/** The integer that a label is; NaN, which compares with nothing, for any other value. */
const integerOf = (labels: Labels, label: string): number => {
  const found = labelOf(labels, label) ?? "";
  return /^\d+$/.test(found) ? Number(found) : Number.NaN;
};

/** The forms of a requirement, each with its meaning: the label, then what it is compared with. */
const forms: readonly [pattern: string, isMet: (labels: Labels, label: string, than: string) => boolean][] = [
  [key, (labels, label) => Object.hasOwn(labels, label)],
  [`!\\s*${key}`, (labels, label) => !Object.hasOwn(labels, label)],
  [`${key}\\s*==?\\s*(${value})`, (labels, label, than) => labelOf(labels, label) === than],
  [`${key}\\s*!=\\s*(${value})`, (labels, label, than) => labelOf(labels, label) !== than],
  [`${key}\\s+in\\s*\\((\\s*${value}(?:\\s*,\\s*${value})*\\s*)\\)`, isOneOf],
  [`${key}\\s+notin\\s*\\((\\s*${value}(?:\\s*,\\s*${value})*\\s*)\\)`, (...given) => !isOneOf(...given)],
  [`${key}\\s*>\\s*(-?\\d+)`, (labels, label, than) => integerOf(labels, label) > Number(than)],
  [`${key}\\s*<\\s*(-?\\d+)`, (labels, label, than) => integerOf(labels, label) < Number(than)],
];
const patterns = forms.map(([pattern, isMet]) => ({ pattern: new RegExp(`^${pattern}$`), isMet }));

/**
 * True for the labels that a selector selects, such as `a=b,c!=d,e in (f,g),h,!i`; the empty one selects all. Throws
 * `InvalidLabelSelector`. Source: apimachinery `labels.Parse`.
 */
export function parseLabelSelector(selector: string): (labels: Labels) => boolean {
  if (selector.trim() === "") return () => true;
  const requirements = selector.split(/,(?![^()]*\))/).map((part) => requirementOf(part.trim()));
  return (labels) => requirements.every((isMet) => isMet(labels));
}

function requirementOf(text: string): Requirement {
  for (const { pattern, isMet } of patterns) {
    const [found, label = "", than = ""] = pattern.exec(text) ?? [];
    if (found !== undefined) return (labels) => isMet(labels, label, than);
  }
  throw new CodedError(
    "InvalidLabelSelector",
    `is not a valid label selector at "${text}"; write key=value, key!=value, key in (a,b), key notin (a,b), key or !key, separated by commas`,
  );
}
