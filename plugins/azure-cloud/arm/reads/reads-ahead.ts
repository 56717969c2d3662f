import type { Clock } from "cloud-controller-host/sdk";

interface Begun<Value> {
  readonly value: Promise<Value>;
  readonly atMs: number;
}

/** Reads that begin before they are needed, while something else is being waited for; each is used once. */
export class ReadsAhead<Value> {
  readonly #clock: Clock;
  readonly #maxAgeMs: number;
  readonly #read: (id: string) => Promise<Value>;
  /** By lower-case id, oldest first. */
  readonly #reads = new Map<string, Begun<Value>>();

  constructor(options: {
    readonly clock: Clock;
    /** Older reads are not used. */
    readonly maxAgeMs: number;
    readonly read: (id: string) => Promise<Value>;
  }) {
    this.#clock = options.clock;
    this.#maxAgeMs = options.maxAgeMs;
    this.#read = options.read;
  }

  /** Number of reads that were not taken yet. */
  get size(): number {
    return this.#reads.size;
  }

  begin(id: string): void {
    if (this.#isValid(id)) return;
    // A plan is not always carried out: reads that are never taken must not accumulate.
    for (const key of this.#reads.keys()) {
      if (this.#isValid(key)) break;
      this.#reads.delete(key);
    }
    const value = this.#read(id);
    // Its failure is that of its user.
    value.catch(() => undefined);
    this.#reads.set(id.toLowerCase(), { value, atMs: this.#clock.monotonic() });
  }

  /** The result of the read, which begins now unless it has begun. */
  take(id: string): Promise<Value> {
    this.begin(id);
    const begun = this.#reads.get(id.toLowerCase());
    this.#reads.delete(id.toLowerCase());
    return begun?.value ?? this.#read(id);
  }

  /** Forgets a read that began before a write ended: it may lack what that write has done. */
  drop(id: string): void {
    this.#reads.delete(id.toLowerCase());
  }

  #isValid(id: string): boolean {
    const begun = this.#reads.get(id.toLowerCase());
    return begun !== undefined && this.#clock.monotonic() - begun.atMs < this.#maxAgeMs;
  }
}
