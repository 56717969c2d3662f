import { type Clock, messageOf } from "cloud-controller-host/sdk";

/** A shorter failure is only logged: the next pass may succeed. */
const graceMs = 60_000;
const maxMessage = 300;

interface Failure {
  /** RFC 3339. */
  readonly since: string;
  /** By the monotonic clock. */
  readonly beganAt: number;
  readonly message: string;
}

/** The failure of consecutive passes. Routes that cannot be listed or deleted have no node whose events would show it. */
export class FailingPasses {
  readonly #clock: Clock;
  #failure: Failure | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  failed(error: unknown): void {
    const { since, beganAt } = this.#failure ?? {
      since: new Date(this.#clock.now()).toISOString(),
      beganAt: this.#clock.monotonic(),
    };
    this.#failure = { since, beganAt, message: messageOf(error).slice(0, maxMessage) };
  }

  /** Called for a pass that succeeded. */
  ended(): void {
    this.#failure = undefined;
  }

  /** The time of the first failure and the last error; empty unless passes have failed for a minute. */
  get warnings(): readonly string[] {
    if (this.#failure === undefined) return [];
    const { since, beganAt, message } = this.#failure;
    return this.#clock.monotonic() - beganAt < graceMs ? [] : [`routes not reconciled since ${since}: ${message}`];
  }
}
