import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { cloneInto, commandsOf } from "./fresh-clone.ts";
import { Shell } from "./shell.ts";

setDefaultTimeout(240_000);

let folder = "";

beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), "front-page-"))));
afterAll(() => rm(folder, { recursive: true, force: true }));

const holdsBun = (directory: string): boolean => Bun.which("bun", { PATH: directory }) !== null;

test("every command in README.md runs as printed in a fresh clone", async () => {
  const commands = await commandsOf("README.md");
  const [check = "", interactive = "", getNodes = "", createService = "", addVM = "", ...others] = commands;
  const [showService = "", failWrites = "", standby = "", ...author] = others;
  expect(author).toHaveLength(7);
  const clone = await cloneInto(join(folder, "user"));

  await using first = new Shell(clone);
  expect([await first.run(check), first.screen]).toEqual([0, expect.stringContaining("changed config swapped in")]);
  first.type(interactive);
  await first.shows("Changes:");

  await using second = new Shell(clone);
  const hasService = Bun.which("kubectl") !== null;
  if (hasService) {
    expect(await second.run(getNodes)).toBe(0);
    expect(second.screen).toContain("vmss0000002");
    expect(await second.run(createService)).toBe(0);
  }
  expect(await second.run(addVM)).toBe(0);
  await first.shows("Node vmss0000003 initialized");
  expect(await second.run(showService)).toBe(hasService ? 0 : 1);
  expect(second.screen).toContain(hasService ? "Allow Tcp from Internet" : "default/web");
  expect(await second.run(failWrites)).toBe(0);

  second.type(standby);
  await second.shows("ttempting to acquire leader lease");
  second.type("\u0003");
  await second.shows("$ ");

  first.type("q");
  first.type("\u0003");
});

test("the block that makes a plugin project runs in a clone where no other command has run", async () => {
  const author = (await commandsOf("README.md")).slice(-7);
  const home = join(folder, "author");
  await using shell = new Shell(await cloneInto(home));
  for (const line of author) expect([line, await shell.run(line), shell.screen]).toEqual([line, 0, expect.anything()]);
  expect(shell.screen).toMatch(/\b0 fail\b/u);
});

test("the steps that `new` prints after npx run as printed, where npx is the only way to Bun", async () => {
  const PATH = (process.env["PATH"] ?? "")
    .split(":")
    .filter((entry) => !holdsBun(entry))
    .join(":");
  expect(Bun.which("npx", { PATH })).not.toBeNull();
  await using shell = new Shell(join(folder, "author", "my-plugins"), { PATH });
  const create = "npx -y bun@1.4.5 x --no-install cloud-controller-host new controller second-controller";
  expect([await shell.run(create), shell.screen]).toEqual([0, expect.stringContaining("Next steps:")]);
  const steps = [...shell.screen.matchAll(/^ {2}(\S[^\r\n]*)/gmu)].map(([, step = ""]) => step);
  const sandbox = steps.pop() ?? "";
  for (const step of steps) expect([step, await shell.run(step), shell.screen]).toEqual([step, 0, expect.anything()]);
  shell.type(sandbox);
  await shell.shows("Changes:");
  shell.type("q");
  await shell.shows("$ ");
});
