import { expect, test } from "bun:test";

import { flagsReference, referencePath } from "./flags-reference.ts";

test("the page of flags says what the table of flags says; mend it with: bun run reference", async () => {
  expect(await Bun.file(referencePath).text()).toBe(await flagsReference());
});
