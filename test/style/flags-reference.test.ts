import { expect, test } from "bun:test";

import { flagsReference, referencePath } from "./flags-reference.ts";

test("the page of flags matches the table of flags; to fix: bun run reference", async () => {
  expect(await Bun.file(referencePath).text()).toBe(await flagsReference());
});
