import type { Clock } from "cloud-controller-host/sdk";

/**
 * How old an answer may be. `cached`: up to its time to live; `newer`: the same, but a list that lacks what is looked
 * for is read again; `fresh`: the read begins after the question.
 */
export type Freshness = "cached" | "newer" | "fresh";

/** A list that lacks what should be in it is read again at most this often, for all who miss something in it. */
const missGapMs = 1_000;

interface Held<Value> {
  readonly value: Value;
  /** When the read began. */
  readonly atMs: number;
}

/**
 * One read that many callers share. At most one is under way at a time; everybody who asks before it begins gets its
 * answer, and who needs a fresher one than that which is under way shares the next. A failure is nobody's cache.
 */
export class SharedRead<Value> {
  readonly #clock: Clock;
  readonly #ttlMs: number;
  readonly #read: () => Promise<Value>;
  #held: Held<Value> | undefined;
  #running: Promise<Held<Value>> | undefined;
  #waiting: Promise<Held<Value>> | undefined;
  #beganAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: { readonly clock: Clock; readonly ttlMs: number; readonly read: () => Promise<Value> }) {
    this.#clock = options.clock;
    this.#ttlMs = options.ttlMs;
    this.#read = options.read;
  }

  /** The answer held, however old; undefined when there is none yet. */
  get last(): Value | undefined {
    return this.#held?.value;
  }

  async get(freshness: "cached" | "fresh"): Promise<Value> {
    if (freshness === "fresh") return (await this.#next(0)).value;
    const held = this.#held;
    if (held !== undefined && this.#clock.monotonic() - held.atMs < this.#ttlMs) return held.value;
    return (await (this.#running ?? this.#next(0))).value;
  }

  /**
   * What `pick` finds in an answer of that freshness. Reads that begin because something was missed begin no more often
   * than once a second; all who miss something meanwhile share one.
   */
  async find<Found>(freshness: Freshness, pick: (value: Value) => Found | undefined): Promise<Found | undefined> {
    const value = await this.get(freshness === "fresh" ? "fresh" : "cached");
    const found = pick(value);
    if (found !== undefined || freshness !== "newer") return found;
    const held = this.#held;
    return pick(held !== undefined && held.value !== value ? held.value : (await this.#next(missGapMs)).value);
  }

  /** The next reader asks again. */
  forget(): void {
    this.#held = undefined;
  }

  #next(gapMs: number): Promise<Held<Value>> {
    this.#waiting ??= this.#afterRunning(gapMs);
    return this.#waiting;
  }

  async #afterRunning(gapMs: number): Promise<Held<Value>> {
    await this.#running?.catch(() => undefined);
    const pauseMs = this.#beganAtMs + gapMs - this.#clock.monotonic();
    if (pauseMs > 0) await this.#clock.sleep(pauseMs);
    else await new Promise((resolve) => setImmediate(resolve));
    this.#waiting = undefined;
    const running = this.#load().finally(() => {
      this.#running = undefined;
    });
    this.#running = running;
    return running;
  }

  async #load(): Promise<Held<Value>> {
    const atMs = this.#clock.monotonic();
    this.#beganAtMs = atMs;
    const held = { value: await this.#read(), atMs };
    this.#held = held;
    return held;
  }
}

/** Shared reads by key, made when first asked for. */
export class SharedReads<Value> {
  readonly #reads = new Map<string, SharedRead<Value>>();
  readonly #make: (key: string) => SharedRead<Value>;

  constructor(make: (key: string) => SharedRead<Value>) {
    this.#make = make;
  }

  of(key: string): SharedRead<Value> {
    const read = this.#reads.get(key) ?? this.#make(key);
    this.#reads.set(key, read);
    return read;
  }
}
