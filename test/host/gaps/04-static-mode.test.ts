import { expect, setDefaultTimeout, test } from "bun:test";
import { readdir, readlink, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

/** What a process holds open; the kernel's file watches among it. */
async function openFiles(pid: number): Promise<readonly string[]> {
  const folder = `/proc/${pid}/fd`;
  const targets = await Promise.all((await readdir(folder)).map((fd) => readlink(join(folder, fd)).catch(() => "")));
  return targets.filter((target) => target !== "");
}

test("watches neither file nor Secret without --enable-dynamic-reloading", async () => {
  await using lab = await SandboxLab.open();
  const host = lab.start();
  const before = await host.until("it runs", ({ running }) => running);
  if (process.platform === "linux")
    expect((await openFiles(host.pid)).filter((file) => file.includes("inotify"))).toEqual([]);
  expect(lab.api.requests.count({ resource: "secrets" })).toBe(0);

  await writeFile(lab.azure.config, "[this is not a config");
  await rm(lab.azure.config);
  await Bun.sleep(1500);
  expect(await host.status()).toEqual(before);
  expect(host.lines("Reload")).toEqual([]);
  expect(await host.stop()).toBe(0);
});
