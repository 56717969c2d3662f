import type { Clock } from "cloud-controller-host/sdk";

/**
 * Permitted age of an answer. `cached`: up to its time to live; `newer`: the same, but a list that lacks the wanted item
 * is read again; `fresh`: the read begins after the call.
 */
export type Freshness = "cached" | "newer" | "fresh";

/** Reads that begin because an item was missing are at least this far apart, for all callers together. */
const minMissIntervalMs = 1_000;

/** Hands out the items read so far, while the rest of a list is still being read. Each object is handed out as it grows. */
export type Publish<Value> = (soFar: Value) => void;

interface Held<Value> {
  readonly value: Value;
  /** Start of the read on the monotonic clock. */
  readonly startedMs: number;
}

/**
 * One read that many callers share. At most one is in flight; all callers that ask before it begins get its result, and
 * those that need a fresher one share the next. Failures are not cached.
 */
export class SharedRead<Value> {
  readonly #clock: Clock;
  readonly #ttlMs: number;
  readonly #read: (publish: Publish<Value>) => Promise<Value>;
  #held: Held<Value> | undefined;
  /** Of the read in flight, unless that is outdated. */
  #soFar: Value | undefined;
  /** Settled by the next part of a read, and by the end of one: no wait for it outlives the read. */
  #progress = Promise.withResolvers<"part" | "end">();
  #running: Promise<Held<Value>> | undefined;
  /** The revision that `#running` began with: a later one has outdated it. */
  #runningRevision = 0;
  #next: Promise<Held<Value>> | undefined;
  #startedMs = Number.NEGATIVE_INFINITY;
  /** Counts what outdates a read in flight. */
  #revision = 0;

  constructor(options: {
    readonly clock: Clock;
    readonly ttlMs: number;
    readonly read: (publish: Publish<Value>) => Promise<Value>;
  }) {
    this.#clock = options.clock;
    this.#ttlMs = options.ttlMs;
    this.#read = options.read;
  }

  /** The latest result, however old; undefined before the first one. */
  get last(): Value | undefined {
    return this.#held?.value;
  }

  async get(freshness: "cached" | "fresh"): Promise<Value> {
    if (freshness === "fresh") return (await this.#startNext(0)).value;
    return (this.#valid() ?? (await (this.#inFlight() ?? this.#startNext(0)))).value;
  }

  /**
   * The item that `pick` finds in a result of that freshness. Unless it must be fresh, an item is found as soon as its
   * part of the list has arrived; only the whole list can lack it. A `newer` lookup that misses takes the result of the
   * read in flight, and where that lacks the item too, shares the next one.
   */
  async find<Found>(freshness: Freshness, pick: (value: Value) => Found | undefined): Promise<Found | undefined> {
    const reading =
      freshness === "fresh" ? this.#startNext(0) : (this.#valid() ?? this.#inFlight() ?? this.#startNext(0));
    if (freshness !== "fresh" && reading instanceof Promise) {
      const early = await this.#findEarly(pick);
      if (early !== undefined) {
        // The failure of a later part is left to the calls that wait for it, of which there may be none.
        reading.catch(() => undefined);
        return early;
      }
    }
    const { value } = await reading;
    const found = pick(value);
    if (found !== undefined || freshness !== "newer") return found;
    const later = this.#held !== undefined && this.#held.value !== value ? this.#held : await this.#inFlight();
    const foundLater = later === undefined ? undefined : pick(later.value);
    return foundLater ?? pick((await this.#startNext(minMissIntervalMs)).value);
  }

  /** The item in a part of the read in flight or of the one to begin; undefined when that has ended, whatever its result. */
  async #findEarly<Found>(pick: (value: Value) => Found | undefined): Promise<Found | undefined> {
    for (;;) {
      const found = this.#soFar === undefined ? undefined : pick(this.#soFar);
      if (found !== undefined) return found;
      if ((await this.#progress.promise) === "end") return undefined;
    }
  }

  /** Begins the read that a `get` or `find` of that freshness will need soon. Its failure is left to that call. */
  prefetch(freshness: Freshness): void {
    if (freshness === "cached" && (this.#valid() ?? this.#inFlight()) !== undefined) return;
    this.#startNext(freshness === "newer" ? minMissIntervalMs : 0).catch(() => undefined);
  }

  /** Makes the next caller read again; the result of a read in flight is not kept. */
  forget(): void {
    this.#revision += 1;
    this.#held = undefined;
    this.#soFar = undefined;
  }

  /** Holds the result of a write, in place of that of any read that began before it. */
  replace(value: Value): void {
    this.forget();
    this.#held = { value, startedMs: this.#clock.monotonic() };
  }

  /** Applies the effect of a write to the result that is held, whose age stays; a read that began before is not kept. */
  change(apply: (value: Value) => Value): void {
    const held = this.#held;
    this.forget();
    this.#held = held && { ...held, value: apply(held.value) };
  }

  #valid(): Held<Value> | undefined {
    const held = this.#held;
    return held !== undefined && this.#clock.monotonic() - held.startedMs < this.#ttlMs ? held : undefined;
  }

  /** The read in flight, unless it is outdated. */
  #inFlight(): Promise<Held<Value>> | undefined {
    return this.#runningRevision === this.#revision ? this.#running : undefined;
  }

  #startNext(minIntervalMs: number): Promise<Held<Value>> {
    this.#next ??= this.#startAfterRunning(minIntervalMs);
    return this.#next;
  }

  async #startAfterRunning(minIntervalMs: number): Promise<Held<Value>> {
    await this.#running?.catch(() => undefined);
    const pauseMs = this.#startedMs + minIntervalMs - this.#clock.monotonic();
    if (pauseMs > 0) await this.#clock.sleep(pauseMs);
    else await new Promise((resolve) => setImmediate(resolve));
    this.#next = undefined;
    const running = this.#load().finally(() => {
      this.#running = undefined;
      this.#soFar = undefined;
      this.#report("end");
    });
    this.#running = running;
    return running;
  }

  async #load(): Promise<Held<Value>> {
    const startedMs = this.#clock.monotonic();
    this.#startedMs = startedMs;
    const revision = this.#revision;
    this.#runningRevision = revision;
    const publish = (soFar: Value): void => {
      if (revision !== this.#revision) return;
      this.#soFar = soFar;
      this.#report("part");
    };
    const held = { value: await this.#read(publish), startedMs };
    if (revision === this.#revision) this.#held = held;
    return held;
  }

  #report(progress: "part" | "end"): void {
    this.#progress.resolve(progress);
    this.#progress = Promise.withResolvers<"part" | "end">();
  }
}

/** Shared reads by key, created when first asked for. */
export class SharedReads<Value> {
  readonly #reads = new Map<string, SharedRead<Value>>();
  readonly #create: (key: string) => SharedRead<Value>;

  constructor(create: (key: string) => SharedRead<Value>) {
    this.#create = create;
  }

  of(key: string): SharedRead<Value> {
    const read = this.#reads.get(key) ?? this.#create(key);
    this.#reads.set(key, read);
    return read;
  }

  all(): readonly SharedRead<Value>[] {
    return [...this.#reads.values()];
  }

  /** Makes the next caller read again, and keeps nothing of a key that may never be asked for again. */
  drop(key: string): void {
    this.#reads.delete(key);
  }

  /** The same for all such keys. */
  dropWhere(isUnused: (key: string) => boolean): void {
    for (const key of this.#reads.keys()) if (isUnused(key)) this.#reads.delete(key);
  }
}
