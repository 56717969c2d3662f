import { expect, test } from "bun:test";

import { errorCodes } from "cloud-controller-host/sdk";

import { isTypeScript, projectFiles, read, shippedSources } from "./sources.ts";

/** Simulators and the API server of tests answer with codes of others; examples are plugins of others. */
const ours = [
  ...shippedSources,
  ...projectFiles.filter((name) => name.startsWith("deploy/") && isTypeScript(name)),
].filter((name) => !/(^|\/)(testing|simulator|examples)\//.test(name) && name !== "sdk/error-codes.ts");

/** Codes where they are passed to an error, and as constants or fields of that type. */
const usage =
  /(?:\bnew (?:CodedError|ResourceLockError)|\bsuper|\breject|\bproblem)\(\s*(?:draft,\s*[\w.]+,\s*)?"([A-Z]\w+)"|: ErrorCode = "(\w+)"|\bcode: "([A-Z]\w+)"|\? "([A-Z]\w+)" : routesNotDeleted/g;

const used = new Map<string, string>();
for (const name of ours)
  for (const [, ...groups] of (await read(name)).matchAll(usage))
    used.set(groups.find((code) => code !== undefined) ?? "", name);

test("every code of an error is in the table, which says what it means and what to do", () => {
  expect([...used].filter(([code]) => !errorCodes.has(code)).map(([code, name]) => `${code} in ${name}`)).toEqual([]);
});

test("every row of the table of errors is the code of an error", () => {
  expect([...errorCodes.keys()].filter((code) => !used.has(code))).toEqual([]);
});

test("every row of the table of errors is two sentences", () => {
  const isSentence = (text: string): boolean => /^[A-Z`-].*\.$/.test(text);
  expect([...errorCodes].filter(([, { meaning, remedy }]) => !isSentence(meaning) || !isSentence(remedy))).toEqual([]);
});
