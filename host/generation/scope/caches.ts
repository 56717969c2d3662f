import { CodedError } from "cloud-controller-host/sdk";

import { LinkedSignal } from "../../async/linked-signal.ts";
import { within } from "../../async/timeout.ts";
import type { GenerationInformers } from "../../kube/informers/share.ts";
import type { ProcessScope } from "./scope.ts";

type Scope = Pick<ProcessScope, "clock" | "log" | "settings" | "locks">;

/** A take-over that waits longer for its caches is logged. */
const slowMs = 5000;

/**
 * The informer caches of one generation. A take-over starts controllers only when each of them shows what the API server
 * held after the lease was free; the proof that nothing in it is older than the lease:
 *
 * The lease is won by a write on the condition that it has not been written since it was observed to be free, so from that
 * observation on no other process has led. Every list is sent after that observation, which the process's own clock
 * alone decides, and is answered with what the API server holds then, so it shows all that an earlier leader has
 * written. A watch only continues from a list. The time at which it delivers a change proves nothing: the bytes may have
 * waited in a buffer.
 *
 * `CatchUp` proves the same of a large cache without a list, by the versions of what its watch has delivered. A small one
 * is listed sooner than its watch would bring something.
 */
export class GenerationCaches {
  readonly #scope: Scope;
  readonly #shares: () => readonly GenerationInformers[];

  constructor(scope: Scope, shares: () => readonly GenerationInformers[]) {
    this.#scope = scope;
    this.#shares = shares;
  }

  /** True if no cache is older than the lock. */
  isFresh(lock: string): boolean {
    return this.#stale(lock).length === 0;
  }

  /** Begins to read everything again, which counts for every lock that was observed to be free before. */
  readAgain(signal: AbortSignal): void {
    const now = this.#scope.clock.monotonic();
    for (const share of this.#shares()) void share.refreshed(now, signal).catch(() => undefined);
  }

  /**
   * Reads again what may be older than the lock. Resolves to undefined when nothing is, or when the signal has aborted;
   * to an error after `--plugin-init-timeout`, which is also the limit of the first lists.
   */
  async refresh(lock: string, signal: AbortSignal): Promise<CodedError | undefined> {
    const { clock, log, settings, locks } = this.#scope;
    using waiting = new LinkedSignal(signal);
    const since = locks.heldSince(lock);
    const all = Promise.all(this.#shares().map((share) => share.refreshed(since, waiting.signal))).catch(
      () => undefined,
    );
    const early = await within(clock, Math.min(slowMs, settings.initTimeout), all);
    if (early.done) return undefined;
    log.warn("Waiting for caches to refresh before starting controllers", { lock, kinds: this.#stale(lock) });
    const late = await within(clock, Math.max(0, settings.initTimeout - slowMs), all);
    if (late.done) return undefined;
    const kinds = this.#stale(lock).join(", ");
    waiting.abort(undefined);
    return new CodedError(
      "CachesStale",
      `controllers cannot start: ${kinds} could not be read within ${settings.initTimeout / 1000} s (--plugin-init-timeout) after the lock ${lock} was acquired`,
    );
  }

  /** The kinds whose caches may be older than the lock. */
  #stale(lock: string): readonly string[] {
    const since = this.#scope.locks.heldSince(lock);
    return [...new Set(this.#shares().flatMap((share) => share.stale(since)))];
  }
}
