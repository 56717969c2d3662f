import type { Clock } from "cloud-controller-host/sdk";

/** The items that the work queues of a process are working on. */
export class BusyItems {
  readonly #clock: Pick<Clock, "monotonic">;
  /** By the name of the queue: when work on each key began. The latest queue of a name counts. */
  readonly #queues = new Map<string, ReadonlyMap<string, number>>();

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  follow(queue: string, startedAt: ReadonlyMap<string, number>): void {
    this.#queues.set(queue, startedAt);
  }

  /** The key on which a queue has worked longest, and for how many seconds; undefined while it rests. */
  slowest(queue: string): { readonly key: string; readonly seconds: number } | undefined {
    let slowest: readonly [key: string, startedAt: number] | undefined;
    for (const entry of this.#queues.get(queue) ?? [])
      if (slowest === undefined || entry[1] < slowest[1]) slowest = entry;
    return slowest && { key: slowest[0], seconds: (this.#clock.monotonic() - slowest[1]) / 1000 };
  }
}
