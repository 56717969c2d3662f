import { describe, expect, test } from "bun:test";

import { findInFiles, isTypeScript, projectFiles, read } from "./sources.ts";

/** What the linter does not see. This file names what no other may contain. */
const own = "test/style/words.test.ts";
const others = projectFiles.filter((name) => name !== own && !name.endsWith(".png"));
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
  { what: 'a doc comment that opens with "Whether" in place of "True if"', pattern: /\/\*\* Whether /, files: sources },
  {
    what: "a doc comment of the product or test/kit that opens with a question word in place of a noun or a verb",
    pattern: /\/\*\* (What|Where|Who|How|Which) /,
    files: sources.filter((name) => /^(host|sdk|deploy|plugins|test\/kit)\//.test(name)),
  },
  { what: "a test that runs alone", pattern: /\b(test|describe|it)\.only\(/, files: sources },
  {
    what: "a path of a developer's machine",
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

/** Phrases of a private dialect, and what to write instead. Case is ignored; each matches whole words. */
const dialect: readonly (readonly [phrase: RegExp, instead: string])[] = [
  [/whoever|somebody|(?<!")nobody|anybody|those who/, "the actor: the caller, another replica, kubelet, the user"],
  [/(is|are|was|were|be|been) told/, "reported, logged, returned"],
  [/says? so/, "reports it, or the message itself"],
  [/anew|afresh/, "again, fresh"],
  [/goes on|lets go( of)?|gives? (it|them|the lease) back/, "continues, releases"],
  [
    /(it|that|which|value|this) is no (valid|list|object|flag|mapping|index|map|error|node|service)/,
    '"is not a …", "invalid …"',
  ],
  [/one a (line|process|client|second|minute|node|flag|value)|a try/, '"one per …", "per attempt"'],
  [/in hand|of one mind|the way over/, "processing, consistent, migration"],
  [/mend(s|ed|ing)?|fell silent|broke off|keeps? its (law|word)/, "fix, timed out, ended, its contract"],
  [/there is no|(is|are) no (cause|conflict|drift|error|failure|reason|time)/, "what is; is not a …"],
  [/everybody|everyone|someone|does without|to be had|by turns/, "the actor; lacks, available, alternately"],
  [/(initial|normal|serial|recogn|organ|author|synchron|summar|optim|minim)is(e|es|ed|ing|ation)/, "American: -ize"],
  [/shall|the very (object|same|moment)|next to nothing/, "desired; the same object; almost nothing"],
  [/behaviours?|colours?|cancelling|labelled/, "American: behavior, color, canceling, labeled"],
];

/** Sources, pages and charts of the product, and the tests: comments, messages and titles. */
describe("the language of the project", () => {
  const readers = others.filter(
    (name) =>
      /^(host|sdk|plugins|deploy|\.github)\/|^README\.md$/.test(name) && /\.(tsx?|md|ya?ml|tpl|json)$/.test(name),
  );
  const tests = others.filter((name) => name.startsWith("test/") && (isTypeScript(name) || name.endsWith(".md")));

  for (const [phrase, instead] of dialect) {
    const words = new RegExp(`\\b(${phrase.source})\\b`, "i");
    test(`has no "${phrase.source}"; write: ${instead}`, async () => {
      expect(await findInFiles([...readers, ...tests], words)).toEqual([]);
    });
  }
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
