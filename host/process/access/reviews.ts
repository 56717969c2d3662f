import type { V1SubjectAccessReview, V1TokenReview } from "@kubernetes/client-node";
import { ApiError, type Clock, CodedError, defineKind, type Wire } from "cloud-controller-host/sdk";
import { LRUCache } from "lru-cache";

import { within } from "../../async/timeout.ts";

export type TokenReview = Wire<V1TokenReview>;
export type SubjectAccessReview = Wire<V1SubjectAccessReview>;

/** Kinds that the API server answers and does not store. */
export const reviewKinds = {
  TokenReview: defineKind<TokenReview>({
    group: "authentication.k8s.io",
    version: "v1",
    kind: "TokenReview",
    plural: "tokenreviews",
    namespaced: false,
  }),
  SubjectAccessReview: defineKind<SubjectAccessReview>({
    group: "authorization.k8s.io",
    version: "v1",
    kind: "SubjectAccessReview",
    plural: "subjectaccessreviews",
    namespaced: false,
  }),
} as const;

/** Receives the HTTP code of each attempt, or `<error>` if the attempt got no reply, and its duration. */
export type ReviewObserver = (code: string, seconds: number) => void;

/** upstream: `options.DefaultAuthWebhookRetryBackoff`. */
const backoff = { firstMs: 500, factor: 1.5, jitter: 0.2, attempts: 5 } as const;
/** Per attempt. upstream: `DelegatingAuthorizationOptions.ClientTimeout`. */
const timeLimitMs = 10_000;
/**
 * Bun has 256 requests in flight for the whole process, and strangers can cause reviews: two kinds of review must leave
 * room for the lease and the controllers.
 */
const maxInFlight = 64;

/**
 * Sends reviews of one kind: a bounded number at once, each with a time limit, retried where that may help. One whose
 * client has gone neither waits nor is sent again: strangers may send requests faster than they are reviewed.
 */
export class ReviewClient {
  readonly #clock: Clock;
  readonly #observe: ReviewObserver;
  #inFlight = 0;
  readonly #waiting = new Set<() => void>();

  constructor(clock: Clock, observe: ReviewObserver) {
    this.#clock = clock;
    this.#observe = observe;
  }

  /**
   * Resolves with the reply of `create`, or rejects with the error of the last attempt. `gone` aborts when no client waits
   * for it any more.
   */
  async send<T>(create: (signal: AbortSignal) => Promise<T>, gone?: AbortSignal): Promise<T> {
    for (let attempt = 1, pauseMs: number = backoff.firstMs; ; attempt++, pauseMs *= backoff.factor) {
      try {
        return await this.#attempt(create, gone);
      } catch (error) {
        if (attempt === backoff.attempts || !isWorthRetrying(error)) throw error;
        await this.#clock.sleep(retryAfterMs(error) ?? pauseMs * (1 + backoff.jitter * Math.random()), gone);
      }
    }
  }

  async #attempt<T>(create: (signal: AbortSignal) => Promise<T>, gone?: AbortSignal): Promise<T> {
    gone?.throwIfAborted();
    if (this.#inFlight >= maxInFlight) await this.#turn(gone);
    this.#inFlight++;
    const startedMs = this.#clock.monotonic();
    const seconds = (): number => (this.#clock.monotonic() - startedMs) / 1000;
    const late = new AbortController();
    try {
      const reply = await within(this.#clock, timeLimitMs, create(late.signal));
      if (!reply.done) throw new CodedError("ReviewTimeout", `no reply within ${timeLimitMs / 1000} s`);
      this.#observe("201", seconds());
      return reply.value;
    } catch (error) {
      this.#observe(error instanceof ApiError ? String(error.status) : "<error>", seconds());
      late.abort(error);
      throw error;
    } finally {
      this.#inFlight--;
      const [next] = this.#waiting;
      if (next !== undefined) this.#waiting.delete(next);
      next?.();
    }
  }

  async #turn(gone: AbortSignal | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const leave = (): void => {
      this.#waiting.delete(resolve);
      reject(gone?.reason);
    };
    this.#waiting.add(resolve);
    gone?.addEventListener("abort", leave, { once: true });
    await promise.finally(() => gone?.removeEventListener("abort", leave));
  }
}

const retryAfterMs = (error: unknown): number | undefined =>
  error instanceof ApiError ? error.retryAfterMs : undefined;

/** upstream: `webhook.DefaultShouldRetry`. */
function isWorthRetrying(error: unknown): boolean {
  if (error instanceof ApiError) return [429, 500, 504].includes(error.status) || error.retryAfterMs !== undefined;
  const cause: unknown = error instanceof Error ? error.cause : undefined;
  return typeof cause === "object" && cause !== null && "code" in cause && cause.code === "ECONNRESET";
}

/** Replies of the API server, at most `size` of them, each kept for its own time to live. */
export class ReviewCache<T> {
  readonly #clock: Clock;
  readonly #entries: LRUCache<string, { readonly value: T; readonly expiresAt: number }>;

  constructor(clock: Clock, size: number) {
    this.#clock = clock;
    this.#entries = new LRUCache({ max: size });
  }

  get(key: string): T | undefined {
    const entry = this.#entries.get(key);
    return entry === undefined || entry.expiresAt <= this.#clock.monotonic() ? undefined : entry.value;
  }

  /** A time to live of 0 or less stores nothing. */
  set(key: string, value: T, ttlMs: number): void {
    if (ttlMs > 0) this.#entries.set(key, { value, expiresAt: this.#clock.monotonic() + ttlMs });
  }
}
