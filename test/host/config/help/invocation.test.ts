import { expect, test } from "bun:test";
import { chmod, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { bunCommand, programCommand } from "../../../../host/config/help/invocation.ts";

async function pathWithBun(root: string, ...folders: readonly string[]): Promise<string> {
  const paths = folders.map((folder) => join(root, folder));
  for (const path of paths) {
    await mkdir(path, { recursive: true });
    await Bun.write(join(path, "bun"), "#!/bin/sh\n");
    await chmod(join(path, "bun"), 0o755);
  }
  return paths.join(":");
}

test("prints bun as the user calls it: by name where it is on the PATH, through npx where npx provides it", async () => {
  const root = await mkdtemp(join(tmpdir(), "invocation-"));
  try {
    const npx = `npx -y bun@${Bun.version}`;
    expect(bunCommand({ PATH: await pathWithBun(root, "bin") })).toBe("bun");
    expect(bunCommand({ PATH: await pathWithBun(root, ".npm/_npx/8666/node_modules/.bin", "bin") })).toBe(npx);
    expect(bunCommand({ PATH: join(root, "empty") })).toBe(npx);
  } finally {
    await rm(root, { recursive: true, force: true });
  }
});

test("prints this program by its file in a clone, and by its name where it is installed", () => {
  const nowhere = { PATH: "/nowhere" };
  expect(programCommand(nowhere, "/clone", "/clone/host/main.ts")).toEndWith(" host/main.ts");
  expect(programCommand(nowhere, "/project", "/project/node_modules/cloud-controller-host/host/main.ts")).toEndWith(
    " x --no-install cloud-controller-host",
  );
});
