import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { claimDirectory, temporaryDirectory } from "../../../host/sandbox/directory.ts";

let root = "";
beforeAll(async () => void (root = await mkdtemp(join(tmpdir(), "sandbox-directory-"))));
afterAll(() => rm(root, { recursive: true, force: true }));

test("rejects a folder with content that a sandbox did not create, and removes nothing", async () => {
  const folder = join(root, "thesis");
  await mkdir(join(folder, "sub"), { recursive: true });
  await writeFile(join(folder, "thesis.txt"), "precious");
  await expect(claimDirectory(folder)).rejects.toThrow("the folder is not empty and was not created by the sandbox");
  expect((await readdir(folder)).toSorted()).toEqual(["sub", "thesis.txt"]);
  expect(await readFile(join(folder, "thesis.txt"), "utf8")).toBe("precious");
});

test("other users of the machine cannot read the folder of a sandbox", async () => {
  const folder = join(root, "private");
  await using _ = await claimDirectory(folder);
  await using temporary = await temporaryDirectory();
  for (const path of [folder, temporary.path]) expect((await stat(path)).mode & 0o077).toBe(0);
});

test("accepts a new folder, an empty one and its own again, and keeps files that the user added", async () => {
  const folder = join(root, "new", "deep");
  await (await claimDirectory(folder))[Symbol.asyncDispose]();
  await writeFile(join(folder, "notes.txt"), "mine");
  await (await claimDirectory(folder))[Symbol.asyncDispose]();
  expect(await readFile(join(folder, "notes.txt"), "utf8")).toBe("mine");
  await mkdir(join(root, "empty"));
  await using _ = await claimDirectory(join(root, "empty"));
});

test("rejects a folder while another sandbox runs in it, and names the process", async () => {
  const folder = join(root, "shared");
  await using first = await claimDirectory(folder);
  await expect(claimDirectory(folder)).rejects.toThrow(`a sandbox runs here (process ${process.pid})`);
  await first[Symbol.asyncDispose]();
  await using _ = await claimDirectory(folder);
});

test("only one of several sandboxes that start concurrently gets the folder", async () => {
  const folder = join(root, "race");
  const claims = await Promise.allSettled(Array.from({ length: 8 }, () => claimDirectory(folder)));
  expect(claims.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
});

test("takes over the folder of a killed process", async () => {
  const folder = join(root, "stale");
  await (await claimDirectory(folder))[Symbol.asyncDispose]();
  const child = Bun.spawn(["true"]);
  await child.exited;
  await writeFile(join(folder, "sandbox.pid"), `${child.pid}\n`);
  await using _ = await claimDirectory(folder);
  expect(await readFile(join(folder, "sandbox.pid"), "utf8")).toBe(`${process.pid}\n`);
});

test("removes a temporary folder on exit", async () => {
  const { path } = await (async () => {
    await using folder = await temporaryDirectory();
    await writeFile(join(folder.path, "file"), "");
    return folder;
  })();
  await expect(readdir(path)).rejects.toThrow("ENOENT");
});
