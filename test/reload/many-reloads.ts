/**
 * Reloads a host many times, in a process of its own, and prints what the process holds before and after as one line
 * of JSON. Usage: `bun many-reloads.ts <folder> <reloads>`.
 */
import { heapStats } from "bun:jsc";
import { readdirSync } from "node:fs";
import { appendFile } from "node:fs/promises";

import { eventually } from "cloud-controller-host/sdk/testing";

import { openSandbox } from "../../host/sandbox-host.ts";

/** What a process may leak. Memory in MiB; the rest are counts. */
export interface Holdings {
  readonly rss: number;
  readonly heap: number;
  readonly timers: number;
  readonly files: number;
  readonly signals: number;
  readonly modules: number;
}

/** Measures after a few garbage collections. Watches reconnect at their own pace; everything else must be idle. */
async function holdings(): Promise<Holdings> {
  for (let round = 0; round < 4; round++) {
    Bun.gc(true);
    await Bun.sleep(50);
  }
  const { objectTypeCounts, heapSize } = heapStats();
  const mebi = 1024 * 1024;
  return {
    rss: Math.round(process.memoryUsage.rss() / mebi),
    heap: Math.round(heapSize / mebi),
    timers: objectTypeCounts["Timeout"] ?? 0,
    files: readdirSync("/proc/self/fd").length,
    signals: objectTypeCounts["AbortSignal"] ?? 0,
    modules: Object.keys(require.cache).length,
  };
}

const [folder = ".sandbox", count = "80"] = process.argv.slice(2);
await using sandbox = await openSandbox({
  directory: folder,
  nodes: 20,
  flags: ["--kube-api-qps=-1"],
  environment: {},
});
const { host } = sandbox;

async function reload(times: number): Promise<void> {
  for (let index = 0; index < times; index++) {
    const { generation } = host.status;
    await appendFile(sandbox.files.cloudConfig, `# ${generation}\n`);
    await eventually(
      "the next generation runs",
      () => host.status.generation > generation && host.status.running,
      30_000,
    );
  }
}

await eventually("the host runs", () => host.status.running, 30_000);
// The first reloads warm caches and compile code; nothing may grow after them.
await reload(20);
const before = await holdings();
await reload(Number(count));
const after = await holdings();
process.stdout.write(`${JSON.stringify({ before, after, status: host.status })}\n`);
