import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { readNamedFile } from "../../../../host/config/parse/document.ts";
import { rejection } from "../../../kit/rejection.ts";

let file = "";
beforeAll(async () => {
  file = join(await mkdtemp(join(tmpdir(), "document-")), "azure.json");
});
afterAll(() => rm(join(file, ".."), { recursive: true }));

const text = 'aadClientSecret: "café"\n';

test("a file of a flag is read as UTF-8, with or without a byte order mark", async () => {
  for (const content of [text, `\uFEFF${text}`]) {
    await writeFile(file, content);
    expect(await readNamedFile("--cloud-config=f", file)).toBe(content);
  }
});

test.each([
  ["Latin-1", Buffer.from(text, "latin1")],
  ["UTF-16, as PowerShell writes it", Buffer.from(`\uFEFF${text}`, "utf16le")],
])("a file of a flag in %s is refused, and not read with other characters", async (_, bytes) => {
  await writeFile(file, bytes);
  const reason = "--cloud-config=f: this is not UTF-8; save it in that encoding";
  expect(await rejection(readNamedFile("--cloud-config=f", file))).toBe(reason);
});

test("a file of a flag that is too large is not called a pipe", async () => {
  await writeFile(file, "");
  await truncate(file, 16 * 1024 * 1024 + 1);
  const reason = "--cloud-config=f: this has more than 16777216 bytes";
  expect(await rejection(readNamedFile("--cloud-config=f", file))).toBe(reason);
});
