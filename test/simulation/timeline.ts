import type { Clock } from "cloud-controller-host/sdk";

/** Numbers from [0, 1), the same for the same seed. Source: the mulberry32 generator. */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

interface Entry {
  readonly at: number;
  /** Orders what is due at the same time. */
  readonly tie: number;
  /** Undefined once it has run or was canceled: what it holds can be collected. */
  run: (() => void) | undefined;
}

/** Canceled entries that are kept, at most, if no more than half of all are. */
const maxCanceled = 64;

/** Virtual time for everything in a simulation. One entry runs at a time, and everything it wakes before the next. */
export class Timeline {
  readonly random: () => number;
  readonly #ties: () => number;
  readonly #settled: () => boolean;
  #entries: Entry[] = [];
  #canceled = 0;
  #now = 0;
  #steps = 0;

  /**
   * `ties` orders what is due at the same time; by default the seed does. Time stands still until `settled`: for work
   * of the real process that virtual time waits for.
   */
  constructor(random: () => number, { ties = random, settled = (): boolean => true } = {}) {
    this.random = random;
    this.#ties = ties;
    this.#settled = settled;
  }

  get now(): number {
    return this.#now;
  }

  /** Entries that are kept, canceled ones among them. */
  get size(): number {
    return this.#entries.length;
  }

  get steps(): number {
    return this.#steps;
  }

  /** Runs something after a delay; the result cancels it. */
  after(ms: number, run: () => void): () => void {
    const entry: Entry = { at: this.#now + Math.max(0, ms), tie: this.#ties(), run };
    let index = this.#entries.length;
    while (index > 0) {
      const above = (index - 1) >> 1;
      const parent = this.#entries[above];
      if (parent === undefined || !isBefore(entry, parent)) break;
      this.#entries[index] = parent;
      index = above;
    }
    this.#entries[index] = entry;
    return () => this.#cancel(entry);
  }

  /** Most timers are deadlines that are canceled long before they are due. */
  #cancel(entry: Entry): void {
    if (entry.run === undefined) return;
    entry.run = undefined;
    this.#canceled += 1;
    if (this.#canceled <= Math.max(maxCanceled, this.#entries.length / 2)) return;
    // Sorted entries are a heap.
    this.#entries = this.#entries
      .filter(({ run }) => run !== undefined)
      .toSorted((one, other) => one.at - other.at || one.tie - other.tie);
    this.#canceled = 0;
  }

  /** Runs entries until a time; `step` is called after each one and everything that it woke. */
  async runUntil(time: number, step: () => boolean): Promise<void> {
    await this.#turn();
    for (let next = this.#entries[0]; next !== undefined && next.at <= time; next = this.#entries[0]) {
      this.#pop();
      const { run } = next;
      if (run === undefined) {
        this.#canceled -= 1;
        continue;
      }
      next.run = undefined;
      this.#now = next.at;
      this.#steps += 1;
      run();
      await this.#turn();
      if (!step()) return;
    }
    this.#now = Math.max(this.#now, time);
  }

  async #turn(): Promise<void> {
    do await turn();
    while (!this.#settled());
  }

  #pop(): void {
    const last = this.#entries.pop();
    const { length } = this.#entries;
    if (last === undefined || length === 0) return;
    let index = 0;
    for (;;) {
      const left = 2 * index + 1;
      const one = this.#entries[left];
      const other = this.#entries[left + 1];
      const isRight = one !== undefined && other !== undefined && isBefore(other, one);
      const least = isRight ? other : one;
      if (least === undefined || !isBefore(least, last)) break;
      this.#entries[index] = least;
      index = isRight ? left + 1 : left;
    }
    this.#entries[index] = last;
  }
}

const isBefore = (one: Entry, other: Entry): boolean => (one.at === other.at ? one.tie < other.tie : one.at < other.at);

/** Real time's own, whatever a simulation puts in its place. */
const { setImmediate } = globalThis;

/** Lets every microtask run, and what these start. */
const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

/** A process as time sees it: it may be paused, with its clocks running on, and it may be dead. */
export class ProcessTime {
  readonly clock: Clock;
  readonly #timeline: Timeline;
  readonly #waiting: (() => void)[] = [];
  readonly #listening = new Set<() => void>();
  #state: "runs" | "paused" | "dead" = "runs";
  #resumedAt = Number.NEGATIVE_INFINITY;
  #steppedMs = 0;
  readonly rate: number;

  /** `offsetMs` is the skew of its wall clock; `rate` how fast its clocks run. */
  constructor(timeline: Timeline, { offsetMs, rate }: { readonly offsetMs: number; readonly rate: number }) {
    this.#timeline = timeline;
    this.rate = rate;
    const epoch = Date.UTC(2026, 10, 21) + offsetMs;
    this.clock = {
      now: () => Math.floor(epoch + this.#steppedMs + timeline.now * rate),
      monotonic: () => timeline.now * rate,
      sleep: (ms, signal) => {
        if (ms <= 0 || signal?.aborted) return Promise.resolve();
        return new Promise((resolve) => {
          const wake = (): void => {
            cancel();
            ended();
            resolve();
          };
          const cancel = timeline.after(ms / rate, () => this.deliver(wake));
          const ended = this.onAbort(signal, wake);
        });
      },
    };
  }

  /**
   * Listens to a signal until the result is called or the process is killed: the runtime never collects a signal that has
   * a listener and sources, nor what the listener holds.
   */
  onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
    const end = (): void => {
      signal?.removeEventListener("abort", listener);
      this.#listening.delete(end);
    };
    if (signal === undefined || this.#state === "dead") return end;
    signal.addEventListener("abort", listener, { once: true });
    this.#listening.add(end);
    return end;
  }

  get state(): "runs" | "paused" | "dead" {
    return this.#state;
  }

  /** Runs something in the process now or, while that is paused, afterwards; never in a dead one. */
  deliver(run: () => void): void {
    if (this.#state === "runs") run();
    else if (this.#state === "paused") this.#waiting.push(run);
  }

  /** Sets its wall clock forward or back, as an operator or NTP does; its monotonic clock runs on. */
  step(ms: number): void {
    this.#steppedMs += ms;
  }

  pause(): void {
    if (this.#state === "runs") this.#state = "paused";
  }

  /** True if it runs now and has not been paused since, in virtual time. */
  ranSince(time: number): boolean {
    return this.#state === "runs" && this.#resumedAt < time;
  }

  resume(): void {
    if (this.#state !== "paused") return;
    this.#state = "runs";
    this.#resumedAt = this.#timeline.now;
    for (const run of this.#waiting.splice(0)) this.#timeline.after(0, () => this.deliver(run));
  }

  kill(): void {
    this.#state = "dead";
    this.#waiting.length = 0;
    for (const end of this.#listening) end();
  }
}
