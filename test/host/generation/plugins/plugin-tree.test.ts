import { expect, test } from "bun:test";
import { mkdir, mkdtempDisposable, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { listTree } from "../../../../host/generation/plugins/plugin-tree.ts";

test("a folder that links to itself or to a folder above is listed once", async () => {
  await using root = await mkdtempDisposable(join(tmpdir(), "plugin-tree-"));
  await mkdir(join(root.path, "deep"));
  await writeFile(join(root.path, "plugin.ts"), "");
  await writeFile(join(root.path, "deep", "part.ts"), "");
  await symlink(root.path, join(root.path, "deep", "above"));
  await symlink(join(root.path, "deep"), join(root.path, "deep", "self"));
  await symlink(join(root.path, "deep"), join(root.path, "beside"));
  expect((await listTree(root.path)).files).toEqual(["beside/part.ts", "deep/part.ts", "plugin.ts"]);
});
