/**
 * Probes a host as kubelet does, but ten times a second, until its input ends, then prints the outcome; a first line
 * reports that it has begun. A process of its own: the test's process also serves as the API server and as Azure, and
 * would delay the probes that it measures.
 */
import { readFile } from "node:fs/promises";
import { request } from "node:https";

import { percentile } from "../bench/report.ts";
import { usageOf } from "../kit/process-usage.ts";

export interface ProbeTarget {
  readonly port: number;
  /** Port of a standby that is not attacked: how busy the machine is. */
  readonly controlPort: number;
  /** The process whose memory is read. */
  readonly pid: number;
}

/** Times are in milliseconds. */
export interface ProbeReport {
  readonly probes: number;
  /** Probes without a reply of 200. */
  readonly failedProbes: readonly string[];
  readonly medianProbeMs: number;
  readonly slowestProbeMs: number;
  /** Of the control. */
  readonly medianControlMs: number;
  /**
   * The most that the host itself delayed a probe: without its wait for a CPU, and without the control's time at that
   * moment or this process's own wait for a CPU.
   */
  readonly worstDelayMs: number;
  readonly peakRssMB: number;
}

interface Probe {
  /** The status code, or the error. */
  readonly outcome: string;
  readonly tookMs: number;
}

/** One liveness probe over a connection of its own. */
async function livez(port: number): Promise<Probe> {
  const startedAt = performance.now();
  const outcome = await new Promise<string>((resolve) => {
    const probe = request({ host: "127.0.0.1", port, path: "/livez", agent: false, rejectUnauthorized: false });
    probe.setTimeout(30_000, () => probe.destroy(new Error("timeout")));
    probe.on("response", (response) => {
      response.resume();
      resolve(String(response.statusCode));
    });
    probe.on("error", (error) => resolve(error.message));
    probe.end();
  });
  return { outcome, tookMs: performance.now() - startedAt };
}

/** How long a process's main thread has been runnable without a CPU; 0 on a kernel that does not count it. */
async function waitedMs(pid: number | "self"): Promise<number> {
  const [, nanoseconds = "0"] = (await readFile(`/proc/${pid}/schedstat`, "utf8").catch(() => "")).split(" ");
  return Number(nanoseconds) / 1e6;
}

if (import.meta.main) {
  const target: ProbeTarget = JSON.parse(process.argv[2] ?? "{}");
  const over = new AbortController();
  process.stdin.on("end", () => over.abort()).resume();
  await Promise.all([livez(target.port), livez(target.controlPort)]);
  process.stdout.write("ready\n");
  const probes: Probe[] = [];
  const controls: Probe[] = [];
  let [peakRssMB, worstDelayMs] = [0, 0];
  do {
    const [hostBefore, ownBefore] = await Promise.all([waitedMs(target.pid), waitedMs("self")]);
    const [probe, control] = await Promise.all([livez(target.port), livez(target.controlPort)]);
    const [hostAfter, ownAfter] = await Promise.all([waitedMs(target.pid), waitedMs("self")]);
    probes.push(probe);
    controls.push(control);
    const elsewhereMs = hostAfter - hostBefore + Math.max(control.tookMs, ownAfter - ownBefore);
    worstDelayMs = Math.max(worstDelayMs, probe.tookMs - elsewhereMs);
    peakRssMB = Math.max(peakRssMB, (await usageOf(target.pid)).rssMB);
    await Bun.sleep(100);
  } while (!over.signal.aborted);
  const times = probes.map(({ tookMs }) => tookMs);
  const controlTimes = controls.map(({ tookMs }) => tookMs);
  const report: ProbeReport = {
    probes: probes.length,
    failedProbes: probes
      .filter(({ outcome }) => outcome !== "200")
      .map(({ outcome, tookMs }) => `${outcome} after ${Math.round(tookMs)} ms`),
    medianProbeMs: Math.round(percentile(times, 0.5)),
    slowestProbeMs: Math.round(Math.max(...times)),
    medianControlMs: Math.round(percentile(controlTimes, 0.5)),
    worstDelayMs: Math.round(worstDelayMs),
    peakRssMB: Math.round(peakRssMB),
  };
  process.stdout.write(JSON.stringify(report), () => process.exit(0));
}
