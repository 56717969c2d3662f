import type { Profiler } from "node:inspector";

import { type Clock, CodedError } from "cloud-controller-host/sdk";

/** The part of the runtime's profile that we use; times are in microseconds since 1970. */
export type CpuProfile = Pick<Profiler.Profile, "nodes" | "startTime" | "endTime" | "samples" | "timeDeltas">;

/** As the Go runtime samples. A finer grain makes the reading of the samples at the end hold the event loop. */
export const samplePeriodMs = 10;

/** The runtime has one sampler, whoever asks for it: there may be several hosts in one process, as in tests. */
let busyUntilMs: number | undefined;

/**
 * Samples where this process spends its time for that long, or until the signal aborts, and then rejects with its
 * reason. Rejects with `ProfileRunning` while another profile is taken. The pause at the end is about 0.2 ms a sample
 * at stacks a hundred calls deep, and far less in what a host does.
 */
export async function takeCpuProfile(clock: Clock, seconds: number, signal: AbortSignal): Promise<CpuProfile> {
  if (busyUntilMs !== undefined) throw new ProfileRunningError((busyUntilMs - clock.monotonic()) / 1000);
  busyUntilMs = clock.monotonic() + seconds * 1000;
  try {
    const { Session } = await import("node:inspector/promises");
    const session = new Session();
    session.connect();
    try {
      await session.post("Profiler.enable");
      await session.post("Profiler.setSamplingInterval", { interval: samplePeriodMs * 1000 });
      await session.post("Profiler.start");
      await clock.sleep(seconds * 1000, signal);
      const { profile } = await session.post("Profiler.stop");
      await session.post("Profiler.disable");
      signal.throwIfAborted();
      return profile;
    } finally {
      session.disconnect();
    }
  } finally {
    busyUntilMs = undefined;
  }
}

/** Two profiles at once would sample each other. */
export class ProfileRunningError extends CodedError {
  readonly secondsLeft: number;

  constructor(secondsLeft: number) {
    const left = Math.max(1, Math.ceil(secondsLeft));
    super("ProfileRunning", `a CPU profile is being taken already; try again in ${left} s`);
    this.secondsLeft = left;
  }
}
