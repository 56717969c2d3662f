import { expect, test } from "bun:test";

import { settingsOf } from "../../../../plugins/azure-cloud/arm/settings.ts";

test("the settings of a resource lack the regional tier, which ARM adds, and keep another tier and the same word elsewhere", () => {
  const ofTier = (tier: string) =>
    settingsOf({ name: "pip", sku: { name: "Standard", tier } }, "microsoft.network/publicipaddresses")["sku"];
  expect(ofTier("Regional")).toEqual({ name: "Standard" });
  expect(ofTier("Global")).toEqual({ name: "Standard", tier: "Global" });
  const tags = { scope: "Regional" };
  expect(settingsOf({ tags }, "microsoft.network/publicipaddresses")["tags"]).toEqual(tags);
});
