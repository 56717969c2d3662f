import { afterAll, expect, test } from "bun:test";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { findAssets } from "./assets.ts";
import { withLock } from "./lock.ts";

const folder = await mkdtemp(join(tmpdir(), "assets-test-"));
afterAll(() => rm(folder, { recursive: true }));

test("uses the binaries in KUBEBUILDER_ASSETS, and names a missing one", async () => {
  for (const program of ["etcd", "kube-apiserver"]) {
    await writeFile(join(folder, program), "");
    await chmod(join(folder, program), 0o755);
  }
  const environment = { KUBEBUILDER_ASSETS: folder };
  const refused = findAssets(environment);
  await expect(refused).rejects.toThrow(`KUBEBUILDER_ASSETS=${folder}: no executable ${join(folder, "kubectl")}`);
  await writeFile(join(folder, "kubectl"), "");
  await chmod(join(folder, "kubectl"), 0o755);
  expect(await findAssets(environment)).toEqual({ found: true, directory: folder });
});

test("reports what is missing without Go and without binaries", async () => {
  const assets = await findAssets({ PATH: folder });
  expect(assets).toMatchObject({ found: false, reason: expect.stringContaining("Go is not installed") });
});

test("admits one process at a time, and takes over the lock of a dead one", async () => {
  const path = join(folder, "lock");
  const gone = Bun.spawn(["true"]);
  await gone.exited;
  await writeFile(path, String(gone.pid));
  let inside = 0;
  const work = async (): Promise<void> => {
    expect(++inside).toBe(1);
    await Bun.sleep(10);
    inside--;
  };
  await Promise.all([withLock(path, work), withLock(path, work)]);
});
