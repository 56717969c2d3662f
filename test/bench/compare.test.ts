import { expect, test } from "bun:test";

import { compareBench } from "./compare.ts";

test("a comparison refuses a binary that cannot be run before it starts a control plane", async () => {
  const run = compareBench.run({ ...compareBench.options, go: "/missing/ccm" });
  await expect(run).rejects.toThrow("--go=/missing/ccm: not an executable file");
});
