import { createHash } from "node:crypto";

import type { Clock, KubeClient } from "cloud-controller-host/sdk";

import type { AccessMetrics } from "./metrics.ts";
import { ReviewCache, ReviewClient, reviewKinds, type SubjectAccessReview } from "./reviews.ts";
import { groups, type User } from "./user.ts";

/** The attributes of a request: always a path, never a resource. upstream: `authorizer.Attributes`. */
export interface Attributes {
  /** The method in lower case. */
  readonly verb: string;
  readonly path: string;
}

export interface Decision {
  readonly result: "allowed" | "denied" | "no-opinion";
  readonly reason: string;
}

/** Rejects when the API server could not be asked, or was not before the signal aborted. */
export type Authorizer = (user: User, attributes: Attributes, signal?: AbortSignal) => Promise<Decision>;

export interface AuthorizationOptions {
  /** Without one, only the paths below are authorized. */
  readonly client: KubeClient | undefined;
  readonly clock: Clock;
  readonly metrics: AccessMetrics;
  /** An exact path, or a prefix that ends in `*`; the leading slash is optional. */
  readonly alwaysAllowPaths: readonly string[];
  readonly allowedTtlMs: number;
  readonly deniedTtlMs: number;
}

const allowed: Decision = { result: "allowed", reason: "" };
const noOpinion: Decision = { result: "no-opinion", reason: "" };

const maxCachedDecisions = 8192;
/** upstream: `maxControlledAttrCacheSize`. */
const maxKeyLength = 10_000;

/** Source: kubernetes/apiserver `options.DelegatingAuthorizationOptions`. */
export function authorizeBy(options: AuthorizationOptions): Authorizer {
  const { client } = options;
  const isOpen = pathMatcher(options.alwaysAllowPaths);
  const reviewed = client === undefined ? undefined : reviewedBy(client, options);
  return async (user, attributes, signal) => {
    if (user.groups.includes(groups.masters) || isOpen(attributes.path)) return allowed;
    return reviewed === undefined ? noOpinion : reviewed(user, attributes, signal);
  };
}

function pathMatcher(paths: readonly string[]): (path: string) => boolean {
  const normal = paths.map((path) => path.replace(/^\//, ""));
  const exact = new Set(normal.filter((path) => !path.endsWith("*")));
  const prefixes = normal.filter((path) => path.endsWith("*")).map((path) => path.slice(0, -1));
  return (path) => {
    const asked = path.replace(/^\//, "");
    return exact.has(asked) || prefixes.some((prefix) => asked.startsWith(prefix));
  };
}

function reviewedBy(client: KubeClient, options: AuthorizationOptions): Authorizer {
  const { clock, metrics, allowedTtlMs, deniedTtlMs } = options;
  const cache = new ReviewCache<Decision>(clock, maxCachedDecisions);
  const reviews = new ReviewClient(clock, (...attempt) => metrics.accessReview(...attempt));
  return async ({ name, uid, groups: memberships, extra }, nonResourceAttributes, gone) => {
    const spec: SubjectAccessReview["spec"] = { user: name, uid, groups: memberships, extra, nonResourceAttributes };
    const text = JSON.stringify(spec);
    // A stranger chooses the path: the cache holds thousands of hashes, not of texts.
    const key = createHash("sha256").update(text).digest("base64");
    const known = cache.get(key);
    if (known !== undefined) return known;
    const { status } = await reviews.send(
      (signal) => client.create(reviewKinds.SubjectAccessReview, { spec }, { signal }),
      gone,
    );
    const decision = decisionOf(status);
    const ttlMs = decision.result === "allowed" ? allowedTtlMs : deniedTtlMs;
    // A refusal for want of a working authorizer is not a decision to remember.
    const isError = decision.result === "no-opinion" && (status?.evaluationError ?? "") !== "";
    if (text.length <= maxKeyLength && !isError) cache.set(key, decision, ttlMs);
    return decision;
  };
}

/** A reply that both allows and denies, denies. */
function decisionOf(status: SubjectAccessReview["status"]): Decision {
  const reason = status?.reason ?? "";
  if (status?.denied === true) return { result: "denied", reason };
  return { result: status?.allowed === true ? "allowed" : "no-opinion", reason };
}
