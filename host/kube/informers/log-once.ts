import { CodedError, type Logger, messageOf } from "cloud-controller-host/sdk";

/** True if a request failed because the API server did not answer. */
export const isUnreachable = (error: unknown): boolean =>
  error instanceof CodedError && (error.code === "ApiServerUnreachable" || error.code === "Timeout");

/**
 * Logs an outage once when it begins and once when it ends; in between only at verbosity 4. Components that notice the
 * same outage share one of these.
 */
export class LogOnce {
  readonly #log: Logger;
  readonly #over: string;
  #lasts = false;

  /** `over` is the message for the end of the outage. */
  constructor(log: Logger, over: string) {
    this.#log = log;
    this.#over = over;
  }

  /** `what` names the failed operation and the reaction to it. */
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
