import { lagMs } from "../../arm/reads/resource-cache.ts";
import { loadBalancerOf } from "./held-resources.ts";
import type { UnendedOperationsOptions } from "./unended-operations.ts";

export interface MemberLooksOptions extends Pick<UnendedOperationsOptions, "context" | "outdate"> {
  /** Plans a pool; resolves with an error if that fails. */
  readonly refreshPool: (poolId: string) => Promise<unknown>;
}

/**
 * Looks at load balancers once reads cannot lag behind the writes of their members any more. A load balancer shows its
 * members, and is not written with them: what was read meanwhile may have shown one that has just left, for a node that
 * has come back since.
 */
export class MemberLooks {
  readonly #options: MemberLooksOptions;
  /** When the members of pools were written last, by lower-case id. */
  readonly #writtenMs = new Map<string, number>();
  #isWaiting = false;

  constructor(options: MemberLooksOptions) {
    this.#options = options;
  }

  /** Members of a pool were written. */
  written(poolId: string): void {
    const { clock, planning } = this.#options.context;
    if (planning !== undefined) return;
    this.#writtenMs.set(poolId.toLowerCase(), clock.monotonic());
    if (!this.#isWaiting) void this.#wait();
  }

  async #wait(): Promise<void> {
    const { context, outdate, refreshPool } = this.#options;
    const { clock, signal, log } = context;
    this.#isWaiting = true;
    while (this.#writtenMs.size > 0) {
      await clock.sleep(lagMs, signal);
      if (signal.aborted) return;
      for (const pool of this.#takeDue()) {
        outdate(loadBalancerOf(pool));
        const error = await refreshPool(pool);
        if (error === undefined || signal.aborted) continue;
        log.warn("Failed to plan a backend pool after a change of its members; trying again", { pool, error });
        this.written(pool);
      }
    }
    this.#isWaiting = false;
  }

  #takeDue(): readonly string[] {
    const untilMs = this.#options.context.clock.monotonic() - lagMs;
    const due = [...this.#writtenMs].flatMap(([id, atMs]) => (atMs <= untilMs ? [id] : []));
    for (const id of due) this.#writtenMs.delete(id);
    return due;
  }
}
