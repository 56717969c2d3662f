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
    const user = await reviewer.userOf(token);
    if (user === "unknown") throw new CodedError("InvalidToken", "invalid bearer token");
    return user;
  };
}

/** Schemes other than Bearer are ignored. */
function tokenOf(authorization: string): string {
  const [scheme = "", token = ""] = authorization.trim().split(" ");
  return scheme.toLowerCase() === "bearer" ? token : "";
}

/** Caches replies under a keyed hash, never under the token, and never errors; one review per token at a time. */
class TokenReviewer {
  readonly #options: BearerTokenOptions;
  readonly #cache: ReviewCache<User | "unknown">;
  readonly #running = new Map<string, Promise<User | "unknown">>();
  readonly #secret = randomBytes(32);
  readonly #reviews: ReviewClient;
  #blocked = 0;

  constructor(options: BearerTokenOptions) {
    this.#options = options;
    this.#cache = new ReviewCache(options.clock, maxCachedTokens);
    this.#reviews = new ReviewClient(options.clock, (...attempt) => options.metrics.tokenReview(...attempt));
  }

  async userOf(token: string): Promise<User | "unknown"> {
    const { clock, metrics } = this.#options;
    const startedMs = clock.monotonic();
    const key = createHmac("sha256", this.#secret).update(token).digest("base64");
    const known = this.#cache.get(key);
    try {
      return known ?? (await this.#shared(key, token));
    } finally {
      metrics.token(known === undefined ? "miss" : "hit", (clock.monotonic() - startedMs) / 1000);
    }
  }

  async #shared(key: string, token: string): Promise<User | "unknown"> {
    const running = this.#running.get(key);
    if (running === undefined) {
      const fetch = this.#fetch(key, token);
      this.#running.set(key, fetch);
      this.#count(0);
      return fetch;
    }
    this.#count(1);
    try {
      return await running;
    } finally {
      this.#count(-1);
    }
  }

  async #fetch(key: string, token: string): Promise<User | "unknown"> {
    const { metrics, ttlMs } = this.#options;
    try {
      const user = await this.#review(token);
      this.#cache.set(key, user, ttlMs);
      metrics.tokenFetch("ok");
      return user;
    } catch (error) {
      metrics.tokenFetch("error");
      throw error;
    } finally {
      this.#running.delete(key);
      this.#count(0);
    }
  }

  async #review(token: string): Promise<User | "unknown"> {
    const { client } = this.#options;
    const { status } = await this.#reviews.send((signal) =>
      client.create(reviewKinds.TokenReview, { spec: { token } }, { signal }),
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
