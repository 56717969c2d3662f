import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { eventually } from "cloud-controller-host/sdk/testing";

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

/** A shell in a terminal, into which commands are typed; its working directory follows `cd`. */
class Shell implements AsyncDisposable {
  readonly process: Bun.Subprocess;
  screen = "";

  constructor(cwd: string) {
    this.process = Bun.spawn(["bash", "--norc", "-i"], {
      cwd,
      env: { ...process.env, PS1: "$ ", TERM: "dumb" },
      terminal: {
        cols: 250,
        rows: 50,
        data: (_terminal, bytes) => void (this.screen += Buffer.from(bytes).toString()),
      },
    });
  }

  type(line: string): void {
    this.screen = "";
    this.process.terminal?.write(`${line}\n`);
  }

  async shows(text: string, limitMs = 120_000): Promise<void> {
    await eventually(text, () => this.screen.includes(text), limitMs).catch((error: unknown) => {
      throw new Error(this.screen, { cause: error });
    });
  }

  /** Types a command and returns its exit status. */
  async run(line: string): Promise<number> {
    this.type(`${line}; echo "status=$?."`);
    const [, status = ""] = await eventually(line, () => /status=(\d+)\./u.exec(this.screen) ?? undefined, 180_000);
    return Number(status);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.process.terminal?.write("\u0003");
    this.process.kill("SIGHUP");
    const timer = setTimeout(() => this.process.kill("SIGKILL"), 5000);
    await this.process.exited;
    clearTimeout(timer);
  }
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
