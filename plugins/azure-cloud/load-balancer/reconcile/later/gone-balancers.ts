import { lastSegment } from "../../../arm/resource-id.ts";
import type { Observed } from "../../model/model.ts";
import { withoutInternal } from "../../model/names.ts";

export interface GoneBalancersOptions {
  /** Names of several load balancers, in lower case; empty for one that has all nodes. */
  readonly loadBalancers: readonly string[];
  /** Plans the pools of all, from a pool or a load balancer that is gone. Never rejects. */
  readonly planPool: (id: string) => Promise<void>;
}

/**
 * Of several load balancers, one that is gone leaves its nodes to the others, of which no Service may be planned for long.
 * It counts however that has come about: a read alone may show that its deletion has ended.
 */
export class GoneBalancers {
  readonly #options: GoneBalancersOptions;
  /** Ids by themselves in lower case. */
  #known: ReadonlyMap<string, string> = new Map();

  constructor(options: GoneBalancersOptions) {
    this.#options = options;
  }

  /** Called with each observation. */
  seen({ loadBalancers }: Pick<Observed, "loadBalancers">): void {
    const names = new Set(this.#options.loadBalancers);
    const own = loadBalancers.flatMap(({ id = "" }) => (names.has(withoutInternal(lastSegment(id))) ? [id] : []));
    const present = new Map(own.map((id) => [id.toLowerCase(), id]));
    const gone = [...this.#known].filter(([key]) => !present.has(key));
    this.#known = present;
    for (const [, id] of gone) void this.#options.planPool(id);
  }
}
