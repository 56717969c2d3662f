import { type Clock, type KnownWarning, messageOf } from "cloud-controller-host/sdk";

/** Maximum number of Services named in `/statusz`, and of characters per error. */
const maxNamed = 10;
const maxMessage = 300;

interface Failure {
  readonly since: string;
  readonly message: string;
}

/** Services whose latest sync failed. */
export class FailingServices {
  readonly #clock: Clock;
  readonly #failures = new Map<string, Failure>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  failed(key: string, error: unknown): void {
    const since = this.#failures.get(key)?.since ?? new Date(this.#clock.now()).toISOString();
    this.#failures.set(key, { since, message: messageOf(error).slice(0, maxMessage) });
  }

  /** Called for a Service that was synced, or that is gone. */
  ended(key: string): void {
    this.#failures.delete(key);
  }

  /** Their number, and the first ones with the time and the error; empty without any. */
  get warnings(): readonly KnownWarning[] {
    const kind: KnownWarning["kind"] = "ServicesFail";
    const named = [...this.#failures].slice(0, maxNamed);
    const lines = named.map(([subject, { since, message }]) => ({
      kind,
      text: `Service ${subject} fails since ${since}: ${message}`,
      since,
      subject,
    }));
    const more = this.#failures.size - named.length;
    return lines.length === 0
      ? []
      : [
          { kind, text: `failing Services: ${this.#failures.size}` },
          ...lines,
          ...(more > 0 ? [{ kind, text: `and ${more} more`, further: more }] : []),
        ];
  }
}
