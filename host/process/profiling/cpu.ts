import type { Profiler } from "node:inspector";

import { type Clock, CodedError } from "cloud-controller-host/sdk";

/** The used part of the runtime's profile; times are in microseconds since 1970. */
export type CpuProfile = Pick<Profiler.Profile, "nodes" | "startTime" | "endTime" | "samples" | "timeDeltas">;

/** The Go runtime's sampling rate. A higher one blocks the event loop for longer when the samples are read. */
export const samplePeriodMs = 10;

/** The runtime has a single sampler, even with several hosts in one process, as in tests. */
let busyUntilMs: number | undefined;

/**
 * Takes a CPU profile of the given length. Rejects with the signal's reason when it aborts, and with `ProfileFailed`
 * while another profile is taken. Reading the samples blocks for about 0.2 ms per sample at stacks a hundred calls
 * deep, and far less in a typical host.
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

/** Concurrent profiles would sample each other. */
export class ProfileRunningError extends CodedError {
  readonly secondsLeft: number;

  constructor(secondsLeft: number) {
    const left = Math.max(1, Math.ceil(secondsLeft));
    super("ProfileFailed", `a CPU profile is being taken already; try again in ${left} s`);
    this.secondsLeft = left;
  }
}
