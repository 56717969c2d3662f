import { type Clock, createCooperativeYield, RetryAfterError } from "cloud-controller-host/sdk";

import type { Budget } from "../../arm/pipeline/budget.ts";

/** Writes at once. */
const initialSize = 64;
const minSize = 4;
const maxSize = 128;

/** With more than this part of ARM's tokens left the window grows, and with less than the other it shrinks. */
const plentyPart = 0.5;
const scarcePart = 0.25;

/**
 * The number of instances and interfaces that are written at once. It follows what ARM accepts: it grows by one with each write
 * that succeeds while ARM reports enough tokens for writes and their polls; it shrinks by one with each write while tokens
 * are scarce, and is halved by a 429, once for each `Retry-After`. Once it has shrunk it grows by one only after as many
 * writes as it has places.
 */
export class WriteWindow {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #budget: Pick<Budget, "headroom">;
  #size = initialSize;
  #hasShrunk = false;
  #throttledUntilMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, "monotonic">, budget: Pick<Budget, "headroom">) {
    this.#clock = clock;
    this.#budget = budget;
  }

  get places(): number {
    return Math.floor(this.#size);
  }

  /**
   * Writes the items. Calls with the same `running` share their places, and any other has its own: writes that take minutes
   * delay none of a later call. `write` never rejects, and resolves to the error of its request, if any.
   */
  async each<T>(
    items: readonly T[],
    write: (item: T) => Promise<unknown>,
    running = new Set<Promise<void>>(),
  ): Promise<void> {
    const learn = async (item: T): Promise<void> => this.#learn(await write(item));
    const pause = createCooperativeYield();
    for (const item of items) {
      for (let turn = pause(); turn !== undefined; turn = pause()) await turn;
      while (running.size >= this.places) await Promise.race(running);
      const one: Promise<void> = learn(item).finally(() => running.delete(one));
      running.add(one);
    }
    await Promise.all(running);
  }

  #learn(error: unknown): void {
    const now = this.#clock.monotonic();
    if (error instanceof RetryAfterError) {
      // Those that were in flight are refused as well, and those that follow before ARM accepts any.
      if (now >= this.#throttledUntilMs) this.#shrink(this.#size / 2);
      this.#throttledUntilMs = Math.max(this.#throttledUntilMs, now + error.delayMs);
      return;
    }
    if (error !== undefined || now < this.#throttledUntilMs) return;
    const { headroom } = this.#budget;
    if (headroom > plentyPart) this.#size = Math.min(maxSize, this.#size + (this.#hasShrunk ? 1 / this.#size : 1));
    else if (headroom < scarcePart) this.#shrink(this.#size - 1);
  }

  #shrink(size: number): void {
    this.#hasShrunk = true;
    this.#size = Math.max(minSize, size);
  }
}
