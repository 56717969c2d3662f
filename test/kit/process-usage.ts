import { readFile } from "node:fs/promises";

/** Resources that a process uses, as reported by `/proc`. */
export interface ProcessUsage {
  readonly rssMB: number;
  /** Peak so far. */
  readonly peakRssMB: number;
  /** User and system time; Linux counts in hundredths of a second. */
  readonly cpuSeconds: number;
}

const ticksPerSecond = 100;

export async function usageOf(pid: number): Promise<ProcessUsage> {
  const [status, stat] = await Promise.all([
    readFile(`/proc/${pid}/status`, "utf8"),
    readFile(`/proc/${pid}/stat`, "utf8"),
  ]);
  const megabytes = (field: string): number =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(status)?.[1] ?? 0) / 1024;
  const [user = 0, system = 0] = stat.slice(stat.lastIndexOf(")")).split(" ").slice(12, 14).map(Number);
  return { rssMB: megabytes("VmRSS"), peakRssMB: megabytes("VmHWM"), cpuSeconds: (user + system) / ticksPerSecond };
}
