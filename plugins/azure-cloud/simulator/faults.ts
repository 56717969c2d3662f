/** An error reply: ARM's status, code and message. Thrown by whatever refuses a request. */
export class ArmFault extends Error {
  readonly status: number;
  readonly code: string;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, code: string, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.name = "ArmFault";
    this.status = status;
    this.code = code;
    this.headers = headers;
  }
}

export const notFound = (what: string): ArmFault =>
  new ArmFault(404, "ResourceNotFound", `The Resource '${what}' was not found.`);

/** ARM does not offer the method at this path. */
export const methodNotAllowed = (method: string, what: string): ArmFault =>
  new ArmFault(405, "MethodNotAllowed", `The HTTP method '${method}' is not supported for '${what}'.`);

/** The reply of a handler. A string body is JSON text already. */
export interface ArmReply {
  readonly status: number;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Selects requests by method and by part of the path (case-insensitive) or pattern; all given conditions must match.
 */
export interface RequestMatcher {
  readonly method?: string;
  readonly path?: string | RegExp;
}

/**
 * The point at which a request fails.
 * - `request`: the request is refused.
 * - `operation`: a write is accepted and its long-running operation fails.
 * - `response`: the request is carried out, and the reply is the failure.
 * - `connection`: the request is carried out, and the connection breaks in the middle of the reply.
 */
export type FailureStage = "request" | "operation" | "response" | "connection";

export interface Failure {
  readonly status: number;
  readonly code?: string;
  readonly message?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Number of requests that fail; default 1. */
  readonly times?: number;
  /** Default: `request`. */
  readonly stage?: FailureStage;
}

interface Planned {
  readonly matcher: RequestMatcher;
  readonly failure: Failure;
  left: number;
}

const fits = (matcher: RequestMatcher, method: string, path: string): boolean => {
  if (matcher.method !== undefined && matcher.method.toUpperCase() !== method) return false;
  if (matcher.path === undefined) return true;
  if (typeof matcher.path === "string") return path.toLowerCase().includes(matcher.path.toLowerCase());
  return matcher.path.test(path);
};

/** Holds a request before or after it is carried out. */
export type HoldStage = Extract<FailureStage, "request" | "response">;

/** Requests whose reply is held back. */
export interface Hold {
  readonly waiting: () => number;
  readonly release: () => void;
}

interface Held {
  readonly matcher: RequestMatcher;
  readonly stage: HoldStage;
  readonly end: Promise<void>;
  waiting: number;
}

/** Pending failures in the order in which they were injected. */
export class Faults {
  readonly #planned: Planned[] = [];
  readonly #holds = new Set<Held>();
  #lasting: (RequestMatcher & { readonly status: number; readonly until: number })[] = [];
  #disturbance: { readonly status: 429 | 503; readonly until: number } | undefined;

  failNext(matcher: RequestMatcher, failure: Failure): void {
    this.#planned.push({ matcher, failure, left: failure.times ?? 1 });
  }

  /** Holds every matching request until released. */
  hold(matcher: RequestMatcher, stage: HoldStage): Hold {
    const { promise: end, resolve } = Promise.withResolvers<void>();
    const hold = { matcher, stage, end, waiting: 0 };
    this.#holds.add(hold);
    const release = (): void => {
      this.#holds.delete(hold);
      resolve();
    };
    return { waiting: () => hold.waiting, release };
  }

  /** Resolves when no hold matches the request any more. */
  async held(stage: HoldStage, method: string, path: string): Promise<void> {
    for (const hold of this.#holds) {
      if (hold.stage !== stage || !fits(hold.matcher, method, path)) continue;
      hold.waiting += 1;
      await hold.end;
      hold.waiting -= 1;
    }
  }

  /** Fails every request with that status for `forMs`. */
  disturb(status: 429 | 503, forMs: number): void {
    this.#disturbance = { status, until: performance.now() + forMs };
  }

  /** Fails matching requests with that status for `forMs`. */
  failFor(matcher: RequestMatcher, status: number, forMs: number): void {
    this.#lasting.push({ ...matcher, status, until: performance.now() + forMs });
  }

  clear(): void {
    this.#planned.length = 0;
    this.#lasting = [];
    this.#disturbance = undefined;
  }

  /** Number of failures still pending. */
  get pending(): number {
    return this.#planned.reduce((sum, { left }) => sum + left, 0);
  }

  /** Takes the pending failure for a request at a stage, if any. */
  take(stage: FailureStage, method: string, path: string): ArmFault | undefined {
    const disturbed = stage === "request" ? (this.#disturbed() ?? this.#lastingFailure(method, path)) : undefined;
    if (disturbed !== undefined) return disturbed;
    const index = this.#planned.findIndex(
      (planned) => (planned.failure.stage ?? "request") === stage && fits(planned.matcher, method, path),
    );
    const planned = this.#planned[index];
    if (planned === undefined) return undefined;
    planned.left -= 1;
    if (planned.left <= 0) this.#planned.splice(index, 1);
    const { status, code, message, headers } = planned.failure;
    return new ArmFault(
      status,
      code ?? codes[status] ?? "InternalServerError",
      message ?? "An injected failure.",
      headers,
    );
  }

  #lastingFailure(method: string, path: string): ArmFault | undefined {
    this.#lasting = this.#lasting.filter(({ until }) => until > performance.now());
    const failure = this.#lasting.find((matcher) => fits(matcher, method, path));
    if (failure === undefined) return undefined;
    const { status } = failure;
    return new ArmFault(status, codes[status] ?? "InternalServerError", "An injected failure.");
  }

  #disturbed(): ArmFault | undefined {
    const { status, until } = this.#disturbance ?? { status: 503, until: 0 };
    const leftMs = until - performance.now();
    if (leftMs <= 0) return undefined;
    const headers = { "retry-after": String(Math.ceil(leftMs / 1000)) };
    return status === 429
      ? new ArmFault(429, "TooManyRequests", "The request is being throttled.", headers)
      : new ArmFault(503, "ServiceUnavailable", "The service is unavailable.");
  }
}

const codes: Readonly<Record<number, string>> = {
  400: "BadRequest",
  401: "ExpiredAuthenticationToken",
  403: "AuthorizationFailed",
  404: "ResourceNotFound",
  409: "Conflict",
  412: "PreconditionFailed",
  429: "TooManyRequests",
  503: "ServiceUnavailable",
  504: "GatewayTimeout",
};

/** ARM's own limits: a bucket for reads and one for writes, reported in headers and enforced with 429. */
export interface RateLimits {
  readonly reads: { readonly burst: number; readonly perSecond: number };
  readonly writes: { readonly burst: number; readonly perSecond: number };
}

export class RateLimiter {
  readonly #limits: RateLimits;
  readonly #buckets = new Map<string, { tokens: number; at: number }>();

  constructor(limits: RateLimits) {
    this.#limits = limits;
  }

  /** Takes a token; returns the header to send, or throws the 429 without one. */
  take(method: string): Readonly<Record<string, string>> {
    const kind = method === "GET" || method === "HEAD" ? "reads" : "writes";
    const { burst, perSecond } = this.#limits[kind];
    const now = performance.now();
    const bucket = this.#buckets.get(kind) ?? { tokens: burst, at: now };
    const tokens = Math.min(burst, bucket.tokens + ((now - bucket.at) * perSecond) / 1000);
    const granted = tokens >= 1;
    this.#buckets.set(kind, { tokens: granted ? tokens - 1 : tokens, at: now });
    if (granted) return { [`x-ms-ratelimit-remaining-subscription-${kind}`]: String(Math.floor(tokens - 1)) };
    const seconds = String(Math.max(1, Math.ceil((1 - tokens) / perSecond)));
    throw new ArmFault(429, "TooManyRequests", "The request is being throttled.", { "retry-after": seconds });
  }
}
