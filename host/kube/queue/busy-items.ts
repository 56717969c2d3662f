import type { Clock } from "cloud-controller-host/sdk";

/** The items that the work queues of a process are working on. */
export class BusyItems {
  readonly #clock: Pick<Clock, "monotonic">;
  /** By the name of the queue: when work on each key began. The latest queue of a name counts. */
  readonly #queues = new Map<string, ReadonlyMap<string, number>>();

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** `startedAt` has a queue's items in the order in which their work began. */
  follow(queue: string, startedAt: ReadonlyMap<string, number>): void {
    this.#queues.set(queue, startedAt);
  }

  /** The key on which a queue has worked longest, and for how many seconds; undefined while it rests. */
  slowest(queue: string): { readonly key: string; readonly seconds: number } | undefined {
    const [first] = this.#queues.get(queue) ?? [];
    return first && { key: first[0], seconds: (this.#clock.monotonic() - first[1]) / 1000 };
  }
}
