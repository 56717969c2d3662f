import type { Clock } from "cloud-controller-host/sdk";

/** When a tick begins. */
interface Pace {
  /** No change has arrived for this long … */
  readonly quietMs: number;
  /** … and at the latest this long after the first change. */
  readonly longestWaitMs: number;
}

const pace: Pace = { quietMs: 5, longestWaitMs: 50 };
/** A plan is the same each time when what is new comes to one tick, also on a busy machine. */
export const planningPace: Pace = { quietMs: 50, longestWaitMs: 500 };

/** Runs ticks one at a time; changes that come at about the same time, or during a tick, lead to one more. */
export class Ticker {
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  readonly #tick: () => Promise<void>;
  readonly #pace: Pace;
  #isDue = false;
  #isRunning = false;
  #lastMs = 0;
  #wakeMs = Number.POSITIVE_INFINITY;
  #isWaiting = false;

  /** `tick` must not reject. */
  constructor(
    { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
    tick: () => Promise<void>,
    ofTicks = pace,
  ) {
    this.#pace = ofTicks;
    this.#clock = clock;
    this.#signal = signal;
    this.#tick = tick;
    signal.addEventListener("abort", () => this.soon(), { once: true });
  }

  soon(): void {
    this.#lastMs = this.#clock.monotonic();
    this.#isDue = true;
    if (!this.#isRunning) void this.#run();
  }

  /** A tick at the latest then: one that comes before has to ask again. */
  after(ms: number): void {
    const atMs = this.#clock.monotonic() + ms;
    if (this.#signal.aborted || this.#wakeMs <= atMs) return;
    this.#wakeMs = atMs;
    const wake = async (): Promise<void> => {
      await this.#clock.sleep(Math.ceil(ms), this.#signal);
      if (this.#wakeMs === atMs) this.#wakeMs = Number.POSITIVE_INFINITY;
      this.soon();
    };
    void wake();
  }

  /** A tick when nothing is left of a time that may grow meanwhile. */
  async afterAll(leftMs: () => number): Promise<void> {
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    for (let ms = leftMs(); ms > 0 && !this.#signal.aborted; ms = leftMs()) await this.#clock.sleep(ms, this.#signal);
    this.#isWaiting = false;
    this.soon();
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#isDue) {
      await this.#waitForQuiet();
      this.#isDue = false;
      await this.#tick();
    }
    this.#isRunning = false;
  }

  async #waitForQuiet(): Promise<void> {
    const { quietMs, longestWaitMs } = this.#pace;
    const until = this.#clock.monotonic() + longestWaitMs;
    while (!this.#signal.aborted) {
      const now = this.#clock.monotonic();
      const waitMs = Math.min(this.#lastMs + quietMs, until) - now;
      if (waitMs <= 0) return;
      await this.#clock.sleep(waitMs, this.#signal);
    }
  }
}
