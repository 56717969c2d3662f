import type { Clock, LogFields, Logger } from "cloud-controller-host/sdk";

const burst = 20;
const perSecond = 1;

/** Error lines that strangers can cause: a burst, then one per second, which counts those left out. */
export class ThrottledLog {
  readonly #log: Logger;
  readonly #clock: Clock;
  #tokens = burst;
  #filledAtMs: number;
  #suppressed = 0;

  constructor(log: Logger, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
    this.#filledAtMs = clock.monotonic();
  }

  error(message: string, fields: LogFields): void {
    const nowMs = this.#clock.monotonic();
    this.#tokens = Math.min(burst, this.#tokens + ((nowMs - this.#filledAtMs) / 1000) * perSecond);
    this.#filledAtMs = nowMs;
    if (this.#tokens < 1) {
      this.#suppressed++;
      return;
    }
    this.#tokens--;
    this.#log.error(message, this.#suppressed === 0 ? fields : { ...fields, suppressed: this.#suppressed });
    this.#suppressed = 0;
  }
}
