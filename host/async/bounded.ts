import { type Clock, CodedError } from "cloud-controller-host/sdk";

import type { OutstandingWork, WorkKind } from "./outstanding-work.ts";
import { within } from "./timeout.ts";

/** Limits on one piece of plugin work. */
export interface Bounds<T> {
  readonly kind: WorkKind;
  /** For messages, e.g. `init of greeter-controller`. */
  readonly name: string;
  readonly clock: Clock;
  readonly outstanding: OutstandingWork;
  readonly limitMs: number;
  /** The flag that sets the limit and, where there is one, advice. */
  readonly hint: string;
  /** Ends the wait. Once it has aborted, the work is not even started. */
  readonly signal?: AbortSignal;
  /** Disposes of a result that arrives after the wait was given up. */
  readonly late?: (value: T) => Promise<void> | void;
}

/**
 * Runs work of a plugin, which may never settle. Rejects with the work's own error, with the signal's reason, or with
 * `WorkTimeout` at the limit. Abandoned work stays in the ledger until it settles, and its late result is undone.
 */
export async function bounded<T>(bounds: Bounds<T>, work: () => T | Promise<T>): Promise<T> {
  const { kind, name, clock, outstanding, limitMs, hint, signal, late } = bounds;
  signal?.throwIfAborted();
  const running = Promise.try(work);
  const waiting = within(clock, limitMs, running, signal);
  const undone = async (value: T): Promise<void> => {
    if (!(await waiting).done) await late?.(value);
  };
  outstanding.add(kind, name, running.then(undone));
  const outcome = await waiting;
  if (outcome.done) return outcome.value;
  signal?.throwIfAborted();
  throw new CodedError("WorkTimeout", `${name} did not return within ${limitMs / 1000} s (${hint})`);
}
