import { CodedError, errorChain } from "cloud-controller-host/sdk";

import { Backoff } from "../async/backoff.ts";
import { isConfirmed, UnrequestedRemovalsError } from "./prepare/check-removals.ts";
import { retryTrigger } from "./report/reload-status.ts";
import type { ProcessScope } from "./scope/scope.ts";

/** A notification ends the wait; this is only how long a timer may be. */
const longWaitMs = 3_600_000;
/** Between two reads of the confirmations, while a reload is refused for want of one. */
const confirmationMs = 5_000;
/** Before a reload is tried again; a jitter of up to as much is added. */
const retry = { baseMs: 5_000, maxMs: 300_000 };
/** Codes of what is wrong with the input itself, until its next change. */
const ofInput: ReadonlySet<string> = new Set(["Problems", "CloudConfigUnreadable"]);

/**
 * The reload that was refused last, until the next one begins, and what it waits for. Removals wait for a person's
 * confirmation, and what was wrong with the config or the plugins for their next change. Anything else, such as a timeout
 * or a failed request, passes without a change of either, so that the reload is requested again, with growing pauses.
 */
export class RefusedReload {
  readonly #scope: ProcessScope;
  readonly #request: (trigger: string) => void;
  readonly #backoff = new Backoff(retry);
  /** Of the removals. */
  #unconfirmed: string | undefined;
  /** By the monotonic clock. */
  #retryAt: number | undefined;

  /** `request` requests a reload. */
  constructor(scope: ProcessScope, request: (trigger: string) => void) {
    this.#scope = scope;
    this.#request = request;
  }

  /** Milliseconds until `proceed` is to be called. */
  get waitMs(): number {
    if (this.#unconfirmed !== undefined) return confirmationMs;
    return this.#retryAt === undefined ? longWaitMs : Math.max(0, this.#retryAt - this.#scope.clock.monotonic());
  }

  /** A reload begins. One that is not the retry has its pauses grow from the shortest again. */
  began(trigger: string): void {
    this.#unconfirmed = undefined;
    this.#retryAt = undefined;
    if (trigger !== retryTrigger) this.#backoff.reset();
  }

  /** Returns the pause in milliseconds before the reload is tried again; undefined if it is not. */
  refused(thrown: unknown): number | undefined {
    // A plugin may throw a value that cannot be looked at.
    const [error] = errorChain(thrown);
    if (error instanceof UnrequestedRemovalsError) {
      this.#unconfirmed = error.hash;
      return undefined;
    }
    if (error instanceof CodedError && ofInput.has(error.code)) return undefined;
    const pauseMs = this.#backoff.next();
    this.#retryAt = this.#scope.clock.monotonic() + pauseMs;
    return pauseMs;
  }

  /** Requests the refused reload again if what it waits for has come. Does not wait for a read of the confirmations. */
  proceed(): void {
    const hash = this.#unconfirmed;
    if (hash !== undefined) void this.#requestWhenConfirmed(hash);
    else if (this.#retryAt !== undefined && this.#scope.clock.monotonic() >= this.#retryAt) this.#request(retryTrigger);
  }

  async #requestWhenConfirmed(hash: string): Promise<void> {
    if ((await isConfirmed(this.#scope, hash)) && this.#unconfirmed === hash) this.#request("removals confirmed");
  }
}
