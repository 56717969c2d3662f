/**
 * Preloaded into each process that runs test files. As each file ends, adds to the file that an environment variable
 * names how much processor time the process and the children that it has waited for have used so far.
 */
import { afterAll } from "bun:test";
import { appendFile, readFile } from "node:fs/promises";
import { relative } from "node:path";

const log = process.env["TEST_PROCESSOR_TIME"];
const file = relative(process.cwd(), Bun.main);

if (log !== undefined)
  afterAll(async () => {
    // Source: proc_pid_stat(5), utime to cstime. Other systems than Linux have none, and no row.
    const stat = await readFile("/proc/self/stat", "utf8").catch(() => undefined);
    const ticks = stat?.slice(stat.lastIndexOf(")")).split(" ").slice(12, 16).map(Number);
    if (ticks !== undefined) await appendFile(log, `${process.pid} ${ticks.reduce((sum, one) => sum + one)} ${file}\n`);
  });
