import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { checkImports } from "../../../../host/generation/plugins/outside-imports.ts";
import { rejection } from "../../../kit/rejection.ts";

let base = "";
beforeAll(async () => {
  base = await realpath(await mkdtemp(join(tmpdir(), "outside-imports-")));
});
afterAll(() => rm(base, { recursive: true }));

/** The copy of files by the paths that they have outside of it. */
async function copy(files: Readonly<Record<string, string>>): Promise<ReadonlyMap<string, Buffer>> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(base + path), { recursive: true });
    await writeFile(base + path, text);
  }
  return new Map(Object.entries(files).map(([path, text]) => [path, Buffer.from(text)]));
}

test("an import that leads outside of the copy is refused where a file of the plugin leads to it", async () => {
  const files = await copy({
    "/plugin/plugin.ts": 'import "../dependency/index.ts";',
    "/dependency/index.ts": 'import "/etc/passwd";',
  });
  expect(await rejection(checkImports(base, "/plugin", files))).toBe(
    "Cannot import /etc/passwd from /dependency/index.ts: --plugin-lock does not cover it",
  );
  expect(await checkImports(base, "/other", files)).toBeUndefined();
});

test("what is checked is what was read for the hash, not what the copy has on the disk", async () => {
  const files = await copy({ "/plugin/plugin.ts": 'import "./missing.ts"; import "node:fs";' });
  await writeFile(`${base}/plugin/plugin.ts`, 'import "/etc/passwd";');
  expect(await checkImports(base, "/plugin", files)).toBeUndefined();
});

test("the check of a large plugin leaves turns of the event loop to others", async () => {
  const count = 400;
  const imports = (index: number): string =>
    Array.from({ length: 10 }, (_, step) => `import "./f${(index + step) % count}.ts";`).join("\n");
  const names = Array.from({ length: count }, (_, index) => [`/large/f${index}.ts`, imports(index)]);
  const files = await copy(Object.fromEntries(names));
  let turns = 0;
  const timer = setInterval(() => void (turns += 1), 0);
  await checkImports(base, "/large", files);
  clearInterval(timer);
  expect(turns).toBeGreaterThan(1);
});
