import { expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A plugin far from the project, with no `node_modules`, gets the SDK instance of the process that loads it. */
test("a module registered with Bun.plugin is found by name from a folder outside the tree, also after a reload", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sdk-by-name-"));
  try {
    await writeFile(join(folder, "plugin.ts"), `export { ApiError, kinds } from "cloud-controller-host/sdk";`);
    const host = `
      import { plugin } from "bun";
      import * as sdk from ${JSON.stringify(join(import.meta.dir, "../../sdk/index.ts"))};
      plugin({
        name: "sdk",
        setup: (build) => {
          build.module("cloud-controller-host/sdk", () => ({ exports: { ...sdk }, loader: "object" }));
        },
      });
      const path = ${JSON.stringify(join(folder, "plugin.ts"))};
      const same = async () => { const { ApiError, kinds } = await import(path); return [ApiError === sdk.ApiError, kinds === sdk.kinds]; };
      const first = await same();
      for (const known of Object.keys(require.cache)) if (known.endsWith("/plugin.ts")) delete require.cache[known];
      console.log(JSON.stringify([first, await same()]));
    `;
    const child = Bun.spawn([process.execPath, "-e", host], { cwd: folder, stderr: "inherit" });
    expect(JSON.parse(await child.stdout.text())).toEqual([
      [true, true],
      [true, true],
    ]);
  } finally {
    await rm(folder, { recursive: true });
  }
});
