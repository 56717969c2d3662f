/** Grammar of label selectors, as the API server reads them in `labelSelector`. Source: apimachinery `labels`. */
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

/** What is wrong with a label selector; the empty one, which selects everything, is good. */
export function labelSelectorProblem(selector: string): string | undefined {
  if (selector.trim() === "") return undefined;
  const wrong = selector
    .split(/,(?![^()]*\))/)
    .map((requirement) => requirement.trim())
    .find((requirement) => !requirements.some((pattern) => pattern.test(requirement)));
  return wrong === undefined
    ? undefined
    : `is no label selector at "${wrong}"; write key=value, key!=value, key in (a,b), key notin (a,b), key or !key, separated by commas`;
}
