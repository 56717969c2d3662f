import { expect, test } from "bun:test";
import { join } from "node:path";

import { pages, root } from "./pages.ts";

for (const [path, make] of Object.entries(pages))
  test(`${path} is what its table says; to fix: bun run reference`, async () => {
    expect(await Bun.file(join(root, path)).text()).toBe(await make());
  }, 120_000);
