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
  // The items of a list are checked one by one: blanks and commas in one pattern could be matched in many ways.
  [`${key}\\s+in\\s*\\(([^()]*)\\)`, "in"],
  [`${key}\\s+notin\\s*\\(([^()]*)\\)`, "notin"],
  // The API server refuses a negative number: no value of a label is one.
  [`${key}\\s*>\\s*(\\d+)`, "above"],
  [`${key}\\s*<\\s*(\\d+)`, "below"],
];
const isValue = new RegExp(`^${value}$`);
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

/**
 * True if some value of the label, or its absence, meets all requirements. In linear time: a Lease of another deployment
 * may have thousands.
 */
function canBeMet(requirements: readonly Requirement[]): boolean {
  if (requirements.every((one) => meets(one, undefined))) return true;
  const listsOf = (wanted: Operator): readonly (readonly string[])[] =>
    requirements.flatMap(({ operator, values }) => (operator === wanted ? [values] : []));
  if (listsOf("absent").length > 0) return false;
  const [above, below] = [listsOf("above"), listsOf("below")];
  const least = above.reduce((soFar, [than]) => Math.max(soFar, Number(than)), -1);
  const most = below.reduce((soFar, [than]) => Math.min(soFar, Number(than)), Number.POSITIVE_INFINITY);
  const [listed, ...others] = listsOf("in").map((values) => new Set(values));
  // What lists leave out never uses up a range: 5, 05 and 005 are different values of the same integer.
  if (listed === undefined) return least + 1 < most;
  const excluded = new Set(listsOf("notin").flat());
  const isInRange = (found: string): boolean =>
    (above.length === 0 || integerOf(found) > least) && (below.length === 0 || integerOf(found) < most);
  return listed
    .values()
    .some((found) => !excluded.has(found) && isInRange(found) && others.every((list) => list.has(found)));
}

const requirementsOf = (selector: string): readonly Requirement[] =>
  selector.trim() === "" ? [] : partsOf(selector).map((part) => requirementOf(part.trim()));

/** The parts between commas that are not in a list. */
function partsOf(selector: string): readonly string[] {
  const parts: string[] = [];
  let [start, isInList] = [0, false];
  for (const { 0: mark, index } of selector.matchAll(/[(),]/g)) {
    if (mark !== ",") isInList = mark === "(";
    else if (!isInList) {
      parts.push(selector.slice(start, index));
      start = index + 1;
    }
  }
  return [...parts, selector.slice(start)];
}

/** Each part between its dots begins and ends with a letter or a digit. */
const hasBrokenDomain = (label: string): boolean =>
  label.includes("/") && /[.-]\.|\.-/u.test(label.split("/", 1)[0] ?? "");

function requirementOf(text: string): Requirement {
  for (const { pattern, operator } of patterns) {
    const [found, label = "", than = ""] = pattern.exec(text) ?? [];
    if (found === undefined || hasBrokenDomain(label)) continue;
    const values = than.split(",").map((item) => item.trim());
    if (operator === "above" || operator === "below" || values.every((item) => isValue.test(item)))
      return { label, operator, values };
  }
  throw new CodedError(
    "InvalidLabelSelector",
    `is not a valid label selector at "${text}"; write key=value, key!=value, key in (a,b), key notin (a,b), key or !key, separated by commas`,
  );
}
