import { createHmac, randomBytes } from "node:crypto";

import { type Clock, CodedError, type KubeClient } from "cloud-controller-host/sdk";

import type { AccessMetrics } from "./metrics.ts";
import { askReview, ReviewCache, reviewKinds } from "./reviews.ts";
import type { Authenticator, User } from "./user.ts";

export interface BearerTokenOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly metrics: AccessMetrics;
  /** How long an answer is kept; 0 or less: not at all. */
  readonly ttlMs: number;
}

const cachedTokens = 4096;

/** Asks the API server whose token it is. Source: kubernetes/apiserver `authentication/token` and its webhook. */
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

/** Any other scheme than Bearer is nothing to us. */
function tokenOf(authorization: string): string {
  const [scheme = "", token = ""] = authorization.trim().split(" ");
  return scheme.toLowerCase() === "bearer" ? token : "";
}

/** Answers are kept under a keyed hash, never under the token; errors are not kept; a token is asked for once at a time. */
class TokenReviewer {
  readonly #options: BearerTokenOptions;
  readonly #cache: ReviewCache<User | "unknown">;
  readonly #running = new Map<string, Promise<User | "unknown">>();
  readonly #secret = randomBytes(32);
  #blocked = 0;

  constructor(options: BearerTokenOptions) {
    this.#options = options;
    this.#cache = new ReviewCache(options.clock, cachedTokens);
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
    const { client, clock, metrics } = this.#options;
    const { status } = await askReview({ clock, observe: (...tried) => metrics.tokenReview(...tried) }, (signal) =>
      client.create(reviewKinds.TokenReview, { spec: { token } }, { signal }),
    );
    if (status?.authenticated !== true) return "unknown";
    const { username = "", uid = "", groups = [], extra = {} } = status.user ?? {};
    return { name: username, uid, groups, extra };
  }

  #count(moreBlocked: number): void {
    this.#blocked += moreBlocked;
    this.#options.metrics.tokenFetches(this.#running.size, this.#blocked);
  }
}
