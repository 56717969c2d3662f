import { type Clock, type Logger, messageOf } from "cloud-controller-host/sdk";

import { within } from "../async/timeout.ts";

/**
 * Names of the phases of a stop, one log line each, in the order in which they run: `lifecycle.ts` runs the first two, and
 * `process-parts.ts` and `host.ts` defer the others, the last one first. Before the first, readiness fails and reloads stop.
 * Controllers drain under the lease, and the lease is released before anything that they use is closed.
 */
export const stopPhases = [
  "Draining controllers",
  "Releasing leader election lease",
  "Disposing of the last generation",
  "Closing webhook serving",
  "Closing secure serving",
  "Stopping informers",
  "Flushing audit log",
  "Flushing events",
  "Closing API server connections",
  "Flushing telemetry",
  "Removing private copies of plugins",
] as const;

export type StopPhase = (typeof stopPhases)[number];

/** A phase that takes longer is abandoned, so that the process always ends. */
const phaseLimitMs = 10_000;

/** Runs the work of one phase within a limit and logs the outcome. Never rejects. */
export async function stopPhase(
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
  phase: StopPhase,
  work: () => unknown,
  limitMs = phaseLimitMs,
): Promise<void> {
  const began = clock.monotonic();
  try {
    const outcome = await within(clock, limitMs, Promise.try(work));
    const seconds = (clock.monotonic() - began) / 1000;
    if (outcome.done) log.info("Shutdown phase completed", { phase, seconds });
    else log.error("Shutdown phase timed out", { phase, seconds });
  } catch (error) {
    log.error("Shutdown phase failed", { phase, error: messageOf(error) });
  }
}
