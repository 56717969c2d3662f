import { Worker } from "node:worker_threads";

import type { LoopOwner } from "../../async/loop-owner.ts";
import type { WatchdogData } from "./worker.ts";

export interface WatchdogOptions {
  /** How long the event loop may be blocked. The renew deadline: after it another replica may lead. */
  readonly limitMs: number;
  readonly format: "text" | "json";
  readonly owner: LoopOwner;
}

/** Heartbeats and looks per limit; the process ends at most one tenth of the limit late. */
const beatsPerLimit = 10;

/**
 * Ends the process when its event loop is blocked for longer than the limit. A process in that state cannot renew its
 * lease, answer a probe or handle SIGTERM, and would continue to write as soon as it wakes up, while another replica leads.
 * A worker thread looks, because nothing on the blocked thread can. Being suspended as a whole (SIGSTOP, a paused VM)
 * is not being blocked: there the local clock has closed the fence by the time the process continues.
 */
export function startWatchdog({ limitMs, format, owner }: WatchdogOptions): Disposable {
  const beats = new Int32Array(new SharedArrayBuffer(4));
  const periodMs = Math.max(1, Math.floor(limitMs / beatsPerLimit));
  const workerData: WatchdogData = { beats, limitMs, periodMs, format, owner: owner.memory, pid: process.pid };
  const worker = new Worker(new URL("./worker.ts", import.meta.url), { workerData, name: "watchdog" });
  worker.unref();
  const timer = setInterval(() => void Atomics.add(beats, 0, 1), periodMs);
  timer.unref();
  return {
    [Symbol.dispose]() {
      clearInterval(timer);
      // The worker sees the mark before the next look, however late its termination is.
      Atomics.store(beats, 0, -1);
      void worker.terminate();
    },
  };
}
