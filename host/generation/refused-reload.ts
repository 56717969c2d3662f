import { CodedError, errorChain } from "cloud-controller-host/sdk";

import { Backoff } from "../async/backoff.ts";
import type { OutstandingEntry } from "../async/outstanding-work.ts";
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
 * or a failed request, passes without a change of either, so that the reload is requested again, with growing pauses, but
 * not before the work that was given up has returned: one that hangs would be started, and its files copied, each time.
 */
export class RefusedReload {
  readonly #scope: ProcessScope;
  readonly #request: (trigger: string) => void;
  readonly #backoff = new Backoff(retry);
  /** Of the removals. */
  #unconfirmed: string | undefined;
  /** By the monotonic clock. */
  #retryAt: number | undefined;
  /** Work that was outstanding when the reload began. */
  #earlier: ReadonlySet<OutstandingEntry> = new Set();
  /** Work of the reload that was given up. */
  #abandoned: readonly OutstandingEntry[] = [];

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
    this.#earlier = new Set(this.#scope.outstanding.entries);
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
    // A controller that runs, perhaps again since then, is none of it.
    const left = this.#scope.outstanding.entries.filter(({ kind }) => kind !== "run");
    this.#abandoned = left.filter((entry) => !this.#earlier.has(entry));
    const pauseMs = this.#backoff.next();
    this.#pause(pauseMs);
    return pauseMs;
  }

  /** Requests the refused reload again if what it waits for has come. Does not wait for a read of the confirmations. */
  proceed(): void {
    const hash = this.#unconfirmed;
    if (hash !== undefined) void this.#requestWhenConfirmed(hash);
    if (this.#retryAt === undefined || this.#scope.clock.monotonic() < this.#retryAt) return;
    const { entries } = this.#scope.outstanding;
    if (this.#abandoned.some((entry) => entries.includes(entry))) this.#pause(retry.baseMs);
    else this.#request(retryTrigger);
  }

  #pause(ms: number): void {
    this.#retryAt = this.#scope.clock.monotonic() + ms;
  }

  async #requestWhenConfirmed(hash: string): Promise<void> {
    if ((await isConfirmed(this.#scope, hash)) && this.#unconfirmed === hash) this.#request("removals confirmed");
  }
}
