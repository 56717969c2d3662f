import type { Clock } from "cloud-controller-host/sdk";

/** A cloud call that takes longer than this gives its place to the next one. */
const graceMs = 1_000;
/** … while there are at most this many of them per place. */
const slowPerPlace = 15;

/** Maximum number of keys in progress with `limit` places. */
export const maxInFlight = (limit: number): number => limit * (1 + slowPerPlace);

/**
 * Limits concurrent work without letting slow calls take all places: waiting for the cloud costs nothing, and the next
 * key may need another load balancer.
 */
export class Places {
  readonly #clock: Clock;
  readonly #limit: number;
  /** Resolve with the place, in order of arrival. */
  readonly #waiting = new Set<() => void>();
  #taken = 0;
  #slow = 0;

  constructor(clock: Clock, limit: number) {
    this.#clock = clock;
    this.#limit = limit;
  }

  /** Resolves with a place, or with undefined once the signal aborts. To be called with `Symbol.dispose` at the end. */
  async enter(signal: AbortSignal): Promise<Disposable | undefined> {
    if (!(await this.#take(signal))) return undefined;
    const ended = new AbortController();
    const slow = this.#giveUpLater(ended.signal);
    return {
      [Symbol.dispose]: () => {
        ended.abort();
        if (slow.isSlow) this.#slow -= 1;
        else this.#leave();
      },
    };
  }

  #giveUpLater(ended: AbortSignal): { readonly isSlow: boolean } {
    const state = { isSlow: false };
    const giveUp = async (): Promise<void> => {
      await this.#clock.sleep(graceMs, ended);
      if (ended.aborted || this.#slow >= this.#limit * slowPerPlace) return;
      state.isSlow = true;
      this.#slow += 1;
      this.#leave();
    };
    void giveUp();
    return state;
  }

  async #take(signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return false;
    if (this.#taken < this.#limit) {
      this.#taken += 1;
      return true;
    }
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const enter = (): void => resolve(true);
    const stop = (): void => {
      this.#waiting.delete(enter);
      resolve(false);
    };
    this.#waiting.add(enter);
    signal.addEventListener("abort", stop, { once: true });
    const isIn = await promise;
    signal.removeEventListener("abort", stop);
    return isIn;
  }

  /** The place passes to the key that has waited longest. */
  #leave(): void {
    const [next] = this.#waiting;
    if (next === undefined) this.#taken -= 1;
    else {
      this.#waiting.delete(next);
      next();
    }
  }
}
