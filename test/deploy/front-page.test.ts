import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Shell } from "./shell.ts";

setDefaultTimeout(240_000);

const root = join(import.meta.dir, "../..");
let folder = "";
let clone = "";

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "front-page-"));
  clone = join(folder, "clone");
  const git = Bun.spawn(["git", "clone", "--quiet", "--no-hardlinks", root, clone], { stderr: "pipe" });
  expect([await git.exited, await git.stderr.text()]).toEqual([0, ""]);
  // The page that is tested is the one of the working tree.
  await Bun.write(join(clone, "README.md"), Bun.file(join(root, "README.md")));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** The commands of the page in order, without the comments behind them. */
async function commandsOf(page: string): Promise<readonly string[]> {
  const text = await readFile(join(root, page), "utf8");
  return [...text.matchAll(/^```sh\n(.*?)^```$/gmsu)]
    .flatMap(([, block = ""]) => block.split("\n"))
    .map((line) => line.replace(/\s+#.*$/u, ""))
    .filter((line) => line !== "");
}

test("every command in README.md runs as printed in a fresh clone", async () => {
  const commands = await commandsOf("README.md");
  const [check = "", interactive = "", getNodes = "", addVM = "", standby = "", ...author] = commands;
  expect(author).toHaveLength(7);

  await using first = new Shell(clone);
  expect([await first.run(check), first.screen]).toEqual([0, expect.stringContaining("changed config swapped in")]);
  first.type(interactive);
  await first.shows("Changes:");

  await using second = new Shell(clone);
  if (Bun.which("kubectl") !== null) {
    expect(await second.run(getNodes)).toBe(0);
    expect(second.screen).toContain("vmss0000002");
  }
  expect(await second.run(addVM)).toBe(0);
  await first.shows("Node vmss0000003 initialized");

  second.type(standby);
  await second.shows("ttempting to acquire leader lease");
  second.type("\u0003");
  await second.shows("$ ");

  first.type("q");
  await mkdir(join(folder, "unused"), { recursive: true });
  for (const line of author)
    expect([line, await second.run(line), second.screen]).toEqual([line, 0, expect.anything()]);
  expect(second.screen).toMatch(/\b0 fail\b/u);
});
