import type { V1SubjectAccessReview, V1TokenReview } from "@kubernetes/client-node";
import { ApiError, type Clock, CodedError, defineKind, type Wire } from "cloud-controller-host/sdk";
import { LRUCache } from "lru-cache";

export type TokenReview = Wire<V1TokenReview>;
export type SubjectAccessReview = Wire<V1SubjectAccessReview>;

/** Kinds that the API server answers and does not keep. */
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

/** Told of each try: its HTTP code, or `<error>` where there was no reply, and how long it took. */
export type ReviewObserver = (code: string, seconds: number) => void;

/** upstream: `options.DefaultAuthWebhookRetryBackoff`. */
const backoff = { firstMs: 500, factor: 1.5, jitter: 0.2, tries: 5 } as const;
const timeLimitMs = 10_000;

/** Asks for a review, with a time limit a try and a few tries more where the API server was only too busy. */
export async function askReview<T>(
  options: { readonly clock: Clock; readonly observe: ReviewObserver },
  ask: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { clock, observe } = options;
  for (let attempt = 1, pauseMs: number = backoff.firstMs; ; attempt++, pauseMs *= backoff.factor) {
    const startedMs = clock.monotonic();
    const seconds = (): number => (clock.monotonic() - startedMs) / 1000;
    try {
      const reply = await within(clock, ask);
      observe("201", seconds());
      return reply;
    } catch (error) {
      observe(error instanceof ApiError ? String(error.status) : "<error>", seconds());
      if (attempt === backoff.tries || !worthRetrying(error)) throw error;
      await clock.sleep(retryAfterMs(error) ?? pauseMs * (1 + backoff.jitter * Math.random()));
    }
  }
}

async function within<T>(clock: Clock, ask: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const answered = new AbortController();
  const late = new AbortController();
  const limit = clock.sleep(timeLimitMs, answered.signal).then(() => {
    if (answered.signal.aborted) return new Promise<never>(() => undefined);
    const error = new CodedError("ReviewTimeout", `no answer within ${timeLimitMs / 1000} s`);
    late.abort(error);
    throw error;
  });
  try {
    return await Promise.race([ask(late.signal), limit]);
  } finally {
    answered.abort();
  }
}

const retryAfterMs = (error: unknown): number | undefined =>
  error instanceof ApiError ? error.retryAfterMs : undefined;

const worthRetrying = (error: unknown): boolean =>
  error instanceof ApiError && ([429, 500, 504].includes(error.status) || error.retryAfterMs !== undefined);

/** Answers of the API server, at most `size` of them, each kept for its own time to live. */
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
