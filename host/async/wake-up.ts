import type { Clock } from "cloud-controller-host/sdk";

/** A flag that wakes its waiter. A notification before the wait is kept; several count as one. */
export class WakeUp {
  #notified = false;
  #waiter: AbortController | undefined;

  notify(): void {
    this.#notified = true;
    this.#waiter?.abort();
  }

  /** True if notified since the last call; the call clears it. */
  take(): boolean {
    const notified = this.#notified;
    this.#notified = false;
    return notified;
  }

  /** Waits for a notification, at most `ms`, or until the signal aborts; then clears it. */
  async wait(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
    const waiter = new AbortController();
    const wake = (): void => waiter.abort();
    signal.addEventListener("abort", wake, { once: true });
    this.#waiter = waiter;
    if (!this.#notified && !signal.aborted) await clock.sleep(ms, waiter.signal);
    this.#waiter = undefined;
    signal.removeEventListener("abort", wake);
    this.#notified = false;
  }
}
