/** The watchdog's thread. It ends when it is terminated. */
import { write } from "node:fs";
import { workerData } from "node:worker_threads";

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

const message = "Event loop blocked for longer than the renew deadline; ending the process";
const standardError = 2;
const standardOutput = 1;

/** A thread that was itself not run for this many periods was suspended with the process, and starts to count again. */
const suspendedPeriods = 3;

/** Limits that the loop of a process that does not lead may be blocked for. */
const standbyLimits = 6;

/** For a reader of the report: a full pipe that nothing reads keeps no blocked process alive. */
const reportMs = 500;

async function watch({ beats, limitMs, periodMs, format, owner, pid }: WatchdogData): Promise<void> {
  const never = new Int32Array(new SharedArrayBuffer(4));
  let seen = Atomics.load(beats, 0);
  let lookedAt = performance.now();
  let blockedMs = 0;
  for (;;) {
    Atomics.wait(never, 0, 0, periodMs);
    const now = performance.now();
    const passedMs = now - lookedAt;
    lookedAt = now;
    const beat = Atomics.load(beats, 0);
    if (beat === -1) return;
    blockedMs = beat !== seen || passedMs > suspendedPeriods * periodMs ? 0 : blockedMs + passedMs;
    seen = beat;
    if (blockedMs <= limitMs * (Atomics.load(beats, 1) === 1 ? 1 : standbyLimits)) continue;
    await report(format, pid, Math.round(blockedMs), readOwner(owner));
    // Not process.exit, which ends only this thread; and no handler of the blocked thread could run.
    process.kill(pid, "SIGKILL");
  }
}

function report(
  format: WatchdogData["format"],
  pid: number,
  blockedMs: number,
  owner: ReturnType<typeof readOwner>,
): Promise<void> {
  const controller = owner.current || owner.last || "none";
  if (format === "json") {
    const line = {
      level: "error",
      ts: Date.now(),
      logger: "watchdog",
      controller,
      running: owner.current !== "",
      blockedMs,
      msg: message,
    };
    return writeLine(standardOutput, JSON.stringify(line));
  }
  const fields = [
    ["controller", controller],
    ["running", owner.current !== ""],
    ["blockedMs", blockedMs],
  ] as const;
  return writeLine(standardError, `${klogHead("error", Date.now(), pid, "watchdog", message)}${klogFields(fields)}`);
}

/** Never rejects. */
const writeLine = (output: number, line: string): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, reportMs);
    write(output, `${line}\n`, () => resolve());
  });

const data: WatchdogData = workerData;
await watch(data);
