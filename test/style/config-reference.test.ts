import { expect, test } from "bun:test";

import { configReference, configReferencePath } from "./config-reference.ts";

/** Table cells without the padding that the formatter adds. */
const unpadded = (page: string): string => page.replaceAll(/ +\|/gu, " |").replaceAll(/-{3,}/gu, "---");

test("CONFIG.md lists the keys of the Azure cloud config; update it with: bun run reference", async () => {
  expect(unpadded(await Bun.file(configReferencePath).text())).toBe(unpadded(configReference()));
});
