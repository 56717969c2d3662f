import { type Logger, messageOf } from "cloud-controller-host/sdk";

import { isLostRace } from "./requests.ts";

export interface FailedAttempt {
  readonly error: unknown;
  /** The attempt's own signal aborted: an earlier failure says more than that. */
  readonly isAborted: boolean;
  readonly isHeld: boolean;
}

/** The failures of attempts to write one Lease, until one succeeds. */
export class LeaseFailures {
  readonly #log: Logger;
  /** `namespace/name`, as client-go logs it. */
  readonly #lock: string;
  #last: unknown;
  #complaint = "";

  constructor(log: Logger, lock: string) {
    this.#log = log;
    this.#lock = lock;
  }

  /** Why the last failed attempt failed; undefined once an attempt has succeeded. */
  get last(): unknown {
    return this.#last;
  }

  clear(): void {
    this.#last = undefined;
    this.#complaint = "";
  }

  /** A step of an attempt failed, and another follows: `message` says which. */
  step(message: string, error: unknown): void {
    this.#last = error;
    this.#log.debug(2, message, { lock: this.#lock, error });
  }

  attempt({ error, isAborted, isHeld }: FailedAttempt): void {
    if (isAborted) this.#last ??= error;
    else if (isLostRace(error)) this.step("Lease was written by another candidate first", error);
    else this.#complain(error, isHeld);
  }

  /** A standby may fail the same way for hours, every other second: logged once. A leader's failures are all logged. */
  #complain(error: unknown, isHeld: boolean): void {
    this.#last = error;
    const complaint = messageOf(error);
    const message = "Failed to update lock";
    if (complaint === this.#complaint && !isHeld) this.#log.debug(4, message, { lock: this.#lock, error });
    else this.#log.error(message, { lock: this.#lock, error });
    this.#complaint = complaint;
  }
}
