import type { Clock } from "cloud-controller-host/sdk";

interface Entry {
  readonly key: string;
  readonly readyAt: number;
}

/**
 * Keys that become ready later. A key that is already waiting keeps the earlier of its two times. One timer, set for
 * the earliest, serves them all. upstream: `workqueue.delayingType`.
 */
export class DelayedAdds {
  readonly #clock: Clock;
  readonly #ready: (key: string) => void;
  /** Binary heap by time. An entry whose time differs from its key's time in `#times` is stale and skipped. */
  readonly #heap: Entry[] = [];
  readonly #times = new Map<string, number>();
  #timer: AbortController | undefined;
  #running = false;
  #stopped = false;

  constructor(clock: Clock, ready: (key: string) => void) {
    this.#clock = clock;
    this.#ready = ready;
  }

  add(key: string, delayMs: number): void {
    if (this.#stopped) return;
    const readyAt = this.#clock.monotonic() + delayMs;
    const waiting = this.#times.get(key);
    if (waiting !== undefined && waiting <= readyAt) return;
    this.#times.set(key, readyAt);
    this.#push({ key, readyAt });
    if (!this.#running) void this.#run();
    else if (this.#heap[0]?.key === key) this.#timer?.abort();
  }

  /** Drops all waiting keys and releases the timer. */
  stop(): void {
    this.#stopped = true;
    this.#heap.length = 0;
    this.#times.clear();
    this.#timer?.abort();
  }

  /** Never rejects; ends when no key is waiting. */
  async #run(): Promise<void> {
    this.#running = true;
    for (let next = this.#heap[0]; next !== undefined; next = this.#heap[0]) {
      const wait = next.readyAt - this.#clock.monotonic();
      if (wait > 0) {
        this.#timer = new AbortController();
        await this.#clock.sleep(wait, this.#timer.signal);
        continue;
      }
      this.#pop();
      if (this.#times.get(next.key) !== next.readyAt) continue;
      this.#times.delete(next.key);
      this.#ready(next.key);
    }
    this.#timer = undefined;
    this.#running = false;
  }

  #push(entry: Entry): void {
    const heap = this.#heap;
    let index = heap.push(entry) - 1;
    while (index > 0) {
      const above = (index - 1) >> 1;
      const parent = heap[above];
      if (parent === undefined || parent.readyAt <= entry.readyAt) break;
      heap[index] = parent;
      index = above;
    }
    heap[index] = entry;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let index = 0;
    for (;;) {
      const left = heap[2 * index + 1];
      const right = heap[2 * index + 2];
      const leftFirst = right === undefined || (left !== undefined && left.readyAt <= right.readyAt);
      const child = leftFirst ? left : right;
      if (child === undefined || last.readyAt <= child.readyAt) break;
      heap[index] = child;
      index = 2 * index + (leftFirst ? 1 : 2);
    }
    heap[index] = last;
  }
}
