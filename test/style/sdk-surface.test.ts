import { expect, test } from "bun:test";

import { projectFiles, read } from "./sources.ts";

/**
 * The names that an entry of the SDK gives, `type` before those that are erased. An entry lists each of them: a star
 * would let a name slip out unseen.
 */
async function surfaceOf(entry: string): Promise<readonly string[]> {
  const content = await read(entry);
  const lists = [...content.matchAll(/^export (type )?\{([^}]*)\}/gm)].flatMap(([, type = "", names = ""]) =>
    names
      .split(",")
      .map((name) => name.trim().replace(/^.* as /, (renamed) => (renamed.startsWith("type ") ? "type " : "")))
      .filter((name) => name !== "")
      .map((name) => (type === "" || name.startsWith("type ") ? name : `${type}${name}`)),
  );
  const declared = [...content.matchAll(/^export (?:async )?(const|function|class|interface|type) (\w+)/gm)].map(
    ([, form = "", name = ""]) => (form === "interface" || form === "type" ? `type ${name}` : name),
  );
  return [...lists, ...declared].toSorted();
}

/**
 * Plugins of others are built on these names. A change here is a change for their authors: review it, then accept it
 * with `bun test test/style/sdk-surface.test.ts --update-snapshots`.
 */
for (const entry of ["sdk/index.ts", "sdk/testing.ts"])
  test(`the public names of ${entry} are those that were reviewed`, async () => {
    expect(`\n${(await surfaceOf(entry)).join("\n")}\n`).toMatchSnapshot();
    expect(await read(entry)).not.toMatch(/^export \*/m);
  });

test("every public name of the SDK has a doc comment, which editors show", async () => {
  const names = new Set((await surfaceOf("sdk/index.ts")).map((name) => name.replace(/^type /u, "")));
  const undocumented: string[] = [];
  let declared = 0;
  for (const file of projectFiles.filter((name) => /^sdk\/[a-z-]+\.ts$/u.test(name))) {
    const lines = (await read(file)).split("\n");
    for (const [index, line] of lines.entries()) {
      const [, name = ""] = /^export (?:const|function|class|interface|type) (\w+)/u.exec(line) ?? [];
      if (!names.has(name)) continue;
      declared++;
      if (!(lines[index - 1] ?? "").trimEnd().endsWith("*/")) undocumented.push(`${file}: ${name}`);
    }
  }
  expect(undocumented).toEqual([]);
  expect(declared).toBeGreaterThan(200);
});
