import { describe, expect, test } from "bun:test";

import { findInFiles, isTypeScript, projectFiles, read } from "./sources.ts";

/** What the linter does not see. This file names what no other may contain. */
const own = "test/style/words.test.ts";
const others = projectFiles.filter((name) => name !== own);
const sources = others.filter(isTypeScript);

interface Ban {
  readonly what: string;
  readonly pattern: RegExp;
  readonly files: readonly string[];
}

const bans: readonly Ban[] = [
  { what: "a comment that silences the type checker", pattern: /@ts-(ignore|nocheck|expect-error)/, files: sources },
  { what: "a comment that silences the linter", pattern: /(oxlint|eslint)-disable/, files: sources },
  { what: "work left for later", pattern: /\b(TODO|FIXME|XXX|HACK)\b/, files: others },
  { what: "a test that runs alone", pattern: /\b(test|describe|it)\.only\(/, files: sources },
  {
    what: "a path of somebody's machine",
    pattern: /(^|[\s"'`=(])\/(work|root|home\/[a-z]+|Users\/[A-Za-z]+)\//,
    files: others,
  },
  {
    what: "the host of a package registry",
    pattern: /registry\.(npmjs|yarnpkg)\.|proxy\.golang\.|artifactory|^registry\s*=|_authToken/i,
    files: others,
  },
];

describe("no file contains", () => {
  for (const { what, pattern, files } of bans)
    test(what, async () => {
      expect(await findInFiles(files, pattern)).toEqual([]);
    });
});

describe("names and reasons", () => {
  test("no file is called utils, helpers, misc or common", () => {
    const vague = /^(utils?|helpers?|misc|common)(\.|$)/;
    expect(projectFiles.filter((name) => name.split("/").some((part) => vague.test(part)))).toEqual([]);
  });

  test("a skipped test has its reason in the line above", async () => {
    const unexplained: string[] = [];
    for (const name of sources) {
      const lines = (await read(name)).split("\n");
      for (const [index, line] of lines.entries())
        if (/\b(test|describe|it)\.(skip|todo|failing)\b/.test(line) && !/^\s*\/\//.test(lines[index - 1] ?? ""))
          unexplained.push(`${name}:${index + 1}`);
    }
    expect(unexplained).toEqual([]);
  });

  test("the lock file contains versions and checksums, and no URLs", async () => {
    expect(await findInFiles(["bun.lock"], /:\/\//)).toEqual([]);
  });
});
