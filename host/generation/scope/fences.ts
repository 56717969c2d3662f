import type { Fence } from "cloud-controller-host/sdk";

import { GenerationFence } from "./fence.ts";
import type { Locks } from "./scope.ts";

/**
 * A generation's fences. A controller's asks the lock that the controller runs under. The cloud's own asks the main
 * lock and each other that work continues under: its pipeline cannot tell whose request it carries.
 */
export class Fences {
  readonly cloud: GenerationFence;
  readonly #locks: Locks;
  readonly #fences = new Map<string, GenerationFence>();
  readonly #opened = new Set<string>();

  constructor(locks: Locks) {
    this.#locks = locks;
    this.cloud = new GenerationFence(() => this.safelyHeld);
  }

  /** True if every lock whose fence has been opened is safely held. */
  get safelyHeld(): boolean {
    return [...this.#opened].every((lock) => this.#locks.safelyHeld(lock));
  }

  /** True if a write would be allowed now. */
  get anyOpen(): boolean {
    return [this.cloud, ...this.#fences.values()].some(({ closed }) => !closed);
  }

  of(lock: string): Fence {
    return this.#of(lock);
  }

  open(lock: string): void {
    this.#opened.add(lock);
    this.#of(lock).open();
    this.cloud.open();
  }

  /** Closes them all, for good. */
  close(): void {
    this.cloud.close();
    for (const fence of this.#fences.values()) fence.close();
  }

  #of(lock: string): GenerationFence {
    const known = this.#fences.get(lock);
    if (known !== undefined) return known;
    const made = new GenerationFence(() => this.#locks.safelyHeld(lock));
    this.#fences.set(lock, made);
    return made;
  }
}
