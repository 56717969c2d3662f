import { expect, spyOn, test } from "bun:test";

import { assetOf } from "../../../host/console/assets.ts";

test("a file of the page is read once, and again after a failure", async () => {
  const missing = Bun.file("/nonexistent");
  using file = spyOn(Bun, "file");
  file.mockReturnValueOnce(missing);
  expect(await assetOf("icon.svg").catch(String)).toContain("ENOENT");
  expect(await assetOf("icon.svg")).toMatchObject({ type: "image/svg+xml", text: expect.stringContaining("<svg") });
  await assetOf("icon.svg");
  expect(file).toHaveBeenCalledTimes(2);
  expect(await assetOf("toString")).toBeUndefined();
});
