import { lagMs } from "../../../arm/reads/resource-cache.ts";
import type { UnendedOperationsOptions } from "./unended-operations.ts";

export interface MemberLooksOptions extends Pick<UnendedOperationsOptions, "context"> {
  /** Reads the load balancer of a pool again, and plans the pool until that has succeeded. Never rejects. */
  readonly planPool: (poolId: string) => Promise<void>;
}

/**
 * Looks at load balancers once reads cannot lag behind the writes of their members any more. A load balancer shows its
 * members, and is not written with them: what was read meanwhile may have shown one that has just left, for a node that
 * has come back since.
 */
export class MemberLooks {
  readonly #options: MemberLooksOptions;
  /** When the members of pools were written last, by lower-case id: of those that are to be looked at. */
  readonly #writtenMs = new Map<string, number>();

  constructor(options: MemberLooksOptions) {
    this.#options = options;
  }

  /** Members of a pool were written. */
  written(poolId: string): void {
    const { clock, planning } = this.#options.context;
    if (planning !== undefined) return;
    const key = poolId.toLowerCase();
    const isAwaited = this.#writtenMs.has(key);
    this.#writtenMs.set(key, clock.monotonic());
    if (!isAwaited) void this.#look(key);
  }

  async #look(pool: string): Promise<void> {
    const { context, planPool } = this.#options;
    const { clock, signal } = context;
    while (!signal.aborted) {
      const atMs = this.#writtenMs.get(pool) ?? 0;
      const leftMs = atMs + lagMs - clock.monotonic();
      if (leftMs > 0) await clock.sleep(leftMs, signal);
      else {
        await planPool(pool);
        // Written during the look, it is looked at again.
        if (this.#writtenMs.get(pool) === atMs) break;
      }
    }
    this.#writtenMs.delete(pool);
  }
}
