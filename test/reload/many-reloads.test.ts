import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { HostStatus } from "../../host/run/status.ts";
import type { Holdings } from "./many-reloads.ts";

setDefaultTimeout(400_000);

test("40 reloads leak no memory, timers, sockets or listeners", async () => {
  const folder = await mkdtemp(join(tmpdir(), "many-reloads-"));
  try {
    const script = Bun.spawn([process.execPath, join(import.meta.dir, "many-reloads.ts"), folder, "40"], {
      stdout: "pipe",
      stderr: "inherit",
    });
    const printed = await script.stdout.text();
    expect(await script.exited).toBe(0);
    const reported: { before: Holdings; after: Holdings; status: HostStatus } = JSON.parse(printed);
    const { before, after, status } = reported;
    const both = JSON.stringify({ before, after });
    expect(status).toMatchObject({ reloads: 60, running: true, leading: true });
    // A watch that happens to reconnect holds a few of each for a moment; 40 leaks would be 40.
    for (const held of ["timers", "files", "signals", "modules"] as const)
      expect(after[held], `${held}: ${both}`).toBeLessThan(before[held] + 20);
    expect(after.heap, both).toBeLessThan(before.heap + 12);
    expect(after.rss, both).toBeLessThan(before.rss + 60);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
