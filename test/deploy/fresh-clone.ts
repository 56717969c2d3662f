import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";

export const root = join(import.meta.dir, "../..");

/** Clones the working tree, with what is not committed yet, to `clone` in a new folder. Nothing is installed there. */
export async function cloneInto(home: string): Promise<string> {
  const clone = join(home, "clone");
  await Bun.$`git clone --quiet --no-hardlinks ${root} ${clone}`.quiet();
  const changed = await Bun.$`git ls-files --modified --others --exclude-standard`.cwd(root).text();
  for (const name of changed.split("\n").filter((line) => line !== "")) {
    const file = Bun.file(join(root, name));
    await ((await file.exists()) ? Bun.write(join(clone, name), file) : rm(join(clone, name), { force: true }));
  }
  return clone;
}

/** The commands of the page in order, without the comments behind them. */
export async function commandsOf(page: string): Promise<readonly string[]> {
  const text = await readFile(join(root, page), "utf8");
  return [...text.matchAll(/^```sh\n(.*?)^```$/gmsu)]
    .flatMap(([, block = ""]) => block.split("\n"))
    .map((line) => line.replace(/\s+#.*$/u, ""))
    .filter((line) => line !== "");
}
