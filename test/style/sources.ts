import { existsSync } from "node:fs";
import { join } from "node:path";

export const root = join(import.meta.dir, "..", "..");

/** Every file of the project, as git sees it: what is ignored is not there. Paths are relative to the top level. */
export const projectFiles: readonly string[] = await (async () => {
  const list = Bun.spawn(["git", "ls-files", "--cached", "--others", "--exclude-standard"], { cwd: root });
  const names = (await list.stdout.text()).split("\n").filter((name) => name !== "");
  if ((await list.exited) !== 0) throw new Error("the style tests need git to tell what belongs to the project");
  return names.filter((name) => existsSync(join(root, name))).toSorted();
})();

export const read = (name: string): Promise<string> => Bun.file(join(root, name)).text();

export const isTypeScript = (name: string): boolean => /\.tsx?$/.test(name);

/** The rooms that ship: everything but the tests. */
const isShipped = (name: string): boolean => /^(sdk|host|plugins)\//.test(name);

export const shippedSources = projectFiles.filter((name) => isShipped(name) && isTypeScript(name));

interface Finding {
  readonly line: number;
  readonly text: string;
}

/** The lines that match, numbered from 1. */
function findLines(content: string, pattern: RegExp): readonly Finding[] {
  return content.split("\n").flatMap((text, index) => (pattern.test(text) ? [{ line: index + 1, text }] : []));
}

/** `file:line: text` for each line that matches in any of the files. */
export async function findInFiles(names: readonly string[], pattern: RegExp): Promise<readonly string[]> {
  const found = await Promise.all(
    names.map(async (name) =>
      findLines(await read(name), pattern).map(({ line, text }) => `${name}:${line}: ${text.trim()}`),
    ),
  );
  return found.flat();
}
