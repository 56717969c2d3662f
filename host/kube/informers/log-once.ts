import { CodedError, type Logger, messageOf } from "cloud-controller-host/sdk";

/** Whether a request failed because the API server did not answer, whatever it would have said. */
export const isUnreachable = (error: unknown): boolean =>
  error instanceof CodedError && (error.code === "ApiServerUnreachable" || error.code === "Timeout");

/**
 * Tells people once that something fails, whispers while it goes on, and tells them once when it is over. One of these
 * is shared by all who see the same outage, so that it is told once and not by each of them.
 */
export class LogOnce {
  readonly #log: Logger;
  readonly #over: string;
  #lasts = false;

  /** `over` is the line for its end. */
  constructor(log: Logger, over: string) {
    this.#log = log;
    this.#over = over;
  }

  /** `what` says what failed and what is done about it. */
  failed(what: string, error: unknown): void {
    const line = `${what}: ${messageOf(error)}`;
    if (this.#lasts) this.#log.debug(4, line);
    else this.#log.warn(line);
    this.#lasts = true;
  }

  ended(): void {
    if (this.#lasts) this.#log.info(this.#over);
    this.#lasts = false;
  }
}
