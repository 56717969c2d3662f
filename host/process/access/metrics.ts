import type { Metrics } from "cloud-controller-host/sdk";

export type AuthenticationResult = "success" | "failure" | "error";
export type AuthorizationResult = "allowed" | "denied" | "no-opinion" | "error";

/** Metrics of authentication and authorization, under upstream's names. Durations are in seconds. */
export interface AccessMetrics {
  authenticated(result: AuthenticationResult, seconds: number, username?: string): void;
  authorized(result: AuthorizationResult, seconds: number): void;
  /** A token lookup, answered by the cache or by a review. */
  token(status: "hit" | "miss", seconds: number): void;
  tokenFetch(status: "ok" | "error"): void;
  /** Reviews in flight, and requests that wait for the review of another request. */
  tokenFetches(inFlight: number, blocked: number): void;
  tokenReview(code: string, seconds: number): void;
  accessReview(code: string, seconds: number): void;
  /** Remaining validity of an accepted client certificate. */
  certificateExpires(seconds: number): void;
}

const requestBuckets = Array.from({ length: 15 }, (_, power) => 0.001 * 2 ** power);
const reviewBuckets = [0.25, 0.5, 0.7, 1, 1.5, 3, 5, 10];
const [minute, hour, day] = [60, 3600, 86_400];
const expiryBuckets = [
  0,
  30 * minute,
  ...[1, 2, 6, 12].map((hours) => hours * hour),
  ...[1, 2, 4, 7, 30, 90, 180, 360].map((days) => days * day),
];

/** Source: kubernetes/apiserver `endpoints/filters/metrics.go` and `authentication/token/cache/stats.go`. */
export function accessMetrics(metrics: Metrics): AccessMetrics {
  const counter = <Label extends string>(name: string, help: string, label: Label) =>
    metrics.counter({ name, help, labels: [label] });
  const histogram = <Label extends string>(name: string, help: string, label: Label, buckets: readonly number[]) =>
    metrics.histogram({ name, help, labels: [label], buckets });

  const attempts = counter("authentication_attempts", "Authentication attempts, by result.", "result");
  const users = counter("authenticated_user_requests", "Authenticated requests, by kind of user name.", "username");
  const authentication = histogram(
    "authentication_duration_seconds",
    "Authentication duration in seconds, by result.",
    "result",
    requestBuckets,
  );
  const decisions = counter("authorization_attempts_total", "Authorization attempts, by result.", "result");
  const authorization = histogram(
    "authorization_duration_seconds",
    "Authorization duration in seconds, by result.",
    "result",
    requestBuckets,
  );
  const tokens = counter("authentication_token_cache_request_total", "Token lookups, by cache result.", "status");
  const tokenTimes = histogram(
    "authentication_token_cache_request_duration_seconds",
    "Token lookup duration in seconds, by cache result.",
    "status",
    requestBuckets,
  );
  const fetches = counter("authentication_token_cache_fetch_total", "Token reviews, by result.", "status");
  const active = metrics.gauge({
    name: "authentication_token_cache_active_fetch_count",
    help: "Token reviews in flight, and requests blocked on the review of another request.",
    labels: ["status"],
  });
  const reviews = (kind: "authn" | "authz"): ((code: string, seconds: number) => void) => {
    const total = counter(
      `apiserver_delegated_${kind}_request_total`,
      "Review requests to the API server, by HTTP code.",
      "code",
    );
    const times = histogram(
      `apiserver_delegated_${kind}_request_duration_seconds`,
      "Review request duration in seconds, by HTTP code.",
      "code",
      reviewBuckets,
    );
    return (code, seconds) => {
      total.inc({ code });
      times.observe(seconds, { code });
    };
  };
  const expiry = metrics.histogram({
    name: "apiserver_client_certificate_expiration_seconds",
    help: "Remaining validity of client certificates in seconds, by request.",
    buckets: expiryBuckets,
  });

  return {
    authenticated(result, seconds, username) {
      attempts.inc({ result });
      authentication.observe(seconds, { result });
      if (username !== undefined) users.inc({ username: kindOfName(username) });
    },
    authorized(result, seconds) {
      decisions.inc({ result });
      authorization.observe(seconds, { result });
    },
    token(status, seconds) {
      tokens.inc({ status });
      tokenTimes.observe(seconds, { status });
    },
    tokenFetch: (status) => fetches.inc({ status }),
    tokenFetches(inFlight, blocked) {
      active.set(inFlight, { status: "in_flight" });
      active.set(blocked, { status: "blocked" });
    },
    tokenReview: reviews("authn"),
    accessReview: reviews("authz"),
    certificateExpires: (seconds) => expiry.observe(seconds),
  };
}

const namedUsers = new Set(["admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"]);

/** One label value per user name would create unbounded series. */
function kindOfName(username: string): string {
  if (namedUsers.has(username)) return username;
  return username.includes("@") ? "email_id" : "other";
}
