import type { Clock, Logger } from "cloud-controller-host/sdk";

import { within } from "../async/timeout.ts";
import type { WorkEnd } from "../generation/slot/slot.ts";
import type { Supervisor } from "../generation/supervisor.ts";
import type { Leadership } from "./leadership.ts";
import { stopPhase } from "./stop-phases.ts";

export interface LifecycleOptions {
  readonly supervisor: Pick<Supervisor, "lead" | "leaseReleased" | "lockWon" | "lost">;
  readonly leadership: Pick<Leadership, "run">;
  /** Called when the main lock is won, before any controller starts. */
  readonly onStartedLeading?: () => void;
  /** Resolves when the first generation stands by, with the text of its config. */
  readonly first: Promise<string | undefined>;
  readonly clock: Clock;
  readonly log: Logger;
  /** In milliseconds. */
  readonly drainTimeout: number;
  /** Serves reloads and their triggers until the signal aborts. `configText` is the config of the first generation. */
  readonly serveReloads: (configText: string | undefined, signal: AbortSignal) => Promise<void>;
  /** Aborted for a clean stop, and by whatever ends the host. */
  readonly stopping: AbortController;
}

/** On top of the drain timeout, for disposal. */
const drainMarginMs = 10_000;
/** On top of the limit of the last phase, for what is about to end. */
const graceMs = 1_000;

/**
 * Prepares, leads, reloads and stops. Resolves with the exit status: 0 after a clean stop, 1 when the lease was lost or
 * a controller has not returned. Rejects with the reason why no generation could be run. After a stop it waits for
 * nothing without a limit: what has not ended by then ends with the process, and the lease expires.
 */
export async function runLifecycle(options: LifecycleOptions): Promise<number> {
  const { supervisor, leadership, first, clock, log, serveReloads, stopping } = options;
  const { signal } = stopping;
  let failure: unknown;
  /** Whatever fails ends the rest cleanly. */
  const fail = (error: unknown): void => {
    failure ??= error;
    stopping.abort();
  };
  const following = first
    .then((configText) => serveReloads(configText, signal))
    .catch((error: unknown) => {
      if (!signal.aborted) fail(error);
    });
  const drained = Promise.withResolvers<void>();
  /** When the work under the lease ends, for whatever reason, so does the host. */
  const work = async (leaseSignal: AbortSignal): Promise<WorkEnd> => {
    options.onStartedLeading?.();
    const working = supervisor.lead(leaseSignal);
    const draining = (): void => {
      const limitMs = options.drainTimeout + drainMarginMs;
      void stopPhase({ clock, log }, "Draining controllers", () => working, limitMs).then(drained.resolve);
    };
    leaseSignal.addEventListener("abort", draining, { once: true });
    const end = await working;
    if (end.failure !== undefined) fail(end.failure);
    stopping.abort();
    drained.resolve();
    return end;
  };
  const leading = leadership.run(signal, {
    onStartedLeading: work,
    onReleased: () => supervisor.leaseReleased(),
    onLockWon: (lock) => supervisor.lockWon(lock),
    onStoppedLeading: () => supervisor.lost(),
  });
  await Promise.race([drained.promise, leading]);
  await stopPhase({ clock, log }, "Releasing leader election lease", () => leading);
  const end = await within(clock, graceMs, leading);
  stopping.abort();
  await within(clock, graceMs, following);
  if (failure !== undefined) throw failure;
  if (!end.done) return 1;
  const { outcome, work: worked } = end.value;
  log.info("Leadership ended", { outcome });
  const isLeft = worked?.outstanding.some(({ kind }) => kind === "run") ?? false;
  return outcome === "lost" || isLeft ? 1 : 0;
}
