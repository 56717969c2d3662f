import type { Fact } from "./cloud.ts";
import type { Clock } from "./context.ts";
import { messageOf } from "./errors.ts";
import type { KnownWarning } from "./warning.ts";

/** Maximum number of objects that `warnings` names and that `facts` has, and of characters per error. */
const maxNamed = 10;
const maxFacts = 50;
const maxMessage = 300;

const nouns = { ServicesFail: "Service", NodesFail: "Node" } as const;

interface Failure {
  /** RFC 3339. */
  readonly since: string;
  /** By the monotonic clock. */
  readonly beganAt: number;
  readonly message: string;
}

/** The objects of a controller whose latest sync failed, for its `warnings` and `status`. */
export class FailingObjects {
  readonly #kind: keyof typeof nouns;
  readonly #clock: Clock;
  readonly #graceMs: number;
  readonly #failures = new Map<string, Failure>();

  /** `warnings` leaves out what has failed for less than `graceMs`. */
  constructor(kind: keyof typeof nouns, clock: Clock, graceMs = 0) {
    this.#kind = kind;
    this.#clock = clock;
    this.#graceMs = graceMs;
  }

  failed(key: string, error: unknown): void {
    const { since, beganAt } = this.#failures.get(key) ?? {
      since: new Date(this.#clock.now()).toISOString(),
      beganAt: this.#clock.monotonic(),
    };
    this.#failures.set(key, { since, beganAt, message: messageOf(error).slice(0, maxMessage) });
  }

  /** Called for an object that was synced, or that is gone. */
  ended(key: string): void {
    this.#failures.delete(key);
  }

  /** Forgets all but these: the others are gone, or need no sync any more. */
  keepOnly(keys: ReadonlySet<string>): void {
    for (const key of this.#failures.keys()) if (!keys.has(key)) this.#failures.delete(key);
  }

  get size(): number {
    return this.#failures.size;
  }

  /** True for an object that has failed for at least `graceMs`. */
  isLasting(key: string): boolean {
    const failure = this.#failures.get(key);
    return failure !== undefined && this.#isLasting(failure);
  }

  /** Number of objects that have failed for at least `graceMs`. */
  get lasting(): number {
    return this.#lasting().length;
  }

  /** The first ones with their errors. */
  get facts(): readonly Fact[] {
    return [...this.#failures].slice(0, maxFacts).map(([name, { message }]) => ({ name, value: message }));
  }

  /** Their number, and the first ones with the time and the error; empty without any. */
  get warnings(): readonly KnownWarning[] {
    const kind = this.#kind;
    const noun = nouns[kind];
    const lasting = this.#lasting();
    if (lasting.length === 0) return [];
    const lines = lasting.slice(0, maxNamed).map(([subject, { since, message }]) => {
      const text = `${noun} ${subject} fails since ${since}: ${message}`;
      return { kind, text, since, subject };
    });
    const further = lasting.length - lines.length;
    return [
      { kind, text: `failing ${noun}s: ${lasting.length}` },
      ...lines,
      ...(further > 0 ? [{ kind, text: `and ${further} more`, further }] : []),
    ];
  }

  #lasting(): readonly (readonly [key: string, failure: Failure])[] {
    return [...this.#failures].filter(([, failure]) => this.#isLasting(failure));
  }

  #isLasting({ beganAt }: Failure): boolean {
    return this.#clock.monotonic() - beganAt >= this.#graceMs;
  }
}
