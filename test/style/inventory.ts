import { projectFiles, read } from "./sources.ts";

/** A test of ours, as a page names it. */
export interface Named {
  readonly file: string;
  readonly name: string;
}

/** `file` under `test/` in backticks, and the beginning of a test's name in typographic quotes. */
export const namedIn = (text: string): readonly Named[] =>
  [...text.matchAll(/`([\w/.-]+\.test\.ts)` “([^”]+)”/g)].map(([, file = "", name = ""]) => ({
    file: `test/${file}`,
    name,
  }));

/** Rows of the page's tables as their cells, headings left out. */
export const rowsOf = (text: string): readonly (readonly string[])[] =>
  text
    .split("\n")
    .filter((line) => line.startsWith("| ") && !line.startsWith("| ---"))
    .map((line) =>
      line
        .slice(2, -2)
        .split(" | ")
        .map((cell) => cell.trim()),
    );

/** The tests that a page names and that are not there. */
export async function missingFrom(page: string): Promise<readonly string[]> {
  const named = namedIn(await read(page));
  const missing = await Promise.all(
    named.map(async (one) => ((await isThere(one)) ? [] : [`${one.file}: ${one.name}`])),
  );
  return missing.flat();
}

/** How many test files a page names without a test of them; the checks of pages themselves are left out. */
export async function unnamedIn(page: string): Promise<number> {
  const text = await read(page);
  const files = [...text.matchAll(/`(?!test\/style\/)[\w/.-]+\.test\.ts`/g)].length;
  return files - namedIn(text).length;
}

export async function isThere({ file, name }: Named): Promise<boolean> {
  return projectFiles.includes(file) && isWritten(await read(file), name);
}

/** Whether a string in the source is, or begins with, the name, or is a pattern that the name comes from. */
function isWritten(source: string, name: string): boolean {
  if (beginsAString(source, name)) return true;
  const [, mark = "", rest = ""] = /^(\[\w+\]) (.+)$/.exec(name) ?? [];
  if (mark !== "" && source.includes(mark)) return beginsAString(source, rest);
  return patternsIn(source).some((pattern) => {
    const filled = pattern.exec(name)?.slice(1);
    // What stands in a pattern's place must be in the source as well, unless it is numbers.
    return filled?.every((text) => !/[^\d,]/.test(text) || source.includes(text)) ?? false;
  });
}

const beginsAString = (source: string, text: string): boolean =>
  ['"', "'", "`"].some((quote) => source.includes(`${quote}${text}`));

/** Strings with `${…}` or `%s` in them and some words of their own. */
function patternsIn(source: string): readonly RegExp[] {
  const strings = [...source.matchAll(/`([^`\n]*)`|"([^"\n]*)"/g)].map(([, quoted, plain]) => quoted ?? plain ?? "");
  return strings.flatMap((text) => {
    const fixed = text.split(/\$\{[^}]*\}|%[spd]/);
    const words = fixed.join("").replaceAll(/\W/g, "").length;
    return fixed.length > 1 && words > 1
      ? [new RegExp(`^${fixed.map((part) => RegExp.escape(part)).join("(.+)")}$`)]
      : [];
  });
}

interface Case {
  readonly text: string;
  /** The tests that show it; empty where a reason says why there is none. */
  readonly shownBy: readonly Named[];
}

/** One test of the reference, and its cases. */
interface UpstreamTest {
  readonly name: string;
  readonly announced: string;
  /** Where the cases are that have no file of their own beside them. */
  readonly files: readonly string[];
  readonly cases: readonly Case[];
}

/** One file of the reference's tests. */
export interface UpstreamFile {
  readonly source: string;
  readonly announced: string;
  readonly tests: readonly UpstreamTest[];
}

/** What a page says of the reference's tests: `## source: numbers`, `### test: numbers`, and a line for each case. */
export const upstreamFilesIn = (text: string): readonly UpstreamFile[] =>
  sectionsOf(text, /^## `([^`]+)`: (.+)$/).map(({ name, announced, body }) => ({
    source: name,
    announced,
    tests: sectionsOf(body, /^### (.+): (\d+ .+)$/).map(upstreamTest),
  }));

interface Section {
  readonly name: string;
  readonly announced: string;
  readonly body: string;
}

function sectionsOf(text: string, heading: RegExp): readonly Section[] {
  const sections: (Section & { body: string })[] = [];
  for (const line of text.split("\n")) {
    const [, name, announced = ""] = heading.exec(line) ?? [];
    const last = sections.at(-1);
    if (name !== undefined) sections.push({ name, announced, body: "" });
    else if (last !== undefined) last.body += `${line}\n`;
  }
  return sections;
}

function upstreamTest({ name, announced, body }: Section): UpstreamTest {
  const lines = body.split("\n");
  const files = [
    ...new Set(namedIn(lines.filter((line) => !line.startsWith("- ")).join("\n")).map(({ file }) => file)),
  ];
  const cases = lines.filter((line) => line.startsWith("- ")).map((line) => readCase(line.slice(2), files));
  return { name, announced, files, cases };
}

function readCase(text: string, files: readonly string[]): Case {
  if (/ — not here: ./.test(text)) return { text, shownBy: [] };
  const elsewhere = namedIn(text);
  if (elsewhere.length > 0) return { text, shownBy: elsewhere };
  const [, other] = / → “([^”]+)”/.exec(text) ?? [];
  const name = other ?? text.split(" — ")[0] ?? "";
  return { text, shownBy: files.map((file) => ({ file, name })) };
}

export interface Numbers {
  readonly cases: number;
  readonly here: number;
}

export function numbersOf(tests: readonly UpstreamTest[]): Numbers {
  const cases = tests.flatMap((one) => one.cases);
  return { cases: cases.length, here: cases.filter(({ shownBy }) => shownBy.length > 0).length };
}

export const inWords = ({ cases, here }: Numbers): string => `${cases} ${cases === 1 ? "case" : "cases"}, ${here} here`;
