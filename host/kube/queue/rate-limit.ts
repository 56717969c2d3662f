import type { Clock, RateLimit } from "cloud-controller-host/sdk";

/**
 * A token bucket that starts full. A reservation is always granted and waits until its token exists, so reservations
 * are served in order. Ported from golang.org/x/time/rate.
 */
export class TokenBucket {
  readonly #perMs: number;
  readonly #burst: number;
  readonly #clock: Clock;
  #tokens: number;
  #filledAt: number;

  /** `perSecond` and `burst` must be positive. */
  constructor(options: { readonly perSecond: number; readonly burst: number; readonly clock: Clock }) {
    this.#perMs = options.perSecond / 1000;
    this.#burst = options.burst;
    this.#clock = options.clock;
    this.#tokens = options.burst;
    this.#filledAt = options.clock.monotonic();
  }

  /** Reserves one token and returns the milliseconds until it may be used. */
  reserve(): number {
    this.#refill();
    this.#tokens -= 1;
    return this.#tokens >= 0 ? 0 : -this.#tokens / this.#perMs;
  }

  /** Takes one token if one is available. */
  tryTake(): boolean {
    this.#refill();
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }

  /** Waits for a token and returns the milliseconds waited; an aborted wait returns its token and rejects. */
  async take(signal?: AbortSignal): Promise<number> {
    signal?.throwIfAborted();
    const wait = this.reserve();
    if (wait === 0) return 0;
    await this.#clock.sleep(wait, signal);
    if (signal?.aborted) {
      this.#tokens = Math.min(this.#burst, this.#tokens + 1);
      throw signal.reason;
    }
    return wait;
  }

  #refill(): void {
    const now = this.#clock.monotonic();
    this.#tokens = Math.min(this.#burst, this.#tokens + (now - this.#filledAt) * this.#perMs);
    this.#filledAt = now;
  }
}

/** Delay of a key before its next attempt. upstream: `workqueue.TypedRateLimiter`. */
export interface RateLimiter {
  /** The delay in milliseconds; counts as one more failure of the key. */
  next(key: string): number;
  forget(key: string): void;
  failures(key: string): number;
}

const exponential = (limit: Extract<RateLimit, { type: "exponential" }>): RateLimiter => {
  const failures = new Map<string, number>();
  return {
    next(key) {
      const before = failures.get(key) ?? 0;
      failures.set(key, before + 1);
      return Math.min(limit.maxMs, limit.baseMs * 2 ** before);
    },
    forget: (key) => void failures.delete(key),
    failures: (key) => failures.get(key) ?? 0,
  };
};

const bucket = (limit: Extract<RateLimit, { type: "bucket" }>, clock: Clock): RateLimiter => {
  const tokens = new TokenBucket({ perSecond: limit.perSecond, burst: limit.burst, clock });
  return {
    next: () => Math.min(limit.maxDelayMs ?? Infinity, tokens.reserve()),
    forget: () => undefined,
    failures: () => 0,
  };
};

/** client-go's `DefaultTypedControllerRateLimiter`. */
const controllerDefault: readonly RateLimit[] = [
  { type: "exponential", baseMs: 5, maxMs: 1_000_000 },
  { type: "bucket", perSecond: 10, burst: 100 },
];

/** Combines limiters; the longest delay applies. upstream: `workqueue.MaxOfRateLimiter`. */
export function createRateLimiter(clock: Clock, limits: readonly RateLimit[] = controllerDefault): RateLimiter {
  const limiters = limits.map((limit) => (limit.type === "exponential" ? exponential(limit) : bucket(limit, clock)));
  return {
    next: (key) => Math.max(0, ...limiters.map((limiter) => limiter.next(key))),
    forget(key) {
      for (const limiter of limiters) limiter.forget(key);
    },
    failures: (key) => Math.max(0, ...limiters.map((limiter) => limiter.failures(key))),
  };
}
