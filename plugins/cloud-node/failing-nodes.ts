import { type Clock, type Explanation, type KnownWarning, messageOf } from "cloud-controller-host/sdk";

/** Maximum number of nodes that the console shows and that `/statusz` names, and of characters per error. */
const maxShown = 50;
const maxNamed = 10;
const maxMessage = 300;

/** The instance of a new node may be listed later than the node registers. */
const graceMs = 60_000;

interface Failure {
  readonly sinceMs: number;
  readonly message: string;
}

/** Nodes whose latest sync failed. */
export class FailingNodes {
  readonly #clock: Clock;
  readonly #failures = new Map<string, Failure>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  failed(name: string, error: unknown): void {
    const sinceMs = this.#failures.get(name)?.sinceMs ?? this.#clock.now();
    this.#failures.set(name, { sinceMs, message: messageOf(error).slice(0, maxMessage) });
  }

  /** Called for a node that was synced, or that is gone. */
  ended(name: string): void {
    this.#failures.delete(name);
  }

  /** For the console: their number, and the first ones with their errors; empty without any. */
  get status(): readonly Explanation[] {
    if (this.#failures.size === 0) return [];
    const facts = [...this.#failures].slice(0, maxShown).map(([name, { message }]) => ({ name, value: message }));
    return [{ title: `nodes that fail: ${this.#failures.size}`, facts }];
  }

  /** Those that have failed for longer than a minute: their number, and the first ones; empty without any. */
  get warnings(): readonly KnownWarning[] {
    const kind: KnownWarning["kind"] = "NodesFail";
    const lasting = [...this.#failures].filter(([, { sinceMs }]) => this.#clock.now() - sinceMs > graceMs);
    if (lasting.length === 0) return [];
    const lines = lasting.slice(0, maxNamed).map(([subject, { sinceMs, message }]): KnownWarning => {
      const since = new Date(sinceMs).toISOString();
      return { kind, text: `Node ${subject} fails since ${since}: ${message}`, since, subject };
    });
    const further = lasting.length - lines.length;
    return [
      { kind, text: `failing Nodes: ${lasting.length}` },
      ...lines,
      ...(further > 0 ? [{ kind, text: `and ${further} more`, further }] : []),
    ];
  }
}
