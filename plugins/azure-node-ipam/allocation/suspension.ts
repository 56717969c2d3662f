import { CodedError, type Logger } from "cloud-controller-host/sdk";

/** Whether the controller gives CIDRs to nodes, and if not, why. Its health check says the same. */
export class Standing {
  readonly #log: Logger;
  #reason: string | undefined;

  constructor(log: Logger) {
    this.#log = log;
  }

  get aside(): boolean {
    return this.#reason !== undefined;
  }

  /** No node is given anything from now on. */
  stepAside(reason: string): void {
    if (this.#reason !== reason) this.#log.error("no node is given pod CIDRs", { reason });
    this.#reason = reason;
  }

  goOn(): void {
    this.#reason = undefined;
  }

  /** Throws the reason. */
  check(): void {
    if (this.#reason !== undefined)
      throw new CodedError("StandingAside", `no node is given pod CIDRs: ${this.#reason}`);
  }
}
