import { expect, test } from "bun:test";

import { bundlePage } from "../../../host/console/bundle.ts";

test("the bundle of the page is minified, and made for production", async () => {
  const script = await bundlePage();
  expect(script.trim().split("\n").length).toBeLessThan(10);
  // The last two arguments of each element that is made for development: its source and itself.
  expect(script).not.toMatch(/void 0,this\)/u);
});
