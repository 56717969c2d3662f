import { Worker } from "node:worker_threads";

import type { Logger } from "cloud-controller-host/sdk";

import type { LoopOwner } from "../../async/loop-owner.ts";
import type { BlockedLoop, WatchdogData } from "./worker.ts";

export interface WatchdogOptions {
  /** Longest time for which the event loop may be blocked. The renew deadline: after it another replica may lead. */
  readonly limitMs: number;
  readonly format: "text" | "json";
  readonly owner: LoopOwner;
  readonly log: Logger;
  /** True if this process may write now. While it may not, the limit is six times as long. */
  readonly leads: () => boolean;
}

export interface Watchdog extends Disposable {
  /** Takes note at once that the process leads: the next code to run may block. */
  beat(): void;
}

/** A plugin that blocks again and again gets one line per minute. */
const reportIntervalMs = 60_000;

/** Heartbeats and looks per limit; the process ends at most one tenth of the limit late. */
const beatsPerLimit = 10;

/**
 * Ends the process when its event loop is blocked for longer than the limit. A process in that state cannot renew its
 * lease, answer a probe or handle SIGTERM. Its fence would refuse writes as soon as it wakes up; until then nothing on
 * the blocked thread can log which controller blocks it, so a worker thread looks. Being suspended
 * as a whole (SIGSTOP, a paused VM) is not being blocked: there the local clock has closed the fence by the time the
 * process continues. Nor does a start on a saturated machine end the process, where importing a cloud's packages blocks
 * the loop for longer than the limit. A shorter block is logged when it has ended.
 */
export function startWatchdog({ limitMs, format, owner, log, leads }: WatchdogOptions): Watchdog {
  const beats = new Int32Array(new SharedArrayBuffer(8));
  const periodMs = Math.max(1, Math.floor(limitMs / beatsPerLimit));
  const workerData: WatchdogData = { beats, limitMs, periodMs, format, owner: owner.memory, pid: process.pid };
  const worker = new Worker(new URL("./worker.ts", import.meta.url), { workerData, name: "watchdog" });
  let reportedAt = -Infinity;
  worker.on("message", (blocked: BlockedLoop) => {
    if (performance.now() - reportedAt < reportIntervalMs) return;
    reportedAt = performance.now();
    log.warn("Event loop was blocked; leases, probes and watches waited", { ...blocked });
  });
  worker.unref();
  const beat = (): void => {
    Atomics.store(beats, 1, leads() ? 1 : 0);
    Atomics.add(beats, 0, 1);
  };
  const timer = setInterval(beat, periodMs);
  timer.unref();
  return {
    beat,
    [Symbol.dispose]() {
      clearInterval(timer);
      // The worker sees the mark before the next look, however late its termination is.
      Atomics.store(beats, 0, -1);
      void worker.terminate();
    },
  };
}
