import type { Clock } from "cloud-controller-host/sdk";

/** A flag that wakes whoever waits for it. Rings before the wait count; several rings count once. */
export class Alarm {
  #rung = false;
  #waiter: AbortController | undefined;

  ring(): void {
    this.#rung = true;
    this.#waiter?.abort();
  }

  /** Whether it rang since the last look; the look clears it. */
  take(): boolean {
    const rung = this.#rung;
    this.#rung = false;
    return rung;
  }

  /** Waits for a ring, `ms` at most, or until the signal aborts; then clears it. */
  async wait(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
    const waiter = new AbortController();
    const wake = (): void => waiter.abort();
    signal.addEventListener("abort", wake, { once: true });
    this.#waiter = waiter;
    if (!this.#rung && !signal.aborted) await clock.sleep(ms, waiter.signal);
    this.#waiter = undefined;
    signal.removeEventListener("abort", wake);
    this.#rung = false;
  }
}
