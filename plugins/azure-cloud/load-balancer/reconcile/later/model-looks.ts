import type { UnendedOperationsOptions } from "./unended-operations.ts";

/** Times of looks after their cause: reads lag behind for a minute, and other deployments write for some. */
const pausesMs = [60_000, 180_000, 420_000] as const;

export interface ModelLooksOptions extends Pick<UnendedOperationsOptions, "context" | "refresh"> {
  /** True where other deployments write the same models. */
  readonly isShared: () => boolean;
  /** Reads the scale sets again; true if a model is in other pools than was known, or other load balancers may be. */
  readonly haveChanged: () => Promise<boolean>;
}

/**
 * Later looks at the models of scale sets, which decide on the pools of new instances: when all that is planned is carried
 * out, nothing shows that a model lacks it. Another deployment may have written what it had read before, as a flexible
 * scale set has no etag; or a scale set has been created again under its name, which reads that lag behind did not show.
 */
export class ModelLooks {
  readonly #options: ModelLooksOptions;
  #sinceMs = 0;
  /** Looks since then. */
  #count: number = pausesMs.length;
  #isDoubted = false;
  #isWaiting = false;

  constructor(options: ModelLooksOptions) {
    this.#options = options;
  }

  /** To be called with each change of a Service: other deployments may change the same models. */
  changed(): void {
    const { planning, clock } = this.#options.context;
    if (planning !== undefined || this.#count === 0) return;
    this.#sinceMs = clock.monotonic();
    this.#count = 0;
    if (!this.#isWaiting) void this.#wait();
  }

  /** A model was written, or seemed to name a pool that an instance had to join: it is looked at in any case. */
  doubted(): void {
    this.#isDoubted = true;
    this.changed();
  }

  async #wait(): Promise<void> {
    const { context, refresh, isShared, haveChanged } = this.#options;
    const { clock, signal, log } = context;
    this.#isWaiting = true;
    let isDue = false;
    for (let pauseMs = pausesMs[this.#count]; pauseMs !== undefined; pauseMs = pausesMs[this.#count]) {
      const leftMs = this.#sinceMs + pauseMs - clock.monotonic();
      // In parts: a change meanwhile begins them again.
      if (leftMs > 0) await clock.sleep(Math.min(leftMs, pausesMs[0]), signal);
      if (signal.aborted) return;
      if (this.#sinceMs + pauseMs > clock.monotonic()) continue;
      this.#count += 1;
      if (!this.#isDoubted && !isShared()) continue;
      // A read that fails shows no change.
      isDue ||= await haveChanged().catch(() => false);
      const error: unknown = isDue ? await refresh() : undefined;
      isDue = error !== undefined;
      if (error === undefined || signal.aborted) continue;
      log.warn("Failed to bring Services to their desired state after a change in Azure; trying again", {
        error,
      });
      this.changed();
    }
    this.#isDoubted = false;
    this.#isWaiting = false;
  }
}
