import type { Clock } from "cloud-controller-host/sdk";

interface Entry {
  readonly key: string;
  readyAt: number;
  /** Its place in the heap. */
  index: number;
}

/**
 * Keys that become ready later. A key that is already waiting keeps the earlier of its two times. One timer, set for
 * the earliest, serves them all. upstream: `workqueue.delayingType`.
 */
export class DelayedAdds {
  readonly #clock: Clock;
  readonly #ready: (key: string) => void;
  /** Binary heap by time, with one entry for each key that is waiting. */
  readonly #heap: Entry[] = [];
  readonly #entries = new Map<string, Entry>();
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
    const waiting = this.#entries.get(key);
    if (waiting !== undefined && waiting.readyAt <= readyAt) return;
    const entry = waiting ?? { key, readyAt, index: this.#heap.length };
    entry.readyAt = readyAt;
    this.#entries.set(key, entry);
    this.#moveUp(entry);
    if (!this.#running) void this.#run();
    else if (entry.index === 0) this.#timer?.abort();
  }

  /** Drops all waiting keys and releases the timer. */
  stop(): void {
    this.#stopped = true;
    this.#heap.length = 0;
    this.#entries.clear();
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
      this.#removeFirst();
      this.#entries.delete(next.key);
      this.#ready(next.key);
    }
    this.#timer = undefined;
    this.#running = false;
  }

  /** Places an entry whose time has become earlier, or a new one at the end. */
  #moveUp(entry: Entry): void {
    let { index } = entry;
    while (index > 0) {
      const above = (index - 1) >> 1;
      const parent = this.#heap[above];
      if (parent === undefined || parent.readyAt <= entry.readyAt) break;
      this.#place(parent, index);
      index = above;
    }
    this.#place(entry, index);
  }

  #removeFirst(): void {
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
      this.#place(child, index);
      index = 2 * index + (leftFirst ? 1 : 2);
    }
    this.#place(last, index);
  }

  #place(entry: Entry, index: number): void {
    this.#heap[index] = entry;
    entry.index = index;
  }
}
