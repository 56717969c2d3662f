/** The watchdog's thread. It ends when it is terminated. */
import { write } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";

import { readOwner } from "../../async/loop-owner.ts";
import { klogFields, klogHead } from "../log/klog-format.ts";

export interface WatchdogData {
  /** Counted up by the main thread, -1 once it is disposed of; and 1 while the process leads, else 0. */
  readonly beats: Int32Array;
  readonly limitMs: number;
  readonly periodMs: number;
  readonly format: "text" | "json";
  readonly owner: SharedArrayBuffer;
  readonly pid: number;
}

/** To the main thread, when its loop runs again. */
export interface BlockedLoop {
  readonly controller: string;
  readonly running: boolean;
  readonly blockedMs: number;
}

const message = "Event loop blocked for longer than the renew deadline; ending the process";
const standardError = 2;
const standardOutput = 1;

/** A thread that was itself not run for this many periods was suspended with the process, and starts to count again. */
const suspendedPeriods = 3;

/** A loop that was blocked for as many periods is reported when it runs again: leases, probes and watches waited. */
const notablePeriods = 3;

/** Limits that the loop of a process that does not lead may be blocked for. */
const standbyLimits = 6;

/** For a reader of the report: a full pipe that nothing reads keeps no blocked process alive. */
const reportMs = 500;

async function watch({ beats, limitMs, periodMs, format, owner, pid }: WatchdogData): Promise<void> {
  const never = new Int32Array(new SharedArrayBuffer(4));
  let seen = Atomics.load(beats, 0);
  let lookedAt = performance.now();
  let blockedMs = 0;
  let controller: BlockedController = { controller: "none", running: false };
  for (;;) {
    Atomics.wait(never, 0, 0, periodMs);
    const now = performance.now();
    const passedMs = now - lookedAt;
    lookedAt = now;
    const beat = Atomics.load(beats, 0);
    if (beat === -1) return;
    if (beat !== seen && blockedMs > notablePeriods * periodMs)
      parentPort?.postMessage({ ...controller, blockedMs: Math.round(blockedMs) } satisfies BlockedLoop, []);
    blockedMs = beat !== seen || passedMs > suspendedPeriods * periodMs ? 0 : blockedMs + passedMs;
    seen = beat;
    if (blockedMs > 0) controller = controllerOf(readOwner(owner));
    if (blockedMs <= limitMs * (Atomics.load(beats, 1) === 1 ? 1 : standbyLimits)) continue;
    await report(format, pid, { ...controller, blockedMs: Math.round(blockedMs) });
    // Not process.exit, which ends only this thread; and no handler of the blocked thread could run.
    process.kill(pid, "SIGKILL");
  }
}

type BlockedController = Pick<BlockedLoop, "controller" | "running">;

const controllerOf = ({ current, last }: ReturnType<typeof readOwner>): BlockedController => ({
  controller: current || last || "none",
  running: current !== "",
});

function report(format: WatchdogData["format"], pid: number, blocked: BlockedLoop): Promise<void> {
  if (format === "json") {
    const line = { level: "error", ts: Date.now(), logger: "watchdog", ...blocked, msg: message };
    return writeLine(standardOutput, JSON.stringify(line));
  }
  const fields = klogFields(Object.entries(blocked));
  return writeLine(standardError, `${klogHead("error", Date.now(), pid, "watchdog", message)}${fields}`);
}

/** Never rejects. */
const writeLine = (output: number, line: string): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, reportMs);
    write(output, `${line}\n`, () => resolve());
  });

const data: WatchdogData = workerData;
await watch(data);
