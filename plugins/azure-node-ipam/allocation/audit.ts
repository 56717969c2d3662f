import { type Clock, keyOf, kinds, type KubeClient, type Node, type Store } from "cloud-controller-host/sdk";

import type { NodeRecords } from "../nodes/records.ts";
import type { Occupancy } from "./allocations.ts";

const pauseMs = 60_000;

interface CensusParts {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly nodes: Store<Node>;
  readonly occupancy: Occupancy;
  readonly records: NodeRecords;
}

/** All nodes as the API server has them now, also those that `--node-filter-requirements` keeps out of sight. */
export const listNodes = (client: KubeClient, signal: AbortSignal): Promise<readonly Node[]> =>
  client.list(kinds.Node, { signal });

/**
 * Looks for blocks that are kept for nobody: those of a node that was out of sight when it was deleted. It is done when
 * there is no room, before anybody is told so.
 */
export class Audit {
  readonly #parts: CensusParts;
  #running: Promise<void> | undefined;
  #lastAt = Number.NEGATIVE_INFINITY;

  constructor(parts: CensusParts) {
    this.#parts = parts;
  }

  /** Resolves when it is done; at once when the last one is not a minute ago. Whoever comes meanwhile waits for it. */
  async run(signal: AbortSignal): Promise<void> {
    const now = this.#parts.clock.monotonic();
    if (this.#running === undefined && now - this.#lastAt < pauseMs) return;
    this.#lastAt = now;
    this.#running ??= this.#compare(signal).finally(() => (this.#running = undefined));
    await this.#running;
  }

  async #compare(signal: AbortSignal): Promise<void> {
    const { client, nodes, occupancy, records } = this.#parts;
    const before = new Map(occupancy.claims);
    const listed = new Set((await listNodes(client, signal)).map(keyOf));
    for (const [name, claim] of before)
      if (!listed.has(name) && nodes.get(name) === undefined && occupancy.claimOf(name) === claim)
        records.released(name);
  }
}
