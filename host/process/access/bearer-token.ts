import { createHmac, randomBytes } from "node:crypto";

import { type Clock, CodedError, type KubeClient } from "cloud-controller-host/sdk";

import type { AccessMetrics } from "./metrics.ts";
import { ReviewCache, ReviewClient, reviewKinds } from "./reviews.ts";
import type { Authenticator, User } from "./user.ts";

export interface BearerTokenOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly metrics: AccessMetrics;
  /** Time for which a reply is cached; 0 or less disables the cache. */
  readonly ttlMs: number;
}

const maxCachedTokens = 4096;

/** Authenticates bearer tokens by TokenReview. Source: kubernetes/apiserver `authentication/token` and its webhook. */
export function bearerTokens(options: BearerTokenOptions): Authenticator {
  const reviewer = new TokenReviewer(options);
  return async (request) => {
    const token = tokenOf(request.headers.get("authorization") ?? "");
    if (token === "") return undefined;
    const user = await reviewer.userOf(token, request.signal);
    if (user === "unknown") throw new CodedError("InvalidToken", "invalid bearer token");
    return user;
  };
}

/** Schemes other than Bearer are ignored. */
function tokenOf(authorization: string): string {
  const [scheme = "", token = ""] = authorization.trim().split(" ");
  return scheme.toLowerCase() === "bearer" ? token : "";
}

/** A review of a token, and the requests that wait for it. */
interface RunningReview {
  readonly user: Promise<User | "unknown">;
  /** Aborts when the clients of all have gone. */
  readonly gone: AbortController;
  requests: number;
}

/** Caches replies under a keyed hash, never under the token, and never errors; one review per token at a time. */
class TokenReviewer {
  readonly #options: BearerTokenOptions;
  readonly #cache: ReviewCache<User | "unknown">;
  readonly #running = new Map<string, RunningReview>();
  readonly #secret = randomBytes(32);
  readonly #reviews: ReviewClient;
  #blocked = 0;

  constructor(options: BearerTokenOptions) {
    this.#options = options;
    this.#cache = new ReviewCache(options.clock, maxCachedTokens);
    this.#reviews = new ReviewClient(options.clock, (...attempt) => options.metrics.tokenReview(...attempt));
  }

  async userOf(token: string, signal: AbortSignal): Promise<User | "unknown"> {
    signal.throwIfAborted();
    const { clock, metrics } = this.#options;
    const startedMs = clock.monotonic();
    const key = createHmac("sha256", this.#secret).update(token).digest("base64");
    const known = this.#cache.get(key);
    try {
      return known ?? (await this.#shared(key, token, signal));
    } finally {
      metrics.token(known === undefined ? "miss" : "hit", (clock.monotonic() - startedMs) / 1000);
    }
  }

  async #shared(key: string, token: string, signal: AbortSignal): Promise<User | "unknown"> {
    const known = this.#running.get(key);
    const isFirst = known === undefined || known.gone.signal.aborted;
    const running = isFirst ? this.#begin(key, token) : known;
    const leave = (): void => {
      if (--running.requests === 0) running.gone.abort(signal.reason);
    };
    running.requests++;
    signal.addEventListener("abort", leave, { once: true });
    this.#count(isFirst ? 0 : 1);
    try {
      return await running.user;
    } finally {
      signal.removeEventListener("abort", leave);
      this.#count(isFirst ? 0 : -1);
    }
  }

  #begin(key: string, token: string): RunningReview {
    const gone = new AbortController();
    const user = this.#fetch(key, token, gone.signal);
    const running = { user, gone, requests: 0 };
    this.#running.set(key, running);
    // One that was given up as it waited may have been begun again.
    const ended = (): void => {
      if (this.#running.get(key) === running) this.#running.delete(key);
    };
    user.then(ended, ended);
    return running;
  }

  async #fetch(key: string, token: string, gone: AbortSignal): Promise<User | "unknown"> {
    const { metrics, ttlMs } = this.#options;
    try {
      const user = await this.#review(token, gone);
      this.#cache.set(key, user, ttlMs);
      metrics.tokenFetch("ok");
      return user;
    } catch (error) {
      metrics.tokenFetch("error");
      throw error;
    }
  }

  async #review(token: string, gone: AbortSignal): Promise<User | "unknown"> {
    const { client } = this.#options;
    const { status } = await this.#reviews.send(
      (signal) => client.create(reviewKinds.TokenReview, { spec: { token } }, { signal }),
      gone,
    );
    if (status?.authenticated !== true) {
      // Sent for an unknown token, and also while an OIDC provider is down: it must not be cached as a refusal.
      if ((status?.error ?? "") !== "") throw new CodedError("TokenReview", `token review failed: ${status?.error}`);
      return "unknown";
    }
    const { username = "", uid = "", groups = [], extra = {} } = status.user ?? {};
    return { name: username, uid, groups, extra };
  }

  #count(moreBlocked: number): void {
    this.#blocked += moreBlocked;
    this.#options.metrics.tokenFetches(this.#running.size, this.#blocked);
  }
}
