import { afterEach, expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { hostMain, hostMainVariable } from "./host-main.ts";
import { HostProcess } from "./host-process.ts";

const before = process.env[hostMainVariable];
afterEach(() => {
  if (before === undefined) delete process.env[hostMainVariable];
  else process.env[hostMainVariable] = before;
});

test("hosts of tests run from the sources of this checkout, unless a run of all tests names a program", async () => {
  delete process.env[hostMainVariable];
  expect(hostMain()).toBe(join(import.meta.dir, "../../host/main.ts"));
  const folder = await mkdtemp(join(tmpdir(), "host-main-"));
  try {
    const main = join(folder, "main.ts");
    await writeFile(main, "console.log(import.meta.path);");
    process.env[hostMainVariable] = main;
    await using host = new HostProcess({ flags: [], port: 0 });
    expect(await host.ended()).toBe(0);
    expect(host.stdout).toBe(`${main}\n`);
  } finally {
    await rm(folder, { recursive: true });
  }
});
