import { CodedError } from "./errors.ts";

type Labels = Readonly<Record<string, string>>;
type Operator = "exists" | "absent" | "in" | "notin" | "above" | "below";

interface Requirement {
  readonly label: string;
  readonly operator: Operator;
  readonly values: readonly string[];
}

const name = /[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?/.source;
const domain = /[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/.source;
const key = `((?:${domain}/)?${name})`;
const value = `(?:${name})?`;

/** Integer value of a label; NaN, which fails every comparison, for any other value. */
const integerOf = (found: string): number => (/^\d+$/.test(found) ? Number(found) : Number.NaN);

const forms: readonly [pattern: string, operator: Operator][] = [
  [key, "exists"],
  [`!\\s*${key}`, "absent"],
  [`${key}\\s*==?\\s*(${value})`, "in"],
  [`${key}\\s*!=\\s*(${value})`, "notin"],
  [`${key}\\s+in\\s*\\((\\s*${value}(?:\\s*,\\s*${value})*\\s*)\\)`, "in"],
  [`${key}\\s+notin\\s*\\((\\s*${value}(?:\\s*,\\s*${value})*\\s*)\\)`, "notin"],
  [`${key}\\s*>\\s*(-?\\d+)`, "above"],
  [`${key}\\s*<\\s*(-?\\d+)`, "below"],
];
const patterns = forms.map(([pattern, operator]) => ({ pattern: new RegExp(`^${pattern}$`), operator }));

/** Each is true if a label with that value, or an absent label, meets the requirement. */
const meanings: Readonly<Record<Operator, (found: string | undefined, values: readonly string[]) => boolean>> = {
  exists: (found) => found !== undefined,
  absent: (found) => found === undefined,
  in: (found, values) => found !== undefined && values.includes(found),
  notin: (found, values) => found === undefined || !values.includes(found),
  above: (found = "", [than]) => integerOf(found) > Number(than),
  below: (found = "", [than]) => integerOf(found) < Number(than),
};
const meets = ({ operator, values }: Requirement, found: string | undefined): boolean =>
  meanings[operator](found, values);

/**
 * True for labels that the selector matches, such as `a=b,c!=d,e in (f,g),h,!i`; an empty one matches all. Throws
 * `InvalidLabelSelector`. Source: apimachinery `labels.Parse`.
 */
export function parseLabelSelector(selector: string): (labels: Labels) => boolean {
  const requirements = requirementsOf(selector);
  return (labels) =>
    requirements.every((one) => meets(one, Object.hasOwn(labels, one.label) ? labels[one.label] : undefined));
}

/**
 * True if both selectors match some set of labels. Requirements on different labels are independent, so each label is
 * decided separately. Throws `InvalidLabelSelector`.
 */
export function labelSelectorsOverlap(one: string, other: string): boolean {
  const requirements = Map.groupBy([...requirementsOf(one), ...requirementsOf(other)], ({ label }) => label);
  return requirements.values().every(canBeMet);
}

/** True if some value of the label, or its absence, meets all requirements. */
function canBeMet(requirements: readonly Requirement[]): boolean {
  const isMetBy = (found: string | undefined): boolean => requirements.every((one) => meets(one, found));
  if (isMetBy(undefined)) return true;
  const listed = requirements.find(({ operator }) => operator === "in");
  if (listed !== undefined) return listed.values.some(isMetBy);
  if (requirements.some(({ operator }) => operator === "absent")) return false;
  const limits = (wanted: Operator): readonly number[] =>
    requirements.flatMap(({ operator, values }) => (operator === wanted ? values.map(Number) : []));
  // What lists leave out never uses up a range: 5, 05 and 005 are different values of the same integer.
  return Math.max(-1, ...limits("above")) + 1 < Math.min(Number.POSITIVE_INFINITY, ...limits("below"));
}

const requirementsOf = (selector: string): readonly Requirement[] =>
  selector.trim() === "" ? [] : selector.split(/,(?![^()]*\))/).map((part) => requirementOf(part.trim()));

function requirementOf(text: string): Requirement {
  for (const { pattern, operator } of patterns) {
    const [found, label = "", than = ""] = pattern.exec(text) ?? [];
    if (found !== undefined) return { label, operator, values: than.split(",").map((item) => item.trim()) };
  }
  throw new CodedError(
    "InvalidLabelSelector",
    `is not a valid label selector at "${text}"; write key=value, key!=value, key in (a,b), key notin (a,b), key or !key, separated by commas`,
  );
}
